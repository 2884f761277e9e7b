"""What TensorFlow's semantics are, case by case: each gives arrays, from `tf` being tensorflow or plimsoll.tf.

bench/golden_tensorflow.py runs the cases under tensorflow and writes tf_golden.npz; test_tf_golden.py runs them here.
"""
import numpy as np


def numbers(*shape, seed=0, low=-1.0, high=1.0):
    return np.random.RandomState(seed + int(np.prod(shape))).uniform(low, high, shape).astype(np.float32)


def filled(layer):
    """Weights that do not depend on who draws."""
    layer.set_weights([numbers(*one.shape, seed=7 * i, low=0.1 if one.ndim == 1 else -0.7, high=0.9)
                       for i, one in enumerate(layer.get_weights())])


def layer_case(make, *inputs, training=None, call=lambda layer, inputs, training: layer(*inputs, training=training)):
    """The output of a layer, and the gradients of a weighed sum of it by inputs and weights."""
    def run(tf):
        layer = make(tf.keras.layers)
        given = [tf.constant(one) for one in inputs]
        call(layer, given, False)
        filled(layer)
        with tf.GradientTape() as tape:
            floats = [one for one in given if one.dtype == tf.float32]
            for one in floats:
                tape.watch(one)
            made = call(layer, given, training)
            parts = made if isinstance(made, (list, tuple)) else [made]
            total = 0.0
            for i, one in enumerate(parts):
                total += tf.reduce_sum(one * numbers(*one.shape, seed=3 + i))
        gradients = tape.gradient(total, floats + layer.trainable_variables)
        found = {f"out{i}": one for i, one in enumerate(parts)}
        found.update({f"grad{i}": tf.convert_to_tensor(one) for i, one in enumerate(gradients) if one is not None})
        found.update({f"state{i}": one for i, one in enumerate(layer.non_trainable_variables)
                      if len(one.shape) and one.dtype == tf.float32})
        return found
    return run


IMAGE, SEQUENCE = numbers(2, 9, 8, 3), numbers(3, 7, 4)
ROWS = numbers(5, 6)


def _two(layer, inputs, training):
    return layer(list(inputs), training=training)


LAYERS = {
    "dense": (lambda L: L.Dense(4, activation="tanh"), ROWS),
    "dense_3d": (lambda L: L.Dense(4, use_bias=False), SEQUENCE),
    "dense_softmax": (lambda L: L.Dense(4, activation="softmax"), ROWS),
    "conv2d_valid": (lambda L: L.Conv2D(5, 3, activation="relu"), IMAGE),
    "conv2d_same_strided": (lambda L: L.Conv2D(4, (3, 2), strides=2, padding="same"), IMAGE),
    "conv2d_dilated": (lambda L: L.Conv2D(4, 3, dilation_rate=2), IMAGE),
    "conv2d_groups": (lambda L: L.Conv2D(6, 3, groups=2), numbers(2, 6, 6, 4)),
    "conv1d_same": (lambda L: L.Conv1D(5, 3, padding="same"), SEQUENCE),
    "conv1d_causal": (lambda L: L.Conv1D(5, 3, padding="causal", dilation_rate=2), SEQUENCE),
    "conv3d": (lambda L: L.Conv3D(3, 2, padding="same"), numbers(2, 4, 5, 4, 2)),
    "conv2d_transpose_valid": (lambda L: L.Conv2DTranspose(4, 3, strides=2), numbers(2, 4, 5, 3)),
    "conv2d_transpose_same": (lambda L: L.Conv2DTranspose(4, 3, strides=2, padding="same"), numbers(2, 4, 5, 3)),
    "conv2d_transpose_gaps": (lambda L: L.Conv2DTranspose(4, 2, strides=3, padding="same"), numbers(2, 4, 5, 3)),
    "conv1d_transpose": (lambda L: L.Conv1DTranspose(4, 3, strides=2, padding="same"), SEQUENCE),
    "depthwise": (lambda L: L.DepthwiseConv2D(3, depth_multiplier=2, padding="same"), IMAGE),
    "separable": (lambda L: L.SeparableConv2D(5, 3, activation="relu"), IMAGE),
    "max_pool": (lambda L: L.MaxPooling2D(2), IMAGE),
    "max_pool_same": (lambda L: L.MaxPooling2D(3, strides=2, padding="same"), IMAGE),
    "average_pool_same": (lambda L: L.AveragePooling2D(3, strides=2, padding="same"), IMAGE),
    "max_pool_1d": (lambda L: L.MaxPooling1D(2), SEQUENCE),
    "average_pool_1d": (lambda L: L.AveragePooling1D(3, strides=1, padding="same"), SEQUENCE),
    "max_pool_3d": (lambda L: L.MaxPooling3D(2), numbers(2, 4, 5, 4, 2)),
    "global_average": (lambda L: L.GlobalAveragePooling2D(), IMAGE),
    "global_max": (lambda L: L.GlobalMaxPooling2D(keepdims=True), IMAGE),
    "global_average_1d": (lambda L: L.GlobalAveragePooling1D(), SEQUENCE),
    "flatten": (lambda L: L.Flatten(), IMAGE),
    "reshape": (lambda L: L.Reshape((12, -1)), IMAGE),
    "permute": (lambda L: L.Permute((2, 1)), SEQUENCE),
    "repeat_vector": (lambda L: L.RepeatVector(3), ROWS),
    "batch_norm_train": (lambda L: L.BatchNormalization(momentum=0.9), ROWS, True),
    "batch_norm_image_train": (lambda L: L.BatchNormalization(), IMAGE, True),
    "batch_norm_sequence_train": (lambda L: L.BatchNormalization(), SEQUENCE, True),
    "batch_norm_predict": (lambda L: L.BatchNormalization(), IMAGE, False),
    "batch_norm_plain": (lambda L: L.BatchNormalization(center=False, scale=False), ROWS, True),
    "layer_norm": (lambda L: L.LayerNormalization(), SEQUENCE),
    "layer_norm_axes": (lambda L: L.LayerNormalization(axis=[1, 2], epsilon=1e-5), SEQUENCE),
    "group_norm": (lambda L: L.GroupNormalization(groups=2), numbers(2, 5, 4, 6)),
    "unit_norm": (lambda L: L.UnitNormalization(), ROWS),
    "leaky_relu": (lambda L: L.LeakyReLU(0.1), ROWS),
    "prelu": (lambda L: L.PReLU(), ROWS),
    "elu": (lambda L: L.ELU(), ROWS),
    "relu_options": (lambda L: L.ReLU(max_value=0.5, negative_slope=0.1), ROWS),
    "softmax_axis": (lambda L: L.Softmax(axis=1), SEQUENCE),
    "embedding": (lambda L: L.Embedding(9, 4), np.array([[1, 2, 8], [0, 2, 2]], np.int32)),
    "simple_rnn": (lambda L: L.SimpleRNN(5), SEQUENCE),
    "lstm": (lambda L: L.LSTM(5, return_sequences=True), SEQUENCE),
    "lstm_state": (lambda L: L.LSTM(5, return_state=True), SEQUENCE),
    "lstm_backwards": (lambda L: L.LSTM(4, go_backwards=True), SEQUENCE),
    "gru": (lambda L: L.GRU(5), SEQUENCE),
    "gru_before": (lambda L: L.GRU(5, reset_after=False, return_sequences=True), SEQUENCE),
    "bidirectional": (lambda L: L.Bidirectional(L.LSTM(3, return_sequences=True)), SEQUENCE),
    "bidirectional_sum": (lambda L: L.Bidirectional(L.GRU(3), merge_mode="sum"), SEQUENCE),
    "time_distributed": (lambda L: L.TimeDistributed(L.Dense(3)), SEQUENCE),
    "zero_padding": (lambda L: L.ZeroPadding2D(((1, 2), (0, 3))), IMAGE),
    "cropping": (lambda L: L.Cropping2D(((1, 2), (0, 3))), IMAGE),
    "up_sampling": (lambda L: L.UpSampling2D((2, 3)), IMAGE),
    "up_sampling_bilinear": (lambda L: L.UpSampling2D(2, interpolation="bilinear"), IMAGE),
    "up_sampling_1d": (lambda L: L.UpSampling1D(2), SEQUENCE),
    "rescaling": (lambda L: L.Rescaling(1 / 127.5, offset=-1), IMAGE),
    "regularised": (lambda L: L.Dense(3, kernel_regularizer="l2"), ROWS),
    "einsum_dense": (lambda L: L.EinsumDense("abc,cd->abd", output_shape=(None, 3), bias_axes="d"), SEQUENCE),
}
CASES = {f"layer_{name}": layer_case(make, x, training=training[0] if training else None)
         for name, (make, x, *training) in LAYERS.items()}
CASES.update({
    "layer_concatenate": layer_case(lambda L: L.Concatenate(), ROWS, numbers(5, 2), call=_two),
    "layer_add": layer_case(lambda L: L.Add(), ROWS, numbers(5, 6, seed=9), call=_two),
    "layer_average": layer_case(lambda L: L.Average(), ROWS, numbers(5, 6, seed=9), call=_two),
    "layer_maximum": layer_case(lambda L: L.Maximum(), ROWS, numbers(5, 6, seed=9), call=_two),
    "layer_dot": layer_case(lambda L: L.Dot(axes=1, normalize=True), ROWS, numbers(5, 6, seed=9), call=_two),
    "layer_attention": layer_case(lambda L: L.Attention(use_scale=True), SEQUENCE, numbers(3, 5, 4), call=_two),
    "layer_additive_attention": layer_case(lambda L: L.AdditiveAttention(), SEQUENCE, numbers(3, 5, 4), call=_two),
    "layer_multi_head": layer_case(lambda L: L.MultiHeadAttention(2, 3), SEQUENCE, SEQUENCE),
    "layer_multi_head_causal": layer_case(
        lambda L: L.MultiHeadAttention(2, 3), SEQUENCE,
        call=lambda layer, given, training: layer(given[0], given[0], use_causal_mask=True)),
})


def loss_case(name, positive=False, integer=False, **options):
    def run(tf):
        y_pred = tf.constant(numbers(6, 4, seed=1, low=0.05 if positive else -2.0, high=0.95 if positive else 2.0))
        if integer:
            y_true = np.array([0, 3, 1, 2, 2, 1])
        else:
            y_true = np.eye(4, dtype=np.float32)[[0, 3, 1, 2, 2, 1]]
        found, weights = {}, np.array([1, 0, 2, 0.5, 1, 3], np.float32)
        for reduction in ("sum_over_batch_size", "sum", "none"):
            loss = getattr(tf.keras.losses, name)(reduction=reduction, **options)
            with tf.GradientTape() as tape:
                tape.watch(y_pred)
                value = loss(y_true, y_pred)
            found[reduction], found["grad_" + reduction] = value, tape.gradient(value, y_pred)
            found["weighed_" + reduction] = loss(y_true, y_pred, sample_weight=weights)
        return found
    return run


for _name, _options in {
    "MeanSquaredError": {}, "MeanAbsoluteError": {}, "MeanAbsolutePercentageError": {"positive": True}, "Huber": {"delta": 0.7},
    "LogCosh": {}, "Hinge": {}, "SquaredHinge": {}, "CategoricalHinge": {}, "Poisson": {"positive": True},
    "KLDivergence": {"positive": True}, "CosineSimilarity": {}, "MeanSquaredLogarithmicError": {"positive": True},
    "BinaryCrossentropy": {"positive": True}, "CategoricalCrossentropy": {"positive": True},
    "SparseCategoricalCrossentropy": {"positive": True, "integer": True}, "BinaryFocalCrossentropy": {"positive": True},
    "CategoricalFocalCrossentropy": {"positive": True},
}.items():
    CASES[f"loss_{_name}"] = loss_case(_name, **_options)
for _name, _integer in (("BinaryCrossentropy", False), ("CategoricalCrossentropy", False),
                        ("SparseCategoricalCrossentropy", True)):
    CASES[f"loss_{_name}_logits"] = loss_case(_name, integer=_integer, from_logits=True)
CASES["loss_CategoricalCrossentropy_smooth"] = loss_case("CategoricalCrossentropy", from_logits=True, label_smoothing=0.1)
CASES["loss_BinaryCrossentropy_smooth"] = loss_case("BinaryCrossentropy", positive=True, label_smoothing=0.1)


def optimizer_case(name, **options):
    def run(tf):
        weights = [tf.Variable(numbers(4, 3)), tf.Variable(numbers(3, seed=5))]
        optimizer = getattr(tf.keras.optimizers, name)(**options)
        for step in range(5):
            gradients = [tf.constant(numbers(4, 3, seed=20 + step)), tf.constant(10 * numbers(3, seed=30 + step))]
            optimizer.apply_gradients(zip(gradients, weights))
        return {"w": weights[0], "b": weights[1], "iterations": optimizer.iterations}
    return run


for _label, _name, _options in [
    ("sgd", "SGD", {}), ("sgd_momentum", "SGD", {"learning_rate": 0.1, "momentum": 0.9}),
    ("sgd_nesterov", "SGD", {"momentum": 0.9, "nesterov": True}), ("adam", "Adam", {}),
    ("adam_amsgrad", "Adam", {"learning_rate": 0.05, "amsgrad": True}), ("adamw", "AdamW", {"weight_decay": 0.1}),
    ("rmsprop", "RMSprop", {}), ("rmsprop_centered", "RMSprop", {"momentum": 0.5, "centered": True}),
    ("adagrad", "Adagrad", {"learning_rate": 0.1}), ("adadelta", "Adadelta", {"learning_rate": 1.0}),
    ("adamax", "Adamax", {}), ("nadam", "Nadam", {}), ("lion", "Lion", {}), ("ftrl", "Ftrl", {"learning_rate": 0.1}),
    ("sgd_clipnorm", "SGD", {"clipnorm": 1.0}), ("sgd_clipvalue", "SGD", {"clipvalue": 0.3}),
    ("adam_global_clipnorm", "Adam", {"global_clipnorm": 1.0}), ("sgd_decay", "SGD", {"weight_decay": 0.01}),
]:
    CASES["optimizer_" + _label] = optimizer_case(_name, **_options)


def _schedules(tf):
    s = tf.keras.optimizers.schedules
    made = {"exponential": s.ExponentialDecay(0.1, 10, 0.5), "stairs": s.ExponentialDecay(0.1, 10, 0.5, staircase=True),
            "polynomial": s.PolynomialDecay(0.1, 20, 0.01, 2.0), "cycle": s.PolynomialDecay(0.1, 7, 0.01, cycle=True),
            "piecewise": s.PiecewiseConstantDecay([5, 12], [1.0, 0.5, 0.1]), "cosine": s.CosineDecay(0.1, 20, 0.1),
            "warm": s.CosineDecay(0.0, 20, warmup_target=0.1, warmup_steps=5), "inverse": s.InverseTimeDecay(0.1, 5, 0.5),
            "restarts": s.CosineDecayRestarts(0.1, 6)}
    return {name: np.array([float(one(step)) for step in range(0, 30, 3)], np.float32) for name, one in made.items()}


CASES["schedules"] = _schedules


def metric_case(name, *options, binary=False, integer=False, **more):
    def run(tf):
        metric = getattr(tf.keras.metrics, name)(*options, **more)
        found = {}
        for i in range(2):
            if binary:
                y_true, y_pred = (numbers(8, seed=i) > 0).astype(np.float32), numbers(8, seed=5 + i, low=0, high=1)
            else:
                y_pred = numbers(6, 4, seed=i, low=0.01, high=1)
                y_true = np.array([0, 3, 1, 2, 2, 1]) if integer else np.eye(4, dtype=np.float32)[[0, 3, 1, 2, 2, 1]]
            metric.update_state(y_true, y_pred)
            found[f"result{i}"] = metric.result()
        return found
    return run


for _name in ("MeanSquaredError", "MeanAbsoluteError", "RootMeanSquaredError", "CategoricalAccuracy", "Hinge", "Poisson",
              "KLDivergence", "CosineSimilarity", "CategoricalCrossentropy", "F1Score"):
    CASES[f"metric_{_name}"] = metric_case(_name)
for _name in ("BinaryAccuracy", "Precision", "Recall", "AUC", "TruePositives", "FalseNegatives", "BinaryCrossentropy"):
    CASES[f"metric_{_name}"] = metric_case(_name, binary=True)
CASES["metric_PR"] = metric_case("AUC", curve="PR", binary=True)
for _name in ("SparseCategoricalAccuracy", "SparseCategoricalCrossentropy"):
    CASES[f"metric_{_name}"] = metric_case(_name, integer=True)
CASES["metric_TopK"] = metric_case("TopKCategoricalAccuracy", k=2)
CASES["metric_SparseTopK"] = metric_case("SparseTopKCategoricalAccuracy", k=2, integer=True)


def _ops(tf):
    x, y = tf.constant(numbers(3, 4)), tf.constant(numbers(3, 4, seed=2, low=0.2))
    i = tf.constant([[5, -3, 2], [7, 4, -9]])
    found = {
        "arithmetic": (x + y) * 2.0 - x / y + y ** 2 - 3.0 / y, "floordiv": i // 4, "mod": i % 4, "truediv": tf.cast(i / 4, tf.float32),
        "compare": tf.cast(x > y, tf.int32), "reduce": tf.reduce_mean(x, axis=0, keepdims=True), "max": tf.reduce_max(i, 1),
        "prod": tf.reduce_prod(y), "logsumexp": tf.reduce_logsumexp(x, -1), "std": tf.math.reduce_std(x, 1),
        "argmax": tf.argmax(i, 1), "argmax_default": tf.argmax(i), "cumsum": tf.cumsum(x, 1, exclusive=True, reverse=True),
        "sort": tf.sort(x, direction="DESCENDING"), "argsort": tf.argsort(i), "top_k": tf.math.top_k(x, 2)[1],
        "concat": tf.concat([x, y], 1), "stack": tf.stack([x, y], 1), "split": tf.split(x, [1, 3], 1)[1],
        "transpose": tf.transpose(x), "tile": tf.tile(i, [2, 1]), "repeat": tf.repeat(i, [1, 2, 3], 1), "pad": tf.pad(i, [[1, 0], [0, 2]]),
        "reflect": tf.pad(x, [[1, 1], [2, 0]], "REFLECT"), "where": tf.where(x > 0.0, x, y), "places": tf.where(i > 3),
        "one_hot": tf.one_hot([0, 2, -1], 3), "gather": tf.gather(x, [2, 0]), "gather_axis": tf.gather(x, [3, 1], axis=1),
        "batch_gather": tf.gather(x, [[1], [0], [2]], batch_dims=1), "gather_nd": tf.gather_nd(x, [[0, 1], [2, 3]]),
        "mask": tf.boolean_mask(x, [True, False, True]), "slice": x[::-1, 1:3], "newaxis": x[..., tf.newaxis, 1],
        "scatter": tf.tensor_scatter_nd_update(x, [[1], [0]], [[9.0] * 4, [8.0] * 4]), "clip": tf.clip_by_value(x, -0.3, 0.4),
        "clip_norm": tf.clip_by_norm(x, 0.5), "global_norm": tf.clip_by_global_norm([x, y], 1.0)[0][1],
        "matmul": tf.matmul(x, y, transpose_b=True), "einsum": tf.einsum("ij,kj->ik", x, y), "tensordot": tf.tensordot(x, y, [[0], [0]]),
        "norm": tf.norm(x, axis=1), "normalize": tf.math.l2_normalize(x, 1), "segment": tf.math.unsorted_segment_sum(x, [0, 1, 0], 2),
        "range": tf.range(3, 18, 3), "linspace": tf.cast(tf.linspace(0.0, 1.0, 5), tf.float32), "sequence_mask": tf.sequence_mask([1, 3], 4),
        "unique": tf.unique([4, 1, 4, 2])[1], "band": tf.linalg.band_part(tf.matmul(x, y, transpose_b=True), 0, 1),
        "eye": tf.eye(3), "round": tf.round([0.5, 1.5, -2.5]), "softplus": tf.math.softplus(x), "erf": tf.math.erf(x),
        "divide_no_nan": tf.math.divide_no_nan(x, tf.constant([0.0, 1.0, 2.0, 0.0])), "squared": tf.math.squared_difference(x, y),
        "confusion": tf.math.confusion_matrix([0, 1, 2, 1], [0, 2, 2, 1]), "gelu": tf.nn.gelu(x), "gelu_tanh": tf.nn.gelu(x, approximate=True),
        "selu": tf.nn.selu(x), "swish": tf.nn.swish(x), "log_softmax": tf.nn.log_softmax(x), "leaky": tf.nn.leaky_relu(x),
        "sigmoid_ce": tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x), "reverse": tf.reverse(x, [0]), "roll": tf.roll(i, 1, 1),
        "softmax_ce": tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=x), "moments": tf.nn.moments(x, [0])[1],
        "sparse_ce": tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 3, 1], logits=x), "atan2": tf.math.atan2(x, x - 0.1),
        "integer_mean": tf.reduce_mean(i), "cumprod": tf.math.cumprod(y, 0), "meshgrid": tf.meshgrid([1, 2], [3, 4, 5])[0],
    }
    return found


CASES["ops"] = _ops


def _images(tf):
    small, photo = numbers(5, 4, 3), (255 * numbers(11, 13, 3, low=0)).astype(np.uint8)
    return {
        "up": tf.image.resize(small, [9, 10]), "down": tf.image.resize(photo, [4, 5]), "batch": tf.image.resize(small[None], [3, 7]),
        "nearest": tf.image.resize(photo, [5, 20], method="nearest"), "flip": tf.image.flip_left_right(photo),
        "upside": tf.image.flip_up_down(small), "crop": tf.image.central_crop(photo, 0.5), "turn": tf.image.rot90(small),
        "pad": tf.image.resize_with_crop_or_pad(photo, 15, 7), "grey": tf.image.rgb_to_grayscale(small), "dtype": tf.image.convert_image_dtype(photo, tf.float32),
        "standard": tf.image.per_image_standardization(photo), "bright": tf.image.adjust_brightness(small, 0.2),
        "contrast": tf.image.adjust_contrast(small, 1.5), "hsv": tf.image.rgb_to_hsv(numbers(4, 4, 3, low=0)),
        "back": tf.image.hsv_to_rgb(numbers(4, 4, 3, low=0)), "box": tf.image.crop_to_bounding_box(photo, 1, 2, 3, 4),
    }


CASES["images"] = _images


def _tape(tf):
    x, w = tf.constant([1.0, 2.0, 3.0]), tf.Variable([0.5, -1.0, 2.0])
    fixed = tf.Variable([3.0], trainable=False)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x * w + fixed
        total = tf.reduce_sum(y)
        both = [total, tf.reduce_sum(w ** 3)]
    found = {"vector": tape.gradient(y, x), "scalar": tape.gradient(total, w), "several": tape.gradient(both, w),
             "none": np.array(tape.gradient(total, fixed) is None), "seeded": tape.gradient(y, x, output_gradients=tf.constant([1.0, 0.0, 2.0])),
             "jacobian": tape.jacobian(y, w), "zero": tape.gradient(total, fixed, unconnected_gradients=tf.UnconnectedGradients.ZERO)}
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            z = tf.reduce_sum(x ** 3)
        first = inner.gradient(z, x)
    found["second"] = outer.gradient(first, x)
    table = tf.Variable(numbers(5, 2))
    with tf.GradientTape() as tape:
        picked = tf.reduce_sum(tf.gather(table, [1, 3, 1]) ** 2)
    found["rows"] = tf.convert_to_tensor(tape.gradient(picked, table))
    return found


CASES["tape"] = _tape


def _net(tf, outputs=3):
    L = tf.keras.layers
    model = tf.keras.Sequential([L.Input(shape=(8, 8, 2)), L.Conv2D(4, 3, activation="relu", padding="same"), L.BatchNormalization(),
                                 L.MaxPooling2D(), L.Flatten(), L.Dense(16, activation="relu"), L.Dense(outputs, activation="softmax")])
    filled(model)
    return model


def _fit(tf):
    x, y = numbers(40, 8, 8, 2), np.arange(40) % 3
    model = _net(tf)
    model.compile(optimizer=tf.keras.optimizers.Adam(0.01), loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(x, y, batch_size=16, epochs=3, shuffle=False, verbose=0, validation_split=0.2)
    found = {key: np.array(value, np.float32) for key, value in history.history.items()}
    found["predict"], found["evaluate"] = model.predict(x[:7], verbose=0), np.array(model.evaluate(x, y, verbose=0), np.float32)
    found["class_weight"] = np.array(model.fit(x, y, class_weight={0: 1.0, 1: 3.0, 2: 0.5}, shuffle=False, verbose=0).history["loss"])
    found["sample_weight"] = np.array(model.fit(x, y, sample_weight=np.linspace(0, 2, 40), shuffle=False, verbose=0).history["loss"])
    found["on_batch"] = np.array(model.train_on_batch(x[:8], y[:8]), np.float32)
    return found


CASES["fit"] = _fit


def _fit_functional(tf):
    L = tf.keras.layers
    a, b = tf.keras.Input((6,), name="a"), tf.keras.Input((4,), name="b")
    joined = L.Concatenate()([L.Dense(5, activation="relu", name="left")(a), b])
    one, two = L.Dense(1, name="one")(joined), L.Dense(3, name="two")(joined)
    model = tf.keras.Model([a, b], [one, two])
    filled(model)
    model.compile(optimizer="sgd", loss={"one": "mse", "two": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)},
                  loss_weights={"one": 0.5, "two": 2.0})
    x = {"a": numbers(24, 6), "b": numbers(24, 4)}
    history = model.fit(x, {"one": numbers(24, 1), "two": np.arange(24) % 3}, batch_size=8, epochs=2, shuffle=False, verbose=0)
    predicted = model.predict([x["a"], x["b"]], verbose=0)
    return {"loss": np.array(history.history["loss"]), "one": predicted[0], "two": predicted[1],
            "one_loss": np.array(history.history["one_loss"]), "names": np.array([len(name) for name in sorted(history.history)])}


CASES["fit_functional"] = _fit_functional


def _fit_own(tf):
    class Scaled(tf.keras.layers.Layer):
        def __init__(self, units, **kwargs):
            super().__init__(**kwargs)
            self.units = units

        def build(self, input_shape):
            self.w = self.add_weight(shape=(input_shape[-1], self.units), initializer="random_normal", trainable=True)
            self.b = self.add_weight(shape=(self.units,), initializer="zeros", trainable=True)

        def call(self, inputs):
            return tf.matmul(inputs, self.w) + self.b

    class Net(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.first, self.second = Scaled(7), tf.keras.layers.Dense(1)
            self.drop = tf.keras.layers.Dropout(0.5)

        def call(self, inputs, training=False):
            x = tf.nn.relu(self.first(inputs))
            self.add_loss(1e-2 * tf.reduce_sum(tf.square(x)) / 8.0)
            return self.second(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
            return {"loss": loss}

    model = Net()
    x, y = numbers(24, 5), numbers(24, 1)
    model(x[:1])
    filled(model)
    model.compile(optimizer=tf.keras.optimizers.RMSprop(0.01), loss="mse")
    history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), epochs=3, verbose=0)
    # Keras tells no loss of such a train_step: its own tracker, of the same name, was not updated.
    return {"epochs": np.array(len(history.history["loss"])), "weights": np.concatenate([one.ravel() for one in model.get_weights()])}


CASES["fit_own"] = _fit_own


def _callbacks(tf):
    x, y = numbers(32, 4), numbers(32, 1)
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
    filled(model)
    model.compile(optimizer=tf.keras.optimizers.SGD(0.5), loss="mse")
    rates = []
    callbacks = [tf.keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5 if epoch else rate),
                 tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: rates.append(logs["loss"]))]
    history = model.fit(x, y, epochs=4, batch_size=8, shuffle=False, verbose=0, callbacks=callbacks).history
    plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.5, min_delta=10.0)
    second = model.fit(x, y, epochs=5, batch_size=8, shuffle=False, verbose=0, callbacks=[plateau]).history
    stop = tf.keras.callbacks.EarlyStopping(monitor="loss", patience=2, min_delta=10.0, restore_best_weights=True)
    third = model.fit(x, y, epochs=9, batch_size=8, shuffle=False, verbose=0, callbacks=[stop]).history
    return {"rates": np.array(history["learning_rate"]), "loss": np.array(rates), "plateau": np.array(second["learning_rate"]),
            "stopped": np.array(len(third["loss"])), "restored": np.concatenate([one.ravel() for one in model.get_weights()])}


CASES["callbacks"] = _callbacks


def _data(tf):
    D, found = tf.data.Dataset, {}

    def listed(name, dataset):
        found[name] = np.concatenate([np.asarray(one).ravel() for one in dataset])
    listed("map", D.range(7).map(lambda v: v * v).batch(3))
    listed("filter", D.range(9).filter(lambda v: v % 3 == 0))
    listed("repeat", D.range(3).repeat(2).batch(4, drop_remainder=True))
    listed("skip_take", D.range(10).skip(2).take(5).shard(2, 1))
    listed("window", D.range(6).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3)))
    listed("interleave", D.range(4).interleave(lambda v: D.from_tensors(v).repeat(3), cycle_length=2, block_length=2))
    listed("concatenate", D.range(2).concatenate(D.range(5, 7)))
    listed("unbatch", D.range(6).batch(4).unbatch())
    listed("padded", D.range(1, 4).map(lambda v: tf.fill([tf.cast(v, tf.int32)], v)).padded_batch(2, padded_shapes=[None]))
    listed("zip", D.zip((D.range(3), D.range(10, 13))).map(lambda a, b: a + b))
    listed("enumerate", D.range(3).enumerate(start=5).map(lambda i, v: i * v))
    listed("generator", D.from_generator(lambda: iter([1, 2, 3]), output_signature=tf.TensorSpec(shape=(), dtype=tf.int32)).cache().repeat(2))
    listed("whole_shuffle", D.range(5).shuffle(1))
    listed("scan", D.range(5).scan(np.int64(0), lambda s, v: (s + v, s)))
    found["reduce"] = D.range(5).reduce(np.int64(0), lambda a, b: a + b)
    found["cardinality"] = np.array([int(D.range(7).batch(3).cardinality()), len(D.range(7).batch(3, True))])
    element = next(iter(D.from_tensor_slices({"a": np.arange(4.0), "b": np.eye(4)}).batch(2)))
    found["dict"] = tf.cast(element["b"], tf.float32)
    return found


CASES["data"] = _data


def _initial(tf):
    """Shares and limits of initial values, which every generator of random numbers has."""
    found = {}
    for name in ("glorot_uniform", "glorot_normal", "he_uniform", "he_normal", "lecun_normal", "random_normal", "random_uniform",
                 "truncated_normal"):
        made = np.asarray(tf.keras.initializers.get(name)((400, 300)))
        found[name] = np.round(np.array([made.std()]), 3 if made.std() < 0.06 else 2)
    made = np.asarray(tf.keras.initializers.Orthogonal()((20, 10)))
    found["orthogonal"] = np.round(made.T @ made, 4)
    return found


CASES["initializers"] = _initial


def run(tf, name):
    """The arrays of a case."""
    return {key: np.asarray(value.numpy() if hasattr(value, "numpy") else value) for key, value in CASES[name](tf).items()}
