"""tf.keras.layers."""
from ..._absent import absent
from ._attention import AdditiveAttention, Attention, MultiHeadAttention
from ._base import InputSpec, Layer
from ._core import (ELU, Activation, ActivityRegularization, Dense, Dropout, EinsumDense, Embedding, Flatten,
                    GaussianDropout, GaussianNoise, Identity, Input, InputLayer, Lambda, LeakyReLU, Masking, Permute, PReLU,
                    ReLU, RepeatVector, Reshape, Softmax, SpatialDropout1D, SpatialDropout2D, SpatialDropout3D)
from ._images import (AveragePooling1D, AveragePooling2D, AveragePooling3D, AvgPool1D, AvgPool2D, AvgPool3D, Conv1D,
                      Conv1DTranspose, Conv2D, Conv2DTranspose, Conv3D, Conv3DTranspose, Cropping1D, Cropping2D, Cropping3D,
                      DepthwiseConv2D, GlobalAveragePooling1D, GlobalAveragePooling2D, GlobalAveragePooling3D,
                      GlobalAvgPool1D, GlobalAvgPool2D, GlobalAvgPool3D, GlobalMaxPool1D, GlobalMaxPool2D, GlobalMaxPool3D,
                      GlobalMaxPooling1D, GlobalMaxPooling2D, GlobalMaxPooling3D, MaxPool1D, MaxPool2D, MaxPool3D,
                      MaxPooling1D, MaxPooling2D, MaxPooling3D, SeparableConv2D, UpSampling1D, UpSampling2D, ZeroPadding1D,
                      ZeroPadding2D, ZeroPadding3D)
from ._merge import (Add, Average, Concatenate, Dot, Maximum, Minimum, Multiply, Subtract, add, average, concatenate, dot,
                     maximum, minimum, multiply, subtract)
from ._norms import (BatchNormalization, GroupNormalization, LayerNormalization, Normalization, RMSNormalization,
                     UnitNormalization)
from ._preprocess import (CategoryEncoding, CenterCrop, Discretization, RandomBrightness, RandomContrast, RandomCrop,
                          RandomFlip, RandomTranslation, Rescaling, Resizing)
from ._recurrent import (GRU, LSTM, RNN, Bidirectional, GRUCell, LSTMCell, SimpleRNN, SimpleRNNCell, StackedRNNCells,
                         TimeDistributed)

Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
SeparableConvolution2D = SeparableConv2D

__getattr__ = absent("tf.keras.layers", globals(), {
    "StringLookup": "a vocabulary of your own: layers take numbers",
    "TextVectorization": "plimsoll.data.Dataset.text, or numbers that you made of the text",
    "RandomRotation": "RandomFlip, RandomTranslation or RandomCrop",
    "RandomZoom": "RandomCrop and Resizing",
    "ConvLSTM2D": "LSTM over features of TimeDistributed(Conv2D)",
    "ConvLSTM1D": "LSTM over features of TimeDistributed(Conv1D)",
})


def serialize(layer):
    return {"class_name": type(layer).__name__, "config": layer.get_config()}


def deserialize(config, custom_objects=None):
    from ..models._saving import layer_of
    return layer_of(config, custom_objects)
