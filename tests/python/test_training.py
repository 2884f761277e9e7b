import copy

import numpy as np
import pytest

import plimsoll as pl


def net(*units, name="net"):
    layers = [pl.layers.Dense(n, activation="relu") for n in units]
    return pl.Sequential([*layers, pl.layers.Dense(2)], name=name)


def compiled(model, rate=1e-2, **more):
    model.compile(pl.Adam(rate), "sparse_categorical_crossentropy", ["accuracy"], **more)
    return model


def batches(blobs, size=32):
    return pl.Dataset.from_tensor_slices(blobs).batch(size)


def test_fit_learns(line, blobs):
    model = compiled(net(16))
    history = model.fit(batches(blobs), line, epochs=8, verbose=0)
    assert history.epoch == list(range(1, 9))
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    measured = model.evaluate(batches(blobs), line)
    assert measured["accuracy"] > 0.9 and measured.samples == 256
    with pytest.raises(KeyError, match="accuracy"):
        history["nothing"]


def test_arrays_and_datasets_give_the_same_numbers(line, blobs):
    x, y = blobs
    one, other = compiled(net(16)), compiled(net(16))
    a = one.fit(x, y, line=line, epochs=3, shuffle=False, verbose=0)
    b = other.fit(batches(blobs), line, epochs=3, verbose=0)
    assert a.history["loss"] == b.history["loss"]


def test_predict_gives_numpy(line, blobs):
    x, y = blobs
    model = compiled(net(16))
    model.fit(x, y, line=line, epochs=5, verbose=0)
    logits = model.predict(x, line)
    assert logits.shape == (256, 2) and logits.dtype == np.float32
    assert (logits.argmax(1) == y).mean() > 0.9
    np.testing.assert_allclose(model.predict(batches(blobs), line), logits, rtol=1e-5, atol=1e-5)


def test_fit_eager_and_files_share_the_weights(line, blobs, tmp_path):
    x, y = blobs
    model = compiled(net(16))
    model.fit(x, y, line=line, epochs=2, verbose=0)
    logits = model.predict(x, line)
    with pl.Eager(line):
        np.testing.assert_allclose(model(pl.tensor(x)).numpy(), logits, rtol=1e-4, atol=1e-4)
        kernel = model.weight("dense/kernel").numpy()
        for weight in model.weights:
            weight.assign(weight * 0)
    assert model.predict(x, line).max() == 0
    assert abs(kernel).max() > 0
    model.save_weights(tmp_path / "w.safetensors")
    other = compiled(net(16))
    other.fit(x, y, line=line, epochs=1, verbose=0)
    other.load_weights(tmp_path / "w.safetensors")
    assert other.predict(x, line).max() == 0


def test_a_saved_model_needs_no_program(line, blobs, tmp_path):
    x, y = blobs
    model = compiled(net(16))
    model.fit(x, y, line=line, epochs=1, verbose=0)
    model.save(tmp_path / "net.plimsoll")
    loaded = pl.Model.load(tmp_path / "net.plimsoll")
    np.testing.assert_array_equal(loaded.predict(x, line), model.predict(x, line))
    with pytest.raises(pl.Error):
        pl.Model.load(tmp_path / "nothing")


def test_names_of_weights_are_those_of_cpp(line, blobs):
    model = compiled(net(16, 8))
    model.fit(batches(blobs), line, verbose=0)
    with pl.Eager(line):
        names = [weight.name.split("/", 1)[1] for weight in model.weights]
    assert names == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias", "dense_2/kernel", "dense_2/bias"]


def test_a_layer_called_alone_uses_the_weights_of_its_model(line, blobs):
    x, y = blobs
    model = compiled(net(16))
    model.fit(x, y, line=line, epochs=2, verbose=0)
    with pl.Eager(line):
        tensor = pl.tensor(x)
        by_layers = tensor
        for layer in model.layers:
            by_layers = layer(by_layers)
        np.testing.assert_allclose(by_layers.numpy(), model(tensor).numpy(), rtol=1e-6)


class TwoTowers(pl.Model):
    def __init__(self):
        super().__init__()
        self.left = pl.layers.Dense(8, activation="relu")
        self.right = pl.layers.Dense(8, activation="relu")
        self.drop = pl.layers.Dropout(0.5)
        self.head = pl.layers.Dense(2)

    def call(self, inputs, training=False):
        return self.head(self.drop(self.left(inputs) + self.right(inputs)))


def test_models_as_classes(line, blobs):
    x, y = blobs
    model = compiled(TwoTowers())
    history = model.fit(x, y, line=line, epochs=6, verbose=0)
    assert history["loss"][-1] < history["loss"][0]
    first, second = model.predict(x, line), model.predict(x, line)
    np.testing.assert_array_equal(first, second)  # dropout is for training alone
    assert model.name == "two_towers"


def test_functional_models(line, blobs):
    x, y = blobs
    inputs = pl.Input(8)
    shared = pl.layers.Dense(8, activation="relu")
    hidden = pl.relu(shared(inputs)) + shared(inputs * 0.5)
    model = compiled(pl.Model(inputs, pl.layers.Dense(2)(hidden)))
    assert model.fit(x, y, line=line, epochs=5, verbose=0)["loss"][-1] < 0.6
    with pl.Eager(line):
        assert len(model.weights) == 4
    with pytest.raises(pl.Error, match="inputs"):
        pl.Model(pl.Input(3), hidden).predict(np.zeros((2, 3), "float32"), line)


def test_dropout_of_functional_models_is_for_training(line, blobs):
    x, y = blobs
    inputs = pl.Input(8)
    model = compiled(pl.Model(inputs, pl.layers.Dense(2)(pl.layers.Dropout(0.9)(inputs))), 0.0)
    losses = model.fit(x, y, line=line, epochs=3, verbose=0)["loss"]
    assert len(set(losses)) == 3
    np.testing.assert_array_equal(model.predict(x, line), model.predict(x, line))


class Scaled(pl.Layer):
    def __init__(self, units):
        super().__init__()
        self.units = units

    def build(self, shape):
        self.kernel = self.add_weight("kernel", (shape[-1], self.units))

    def call(self, inputs):
        return inputs @ self.kernel


def test_layers_of_ones_own(line, blobs):
    x, y = blobs
    model = compiled(pl.Sequential([Scaled(4), pl.layers.Dense(2)]))
    assert model.fit(x, y, line=line, epochs=4, verbose=0)["loss"][-1] < 0.6
    with pl.Eager(line):
        assert [w.shape for w in model.weights] == [(8, 4), (4, 2), (2,)]


def test_several_inputs_and_outputs(line, blobs):
    x, y = blobs
    left, right = pl.Input(4, name="left"), pl.Input(4, name="right")
    joined = pl.layers.Concatenate()([pl.layers.Dense(4)(left), pl.layers.Dense(4)(right)])
    model = pl.Model({"left": left, "right": right}, {"kind": pl.layers.Dense(2)(joined), "sum": pl.layers.Dense(1)(joined)})
    model.compile("adam", {"kind": "sparse_categorical_crossentropy", "sum": "mse"}, loss_weights={"sum": 0.1})
    data = {"left": x[:, :4], "right": x[:, 4:], "kind": y, "sum": x.sum(1, keepdims=True)}
    history = model.fit(pl.Dataset.from_tensor_slices(data).batch(32), line, epochs=3, verbose=0)
    assert history["loss"][-1] < history["loss"][0]
    answers = model.predict(pl.Dataset.from_tensor_slices(data).batch(32), line)
    assert answers["kind"].shape == (256, 2) and answers["sum"].shape == (256, 1)


def test_own_losses_and_metrics(line, blobs):
    x, y = blobs
    calls = []

    def squares(y_true, y_pred):
        calls.append(y_pred.shape)
        return pl.square(y_pred - pl.one_hot(y_true, 2))

    def largest(y_true, y_pred):
        return pl.reduce_max(y_pred, axes=1)

    model = net(8)
    model.compile("adam", squares, [largest])
    history = model.fit(x, y, line=line, epochs=3, verbose=0)
    assert history["loss"][-1] < history["loss"][0] and "largest" in history.history
    assert len(calls) < 10  # traced, not called for each batch


def test_an_error_in_a_loss_comes_out_as_itself(line, blobs):
    class Mine(Exception):
        pass

    def fails(y_true, y_pred):
        raise Mine("here")

    model = net(8)
    model.compile("adam", fails)
    with pytest.raises(Mine, match="here"):
        model.fit(*blobs, line=line, verbose=0)


def test_sample_weights_are_the_third_of_three(line, blobs):
    x, y = blobs
    one, other = compiled(net(8)), compiled(net(8))
    zero = np.where(np.arange(256) < 128, 1, 0).astype("float32")
    a = one.fit(pl.Dataset.from_tensor_slices((x, y, zero)).batch(256), line, verbose=0)
    b = other.fit(pl.Dataset.from_tensor_slices((x[:128], y[:128])).batch(128), line, verbose=0)
    assert a["loss"][0] == pytest.approx(b["loss"][0] / 2, rel=1e-5)


def test_words_that_are_unknown_are_refused(line, blobs):
    with pytest.raises(pl.Error, match="known"):
        net(4).compile("adam", "sparse_categorical_crossentropie")
    with pytest.raises(ValueError, match="optimizer"):
        net(4).compile("adamm", "mse")
    with pytest.raises(TypeError, match="lever"):
        compiled(net(4), levers={"recomputing": True}).fit(batches(blobs), line, verbose=0)
    with pytest.raises(pl.Error, match="compile"):
        net(4).fit(batches(blobs), line, verbose=0)


def test_schedules(line, blobs):
    rate = pl.schedules.CosineDecay(0.1, 16)
    assert rate(0) == pytest.approx(0.1) and rate(16) == pytest.approx(0)
    model = net(4)
    model.compile(pl.SGD(rate), "sparse_categorical_crossentropy")
    history = model.fit(batches(blobs), line, epochs=2, verbose=0)
    assert history["loss"][-1] < history["loss"][0]


def test_an_eager_loop_trains_what_fit_evaluates(line, blobs):
    x, y = blobs
    model = compiled(net(16))
    adam = pl.Adam(1e-2)
    loss_of = pl.losses.SparseCategoricalCrossentropy()
    with pl.Eager(line):
        for _ in range(4):
            for a, b in batches(blobs):
                with pl.Tape() as tape:
                    loss = loss_of(b, model(a, training=True))
                adam.apply(tape.gradient(loss, model.weights), model.weights)
        last = loss.item()
    assert last < 0.5
    assert model.evaluate(batches(blobs), line)["accuracy"] > 0.9


def test_strategies(line, blobs):
    alone, together = compiled(net(8)), compiled(net(8))
    a = alone.fit(batches(blobs), line, epochs=2, verbose=0)
    b = together.fit(batches(blobs), line, epochs=2, verbose=0, strategy=pl.Strategy.mirrored(2))
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-4)


def test_copies_of_models_are_refused_with_what_to_do(line):
    with pytest.raises(TypeError, match="save"):
        copy.deepcopy(net(4))


RECURRENT = [pl.layers.LSTM, pl.layers.GRU, pl.layers.SimpleRNN]


@pytest.mark.parametrize("kind", RECURRENT, ids=lambda kind: kind.__name__)
def test_recurrent_layers_learn(line, kind):
    draw = np.random.default_rng(5)
    x = draw.normal(size=(128, 6, 3)).astype("float32")
    y = (x[:, :, 0].sum(1) > 0).astype("int32")
    model = compiled(pl.Sequential([kind(8), pl.layers.Dense(2)]), 2e-2)
    losses = model.fit(x, y, line=line, epochs=12, verbose=0)["loss"]
    assert losses[-1] < 0.7 * losses[0]
    with pytest.raises(pl.Error):
        kind(8)(pl.Input(3))  # not [batch, positions, width]


def test_lines_and_noise(line):
    x = np.random.default_rng(5).normal(size=(16, 3, 12)).astype("float32")
    layers = [pl.layers.Conv1D(4, 3, padding="same", activation="relu"), pl.layers.MaxPooling1D(2), pl.layers.GaussianNoise(0.5)]
    model = pl.Sequential(layers)
    with pl.Eager(line):
        tensor = pl.tensor(x)
        assert model(tensor).shape == (16, 4, 6)
        assert (model(tensor).numpy() == model(tensor).numpy()).all()
        assert (model(tensor, training=True).numpy() != model(tensor).numpy()).any()
        assert pl.layers.RMSNormalization()(tensor).shape == x.shape
