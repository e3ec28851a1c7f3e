"""The names that tensorflow.python.layers.convolutional has beside the short ones."""

from sparkflow.layers import conv

Convolution1D, Convolution2D, Convolution3D = conv.Conv1D, conv.Conv2D, conv.Conv3D
Convolution2DTranspose = Deconvolution2D = Deconv2D = conv.Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = conv.Conv3DTranspose
SeparableConvolution1D, SeparableConvolution2D = conv.SeparableConv1D, conv.SeparableConv2D
convolution1d, convolution2d, convolution3d = conv.conv1d, conv.conv2d, conv.conv3d
convolution2d_transpose = deconvolution2d = deconv2d = conv.conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = conv.conv3d_transpose
separable_convolution2d = conv.separable_conv2d
