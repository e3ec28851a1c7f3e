"""tf.linalg."""

from types import SimpleNamespace as _SimpleNamespace

from sparkflow.ops.clip import global_norm
from sparkflow.ops.einsum import einsum
from sparkflow.ops.linalg import (
    adjoint,
    cholesky,
    cholesky_solve,
    cross,
    eye,
    logdet,
    norm,
    qr,
    slogdet,
    svd,
    tensordot,
    trace,
)
from sparkflow.ops.linalg import matrix_determinant as det
from sparkflow.ops.linalg import matrix_inverse as inv
from sparkflow.ops.linalg import matrix_solve as solve
from sparkflow.ops.linalg import matrix_solve_ls as lstsq
from sparkflow.ops.linalg import matrix_triangular_solve as triangular_solve
from sparkflow.ops.linalg import self_adjoint_eig as eigh
from sparkflow.ops.linalg import self_adjoint_eigvals as eigvalsh
from sparkflow.ops.linalg_functions import (
    lu,
    lu_matrix_inverse,
    lu_reconstruct,
    lu_solve,
    matrix_rank,
    matvec,
    normalize,
    pinv,
    tridiagonal_matmul,
    tridiagonal_solve,
)
from sparkflow.ops.linalg_functions import matrix_exponential as expm
from sparkflow.ops.linalg_functions import matrix_logarithm as logm
from sparkflow.ops.linalg_functions import matrix_square_root as sqrtm
from sparkflow.ops.linalg_late import conjugate_gradient as _conjugate_gradient
from sparkflow.ops.linalg_late import eigh_tridiagonal
from sparkflow.ops.linalg_parts import diag as tensor_diag
from sparkflow.ops.linalg_parts import diag_part as tensor_diag_part
from sparkflow.ops.linalg_parts import matrix_band_part as band_part
from sparkflow.ops.linalg_parts import matrix_diag as diag
from sparkflow.ops.linalg_parts import matrix_diag_part as diag_part
from sparkflow.ops.linalg_parts import matrix_set_diag as set_diag
from sparkflow.ops.linalg_parts import matrix_transpose
from sparkflow.ops.linalg_parts import matrix_transpose as transpose
from sparkflow.ops.linear_operators import (
    LinearOperator,
    LinearOperatorDiag,
    LinearOperatorFullMatrix,
    LinearOperatorIdentity,
    LinearOperatorLowerTriangular,
    LinearOperatorScaledIdentity,
)
from sparkflow.ops.linear_operators_composed import (
    LinearOperatorAdjoint,
    LinearOperatorBlockDiag,
    LinearOperatorBlockLowerTriangular,
    LinearOperatorComposition,
    LinearOperatorInversion,
    LinearOperatorKronecker,
)
from sparkflow.ops.linear_operators_structured import (
    LinearOperatorCirculant,
    LinearOperatorCirculant2D,
    LinearOperatorCirculant3D,
    LinearOperatorHouseholder,
    LinearOperatorPermutation,
    LinearOperatorToeplitz,
    LinearOperatorTridiag,
    LinearOperatorZeros,
)
from sparkflow.ops.linear_operators_update import LinearOperatorLowRankUpdate
from sparkflow.ops.math import matmul
from sparkflow.ops.nn import l2_normalize

experimental = _SimpleNamespace(conjugate_gradient=_conjugate_gradient)
