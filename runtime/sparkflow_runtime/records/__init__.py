"""Record files, and the messages in them.

Kernels that parse stand on these modules, and these on the kernels' compiler: whichever is imported first, the
kernels' package has to begin before.
"""

from sparkflow_runtime.kernels import compiled as _kernels
