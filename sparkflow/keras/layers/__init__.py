"""tf.keras.layers: layers of Keras' names and defaults, called on tensors of a graph; what they compute is trained by a
model's `fit`, or by a tf.train optimizer in a session.

Their variables are named in name scopes, and their losses and updates are theirs: neither tf.get_variable's reuse nor
the graph's collections know of them.
"""

from sparkflow.keras.engine import Layer
from sparkflow.keras.layers.attention import AdditiveAttention, Attention, MultiHeadAttention
from sparkflow.keras.layers.cells import GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells
from sparkflow.keras.layers.conv_recurrent import ConvLSTM2D
from sparkflow.keras.layers.convolutional import (
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Conv3DTranspose,
    Cropping1D,
    Cropping2D,
    Cropping3D,
    DepthwiseConv2D,
    SeparableConv1D,
    SeparableConv2D,
    UpSampling1D,
    UpSampling2D,
    UpSampling3D,
    ZeroPadding1D,
    ZeroPadding2D,
    ZeroPadding3D,
)
from sparkflow.keras.layers.core import (
    Activation,
    ActivityRegularization,
    AlphaDropout,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    GaussianDropout,
    GaussianNoise,
    Input,
    InputLayer,
    Lambda,
    Masking,
    Permute,
    RepeatVector,
    Reshape,
    SpatialDropout1D,
    SpatialDropout2D,
    SpatialDropout3D,
)
from sparkflow.keras.layers.features import DenseFeatures
from sparkflow.keras.layers.functions import ELU, LeakyReLU, PReLU, ReLU, Softmax, ThresholdedReLU
from sparkflow.keras.layers.local import LocallyConnected1D, LocallyConnected2D
from sparkflow.keras.layers.merging import (
    Add,
    Average,
    Concatenate,
    Dot,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    add,
    average,
    concatenate,
    dot,
    maximum,
    minimum,
    multiply,
    subtract,
)
from sparkflow.keras.layers.normalization import BatchNormalization, LayerNormalization
from sparkflow.keras.layers.pooling import (
    AveragePooling1D,
    AveragePooling2D,
    AveragePooling3D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
    GlobalMaxPooling1D,
    GlobalMaxPooling2D,
    GlobalMaxPooling3D,
    MaxPooling1D,
    MaxPooling2D,
    MaxPooling3D,
)
from sparkflow.keras.layers.recurrent import GRU, LSTM, RNN, Bidirectional, SimpleRNN, TimeDistributed, Wrapper
from sparkflow.layers.input_spec import InputSpec

Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution2DTranspose, Convolution3DTranspose = Conv2DTranspose, Conv3DTranspose
SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D
MaxPool1D, MaxPool2D, MaxPool3D = MaxPooling1D, MaxPooling2D, MaxPooling3D
AvgPool1D, AvgPool2D, AvgPool3D = AveragePooling1D, AveragePooling2D, AveragePooling3D
GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D = GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D
GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D = (
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalAveragePooling3D,
)
