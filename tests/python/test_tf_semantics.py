"""Where programs of TensorFlow stumble elsewhere: traps of sessions, generators, types, names and notes."""
import numpy as np
import pytest

import plimsoll.tf as tf
import plimsoll.tfmot as tfmot


def small_model(*more):
    model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(8, activation="relu"), *more,
                                 tf.keras.layers.Dense(2)])
    model.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    return model


X = np.random.RandomState(0).rand(64, 4).astype(np.float32)
Y = (X[:, 0] > 0.5).astype(np.int64)


def test_a_session_is_closed_twice_and_datasets_are_iterated_in_it():
    rows = 0
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())  # there are no variables
        for batch in tf.data.Dataset.from_tensor_slices(X).batch(16):
            rows += len(session.run(tf.reduce_sum(batch, axis=1)))
        session.close()
    session.close()
    assert rows == 64
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(tf.constant(1.0))


def test_a_graph_runs_with_feeds_and_refuses_what_is_missing():
    with tf.compat.v1.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 3], name="x")
        v = tf.compat.v1.get_variable("v", [3, 1], initializer=tf.compat.v1.ones_initializer())
        y = tf.matmul(x, v)
        step = v.assign(v * 2.0)
        assert y.shape.as_list() == [None, 1]
        with tf.compat.v1.Session() as session:
            with pytest.raises(tf.errors.FailedPreconditionError):
                session.run(v.read_value())
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(step)
            assert session.run({"y": y, "v": [v]}, {x: [[1, 2, 3]]})["y"].tolist() == [[12.0]]
            with pytest.raises(ValueError, match="feed a value"):
                session.run(y)
            with pytest.raises(ValueError, match="Cannot feed"):
                session.run(y, {"x:0": [[1.0]]})


def test_a_variable_is_found_again_in_its_scope_and_not_made_twice():
    with tf.compat.v1.Graph().as_default():
        with tf.compat.v1.variable_scope("layer"):
            first = tf.compat.v1.get_variable("w", [2])
            with pytest.raises(ValueError, match="already exists"):
                tf.compat.v1.get_variable("w", [2])
        with tf.compat.v1.variable_scope("layer", reuse=True):
            assert tf.compat.v1.get_variable("w", [2]) is first
            with pytest.raises(ValueError, match="does not exist"):
                tf.compat.v1.get_variable("other", [2])


def test_a_generator_is_exhausted_after_its_first_epoch(capsys):
    from plimsoll.tf import _engine

    _engine._noted.discard("exhausted")
    model = small_model()
    history = model.fit(((X[i:i + 16], Y[i:i + 16]) for i in range(0, 64, 16)), epochs=2, verbose=0)
    assert len(history.history["loss"]) == 1
    assert "exhausted" in capsys.readouterr().err


def test_words_of_other_devices_are_noted_once(capsys):
    from plimsoll.tf import _engine

    for key in ("device", "workers", "strategy", "experimental.set_memory_growth"):
        _engine._noted.discard(key)
    for _ in range(2):
        with tf.device("/GPU:0"):
            tf.config.experimental.set_memory_growth(None, True)
        small_model().fit(X, Y, workers=4, use_multiprocessing=True, verbose=0)
        with tf.distribute.MirroredStrategy().scope():
            pass
    assert len(capsys.readouterr().err.strip().splitlines()) == 4


def test_policies_are_objects_or_names():
    for given in (tf.keras.mixed_precision.Policy("mixed_float16"), "mixed_bfloat16"):
        tf.keras.mixed_precision.set_global_policy(given)
        try:
            model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(2, dtype="float32")])
            assert model(X).dtype == tf.float32
            assert model.layers[0](X).dtype in (tf.float16, tf.bfloat16)
            assert model.layers[0].kernel.dtype == tf.float32
        finally:
            tf.keras.mixed_precision.set_global_policy("float32")
    with pytest.raises(ValueError):
        tf.keras.mixed_precision.Policy("mixed_float12")


def test_types_are_those_of_tensorflow():
    assert tf.constant([1, 2]).dtype == tf.int32 and tf.constant([1.0]).dtype == "float32"
    assert tf.constant(np.zeros(3)).dtype == tf.float64 and tf.range(3).dtype == tf.int32
    assert np.array([tf.constant([1.0, 2.0])] * 2).shape == (2, 2)
    assert f"{tf.constant(1.2345):.2f}" == "1.23" and float(tf.constant(2)) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.constant([1, 2]) + tf.constant([1.0, 2.0])
    with pytest.raises(TypeError):
        hash(tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.matmul(tf.ones((2, 3)), tf.ones((2, 3)))


def test_constants_and_old_values_do_not_change():
    array = np.ones(4, np.float32)
    kept = tf.constant(array)
    array[:] = 9
    assert kept.numpy().tolist() == [1, 1, 1, 1]
    variable = tf.Variable([1.0, 2.0])
    before = variable.read_value()
    variable.assign_add([1.0, 1.0])
    assert before.numpy().tolist() == [1, 2] and variable.numpy().tolist() == [2, 3]
    with pytest.raises(ValueError, match="Shape mismatch"):
        variable.assign([1.0])


def test_a_tape_gives_one_set_of_gradients_unless_it_is_persistent():
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, x).numpy() == 6
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.gradient(y, x)


def test_seeds_give_the_same_numbers_again():
    def draw():
        tf.random.set_seed(5)
        return [tf.random.normal([3]).numpy().tolist(), tf.random.uniform([2], seed=1).numpy().tolist()]
    assert draw() == draw()
    first, second = tf.random.normal([3]), tf.random.normal([3])
    assert first.numpy().tolist() != second.numpy().tolist()


def test_models_and_weights_come_back_from_files(tmp_path):
    model = small_model(tf.keras.layers.BatchNormalization())
    model.fit(X, Y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = tf.keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(model.predict(X, verbose=0), again.predict(X, verbose=0))
    again.fit(X, Y, verbose=0)
    model.save_weights(tmp_path / "w.weights.h5")
    other = small_model(tf.keras.layers.BatchNormalization())
    other.load_weights(tmp_path / "w.weights.h5")
    assert np.array_equal(model.predict(X, verbose=0), other.predict(X, verbose=0))
    with pytest.raises(ValueError):
        small_model().load_weights(tmp_path / "w.weights.h5")
    (tmp_path / "bad.keras").write_bytes(b"no archive")
    with pytest.raises(ValueError, match="no file of model.save"):
        tf.keras.models.load_model(tmp_path / "bad.keras")


def test_names_that_are_not_there_say_what_to_use():
    for wanted, advice in (("Session", "tf.compat.v1.Session"), ("matmull", "tf.matmul")):
        with pytest.raises(AttributeError, match=advice):
            getattr(tf, wanted)
    with pytest.raises(AttributeError, match="TimeDistributed"):
        tf.keras.layers.ConvLSTM2D
    with pytest.raises(AttributeError, match="quantise"):
        tfmot.quantization


def test_pruning_follows_its_schedule_and_is_stripped():
    keras = tfmot.sparsity.keras
    pruned = keras.prune_low_magnitude(small_model(), keras.PolynomialDecay(0.25, 0.75, 0, 8, frequency=1))
    pruned.compile(optimizer="adam", loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(tf.errors.InvalidArgumentError, match="UpdatePruningStep"):
        pruned.fit(X, Y, verbose=0)
    pruned.fit(X, Y, batch_size=8, epochs=2, verbose=0, callbacks=[keras.UpdatePruningStep()])
    stripped = keras.strip_pruning(pruned)
    kernels = [one for one in stripped.get_weights() if one.ndim == 2]
    assert [float(np.mean(one == 0)) for one in kernels] == [0.75, 0.75]
    assert [type(one).__name__ for one in stripped.layers] == ["Dense", "Dense"]
    assert np.allclose(pruned.predict(X, verbose=0), stripped.predict(X, verbose=0))


def test_weights_are_given_back_with_their_models():
    from plimsoll.tf import _engine

    def build():
        model = small_model()
        model.fit(X, Y, verbose=0)
    build()
    import gc
    gc.collect()
    made = _engine._Running.number
    for _ in range(5):
        build()
        gc.collect()
    assert _engine._Running.number <= made + 2


def test_callbacks_stop_and_write(tmp_path):
    class Stop(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = epoch == 1
    model = small_model()
    history = model.fit(X, Y, epochs=5, verbose=0, validation_split=0.25, callbacks=[
        Stop(), tf.keras.callbacks.CSVLogger(tmp_path / "log.csv"), tf.keras.callbacks.TensorBoard(str(tmp_path / "logs")),
        tf.keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_best_only=True)])
    assert len(history.history["val_loss"]) == 2
    assert (tmp_path / "log.csv").read_text().splitlines()[0] == "epoch,accuracy,loss,val_accuracy,val_loss"
    assert (tmp_path / "best.keras").exists() and list((tmp_path / "logs" / "train").glob("events.*"))
    with pytest.raises(ValueError, match="filepath"):
        tf.keras.callbacks.ModelCheckpoint(tmp_path / "best.txt")


def test_a_line_can_not_be_set_when_tensors_exist():
    tf.Variable(1.0)
    with pytest.raises(RuntimeError, match="set the line before"):
        tf.set_line("1GiB")


def test_a_folder_of_images_is_read_in_batches(tmp_path):
    import tf_lines

    folder = tf_lines.make_images(str(tmp_path), 12)
    Generator = tf.keras.preprocessing.image.ImageDataGenerator
    batches = Generator(rescale=1 / 255, horizontal_flip=True).flow_from_directory(
        folder, target_size=(20, 24), batch_size=5, class_mode="sparse", seed=1)
    images, labels = next(batches)
    assert images.shape == (5, 20, 24, 3) and images.max() <= 1 and len(batches) == 3
    assert all((image.mean() > 0.4) == bool(label) for image, label in zip(images, labels))
    made = tf.keras.utils.image_dataset_from_directory(folder, image_size=(20, 24), batch_size=4, seed=2)
    assert made.class_names == ["dark", "light"] and [tuple(x.shape) for x, _ in made] == [(4, 20, 24, 3)] * 3
    with pytest.raises(NotImplementedError, match="rotation_range"):
        Generator(rotation_range=20)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.image.decode_jpeg(b"no image")
    with pytest.raises(tf.errors.NotFoundError):
        tf.io.read_file(str(tmp_path / "absent.jpg"))
