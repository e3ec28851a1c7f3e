"""tf.initializers."""

from sparkflow.ops.init_more import identity_initializer as identity
from sparkflow.ops.init_more import orthogonal_initializer as orthogonal
from sparkflow.ops.init_more import uniform_unit_scaling_initializer as uniform_unit_scaling
from sparkflow.ops.init_ops import constant_initializer as constant
from sparkflow.ops.init_ops import glorot_normal_initializer as glorot_normal
from sparkflow.ops.init_ops import glorot_uniform_initializer as glorot_uniform
from sparkflow.ops.init_ops import he_normal, he_uniform, lecun_normal, lecun_uniform
from sparkflow.ops.init_ops import ones_initializer as ones
from sparkflow.ops.init_ops import random_normal_initializer as random_normal
from sparkflow.ops.init_ops import random_uniform_initializer as random_uniform
from sparkflow.ops.init_ops import truncated_normal_initializer as truncated_normal
from sparkflow.ops.init_ops import variance_scaling_initializer as variance_scaling
from sparkflow.ops.init_ops import zeros_initializer as zeros
from sparkflow.ops.lookup_initializers import tables_initializer
from sparkflow.ops.variables import global_variables_initializer as global_variables
from sparkflow.ops.variables import local_variables_initializer as local_variables
from sparkflow.ops.variables import variables_initializer as variables
