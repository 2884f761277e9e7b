# Steps of a model in TensorFlow, timed, in a tf.function. Words of the setting: xla, frozen (inference).
import os

os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import tensorflow as tf  # noqa: E402: it reads the variable above

import tensorflow_models  # noqa: E402
import timing  # noqa: E402


def trainer(arguments, net, x, labels):
    forward = tensorflow_models.MODELS[arguments.model]
    state, powers = [], []

    def update(weight, gradient, mean, square):
        tf.raw_ops.ResourceApplyAdam(var=weight.handle, m=mean.handle, v=square.handle, beta1_power=powers[0],
                                     beta2_power=powers[1], lr=1e-3, beta1=0.9, beta2=0.999, epsilon=1e-7,
                                     grad=gradient)

    @tf.function(jit_compile='xla' in arguments.words)
    def step(x, labels):
        net.start()
        with tf.GradientTape() as tape:
            loss = tensorflow_models.loss(arguments.model, forward(net, x), labels)
        gradients = tape.gradient(loss, net.weights)
        if not state:
            with tf.init_scope():  # outside of the function that is being traced
                powers.extend([tf.Variable(0.9), tf.Variable(0.999)])
                state.extend([tf.Variable(tf.zeros(w.shape)) for _ in range(2)] for w in net.weights)
        for weight, gradient, (mean, square) in zip(net.weights, gradients, state):
            update(weight, tf.convert_to_tensor(gradient), mean, square)
        powers[0].assign(powers[0] * 0.9)
        powers[1].assign(powers[1] * 0.999)
        return loss

    return lambda: float(step(x, labels))


def predictor(arguments, net, x):
    forward = tensorflow_models.MODELS[arguments.model]

    @tf.function(jit_compile='xla' in arguments.words)
    def step(x):
        net.start()
        return forward(net, x)

    run = step
    if 'frozen' in arguments.words:
        from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
        frozen = convert_variables_to_constants_v2(step.get_concrete_function(x))
        return lambda: float(frozen(x)[0][0, 0])
    return lambda: float(run(x)[0, 0])


def main():
    arguments = timing.parse_arguments()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    net = tensorflow_models.Net(training=not arguments.inference)
    x, labels = [tf.constant(part) for part in
                 tensorflow_models.data(arguments.model, arguments.batch, arguments.sequence)]
    step = predictor(arguments, net, x) if arguments.inference else trainer(arguments, net, x, labels)
    timing.measure(arguments, step, tf.__version__, lambda: sum(int(tf.size(weight)) for weight in net.weights))


if __name__ == '__main__':
    main()
