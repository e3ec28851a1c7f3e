"""tf.contrib.rnn: the cells of tf.nn.rnn_cell and the loops of tf.nn."""

from sparkflow.ops.rnn import static_bidirectional_rnn, static_rnn
from sparkflow.ops.rnn_cell import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LSTMCell,
    LSTMStateTuple,
    MultiRNNCell,
    RNNCell,
)
from sparkflow.ops.rnn_wrappers import DeviceWrapper, DropoutWrapper, ResidualWrapper
