# The built-in models of src/model in TensorFlow: the same layers, widths, dropout, padding and losses; images are NHWC.
# Written with plain operators, whose fused forms (batch norm, Adam) are faster than what Keras composes.
import numpy as np
import tensorflow as tf

numbers = np.random.default_rng(1)


class Net:
    """Makes the variables in the first call of a model, and hands them out again, in order, in later ones."""

    def __init__(self, training):
        self.training = training
        self.weights, self.statistics = [], []
        self.next_weight = self.next_statistic = 0

    def start(self):
        self.next_weight = self.next_statistic = 0

    def weight(self, make):
        if self.next_weight == len(self.weights):
            with tf.init_scope():  # outside of the function that is being traced
                self.weights.append(tf.Variable(make()))
        self.next_weight += 1
        return self.weights[self.next_weight - 1]

    def statistic(self, make):
        if self.next_statistic == len(self.statistics):
            with tf.init_scope():
                self.statistics.append(tf.Variable(make(), trainable=False))
        self.next_statistic += 1
        return self.statistics[self.next_statistic - 1]

    def zeros(self, count):
        return self.weight(lambda: tf.zeros([count]))

    def ones(self, count):
        return self.weight(lambda: tf.ones([count]))

    def table(self, rows, width):
        return self.weight(lambda: numbers.standard_normal((rows, width), np.float32) * np.float32(0.02))

    def dense(self, x, units):
        width = x.shape[-1]
        reach = np.sqrt(6 / (width + units))
        kernel = self.weight(lambda: numbers.uniform(-reach, reach, (width, units)).astype(np.float32))
        flat = tf.reshape(x, [-1, width])
        y = tf.nn.bias_add(tf.matmul(flat, kernel), self.zeros(units))
        return y if len(x.shape) == 2 else tf.reshape(y, [*x.shape[:-1], units])

    def kernel(self, size, channels, filters):
        scale = np.float32(np.sqrt(2 / (size * size * channels)))
        return self.weight(lambda: numbers.standard_normal((size, size, channels, filters), np.float32) * scale)

    def conv(self, x, filters, size, stride=1, same=True, bias=True):
        pad = size // 2 if same else 0
        pads = [[0, 0], [pad, pad], [pad, pad], [0, 0]]
        padding = ('SAME' if same else 'VALID') if stride == 1 else pads
        y = tf.nn.conv2d(x, self.kernel(size, x.shape[-1], filters), stride, padding)
        return tf.nn.bias_add(y, self.zeros(filters)) if bias else y

    def depthwise(self, x, stride):
        channels = x.shape[-1]
        kernel = self.weight(lambda: numbers.standard_normal((3, 3, channels, 1), np.float32) * np.float32(0.47))
        if stride == 1:
            return tf.nn.depthwise_conv2d(x, kernel, [1, 1, 1, 1], 'SAME')
        x = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return tf.nn.depthwise_conv2d(x, kernel, [1, stride, stride, 1], 'VALID')

    def conv_transpose(self, x, filters):
        shape = (2, 2, filters, x.shape[-1])
        kernel = self.weight(lambda: numbers.standard_normal(shape, np.float32) * np.float32(0.02))
        twice = [x.shape[0], 2 * x.shape[1], 2 * x.shape[2], filters]
        return tf.nn.bias_add(tf.nn.conv2d_transpose(x, kernel, twice, 2, 'VALID'), self.zeros(filters))

    def batch_norm(self, x):
        channels = x.shape[-1]
        gamma, beta = self.ones(channels), self.zeros(channels)
        mean, variance = self.statistic(lambda: tf.zeros([channels])), self.statistic(lambda: tf.ones([channels]))
        y, new_mean, new_variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=gamma, offset=beta, mean=mean, variance=variance, epsilon=1e-5, is_training=self.training,
            exponential_avg_factor=0.1 if self.training else 1.0)
        if self.training:
            mean.assign(new_mean)
            variance.assign(new_variance)
        return y

    def layer_norm(self, x, epsilon):
        width = x.shape[-1]
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, self.zeros(width), self.ones(width), epsilon)

    def dropout(self, x, rate):
        return tf.nn.dropout(x, rate) if self.training else x


def pool(x):
    return tf.nn.max_pool2d(x, 2, 2, 'VALID')


def flatten(x):
    return tf.reshape(x, [x.shape[0], -1])


def mlp(net, x):
    x = flatten(x)
    for _ in range(2):
        x = tf.nn.relu(net.dense(x, 512))
    return net.dense(x, 10)


def lenet(net, x):
    x = pool(tf.nn.relu(net.conv(x, 6, 5)))
    x = flatten(pool(tf.nn.relu(net.conv(x, 16, 5, same=False))))
    for units in (120, 84):
        x = tf.nn.relu(net.dense(x, units))
    return net.dense(x, 10)


def dense_chain(net, x):
    for _ in range(5000):
        x = tf.nn.relu(net.dense(x, 100))
    return x


def conv_norm(net, x, filters, size, stride=1):
    return net.batch_norm(net.conv(x, filters, size, stride, bias=False))


def residual(net, x, filters, stride, is_bottleneck):
    if is_bottleneck:
        y = tf.nn.relu(conv_norm(net, x, filters, 1))
        y = tf.nn.relu(conv_norm(net, y, filters, 3, stride))
        y = conv_norm(net, y, 4 * filters, 1)
    else:
        y = conv_norm(net, tf.nn.relu(conv_norm(net, x, filters, 3, stride)), filters, 3)
    fits = stride == 1 and x.shape[-1] == y.shape[-1]
    return tf.nn.relu(y + (x if fits else conv_norm(net, x, y.shape[-1], 1, stride)))


def resnet(depths, is_bottleneck):
    def forward(net, x):
        x = tf.nn.relu(conv_norm(net, x, 64, 7, 2))
        x = tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 3, 2, 'VALID')  # nothing is below zero
        for stage, depth in enumerate(depths):
            for i in range(depth):
                x = residual(net, x, 64 << stage, 2 if stage > 0 and i == 0 else 1, is_bottleneck)
        return net.dense(tf.reduce_mean(x, [1, 2]), 1000)

    return forward


def mobilenet_v2(net, x):
    x = tf.nn.relu6(conv_norm(net, x, 32, 3, 2))
    for expansion, filters, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                               (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(blocks):
            step = stride if i == 0 else 1
            y = tf.nn.relu6(conv_norm(net, x, expansion * x.shape[-1], 1)) if expansion != 1 else x
            y = tf.nn.relu6(net.batch_norm(net.depthwise(y, step)))
            y = conv_norm(net, y, filters, 1)
            x = x + y if step == 1 and x.shape[-1] == filters else y
    x = tf.nn.relu6(conv_norm(net, x, 1280, 1))
    return net.dense(net.dropout(tf.reduce_mean(x, [1, 2]), 0.2), 1000)


def vgg16(net, x):
    for filters, convolutions in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(convolutions):
            x = tf.nn.relu(net.conv(x, filters, 3))
        x = pool(x)
    x = flatten(x)
    for _ in range(2):
        x = net.dropout(tf.nn.relu(net.dense(x, 4096)), 0.5)
    return net.dense(x, 1000)


def two_convolutions(net, x, filters):
    for _ in range(2):
        x = tf.nn.relu(net.conv(x, filters, 3))
    return x


def unet(net, x):
    skips = []
    for level in range(4):
        skips.append(two_convolutions(net, x, 64 << level))
        x = pool(skips[-1])
    x = two_convolutions(net, x, 64 << 4)
    for level in reversed(range(4)):
        x = tf.concat([skips.pop(), net.conv_transpose(x, 64 << level)], -1)
        x = two_convolutions(net, x, 64 << level)
    return net.conv(x, 2, 1)


def attend(net, x, causal):
    batch, positions, width = x.shape
    q, k, v = [tf.transpose(tf.reshape(part, [batch, positions, width // 64, 64]), [0, 2, 1, 3])
               for part in tf.split(net.dense(x, 3 * width), 3, -1)]
    scores = tf.matmul(q, k, transpose_b=True) * 0.125
    if causal:
        scores += np.triu(np.full((positions, positions), -1e9, np.float32), 1)
    mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores), v), [0, 2, 1, 3])
    return net.dropout(net.dense(tf.reshape(mixed, [batch, positions, width]), width), 0.1)


def language(words, positions, is_bert):
    epsilon = 1e-12 if is_bert else 1e-5

    def feed(net, x):
        x = tf.nn.gelu(net.dense(x, 3072), approximate=not is_bert)
        return net.dropout(net.dense(x, 768), 0.1)

    def block(net, x):
        if is_bert:
            x = net.layer_norm(x + attend(net, x, False), epsilon)
            return net.layer_norm(x + feed(net, x), epsilon)
        x = x + attend(net, net.layer_norm(x, epsilon), True)
        return x + feed(net, net.layer_norm(x, epsilon))

    def forward(net, x):
        table = net.table(words, 768)
        x = tf.gather(table, x) + net.table(positions, 768)[:x.shape[1]]
        if is_bert:
            x = net.layer_norm(x + net.table(2, 768)[:1], epsilon)
        x = net.dropout(x, 0.1)
        for _ in range(12):
            x = block(net, x)
        if is_bert:
            x = tf.nn.gelu(net.dense(x, 768), approximate=False)
        x = net.layer_norm(x, epsilon)
        return tf.matmul(tf.reshape(x, [-1, 768]), table, transpose_b=True)

    return forward


MODELS = {
    'mlp': mlp,
    'lenet': lenet,
    'dense-chain': dense_chain,
    'resnet18': resnet((2, 2, 2, 2), False),
    'resnet50': resnet((3, 4, 6, 3), True),
    'mobilenet_v2': mobilenet_v2,
    'vgg16': vgg16,
    'unet': unet,
    'bert-base': language(30522, 512, True),
    'gpt2-small': language(50257, 1024, False),
}


def data(name, batch, sequence):
    """A batch of synthetic inputs and labels."""
    if name in ('bert-base', 'gpt2-small'):
        words = 30522 if name == 'bert-base' else 50257
        return [numbers.integers(words, size=(batch, sequence), dtype=np.int32) for _ in range(2)]
    if name == 'dense-chain':
        return [numbers.random((batch, 100), np.float32) for _ in range(2)]
    size, channels, classes = {'unet': (256, 3, 2), 'mlp': (28, 1, 10), 'lenet': (28, 1, 10)}.get(name, (224, 3, 1000))
    labels = (batch, size, size) if name == 'unet' else (batch,)
    return [numbers.random((batch, size, size, channels), np.float32),
            numbers.integers(classes, size=labels, dtype=np.int32)]


def loss(name, answer, labels):
    if name == 'dense-chain':
        return tf.reduce_mean(tf.math.squared_difference(answer, labels))
    if name in ('bert-base', 'gpt2-small'):
        labels = tf.reshape(labels, [-1])
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, answer))
