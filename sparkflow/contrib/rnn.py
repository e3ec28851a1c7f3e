"""tf.contrib.rnn: the cells of tf.nn.rnn_cell and the loops of tf.nn."""

from sparkflow.contrib.rnn_cells import (
    AttentionCellWrapper,
    Conv1DLSTMCell,
    Conv2DLSTMCell,
    Conv3DLSTMCell,
    ConvLSTMCell,
    CoupledInputForgetGateLSTMCell,
    EmbeddingWrapper,
    GRUBlockCell,
    GRUBlockCellV2,
    HighwayWrapper,
    InputProjectionWrapper,
    LayerNormBasicLSTMCell,
    LSTMBlockCell,
    OutputProjectionWrapper,
    UGRNNCell,
)
from sparkflow.contrib.rnn_fused import FusedRNNCell, FusedRNNCellAdaptor, LSTMBlockFusedCell, TimeReversedFusedRNN
from sparkflow.contrib.rnn_stacks import stack_bidirectional_dynamic_rnn, stack_bidirectional_rnn
from sparkflow.ops.rnn import batch_and_time_swapped as transpose_batch_time
from sparkflow.ops.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from sparkflow.ops.rnn_cell import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LayerRNNCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    RNNCell,
)
from sparkflow.ops.rnn_raw import raw_rnn
from sparkflow.ops.rnn_wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper
