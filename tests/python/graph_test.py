"""kinema.graph: programs with gradients."""

import numpy as np
import pytest

import kinema as k

g = k.graph


def test_linear_regression_learns_its_plane():
    random = np.random.default_rng(0)
    points = random.standard_normal((64, 2), np.float32)
    targets = (points @ np.array([[2.0], [-3.0]], np.float32)) + np.float32(0.5)
    graph = g.Graph()
    w, b = graph.input([2, 1]), graph.input([1])
    x, target = graph.input([64, 2]), graph.input([64, 1])
    error = x @ w + b - target
    loss = g.mean(error * error)
    dw, db = g.gradients(loss, [w, b])
    step = graph.compile([w - 0.1 * dw, b - 0.1 * db, loss])
    state = [np.zeros((2, 1), np.float32), np.zeros(1, np.float32)]
    for _ in range(200):
        *state, last = step(*state, points, targets)
    assert last < 1e-6
    np.testing.assert_allclose(state[0][:, 0], [2, -3], atol=1e-3)
    np.testing.assert_allclose(state[1], [0.5], atol=1e-3)


@pytest.mark.parametrize("name", ["exp", "tanh", "sin", "cos", "sigmoid", "sqrt", "log", "abs", "erf", "rsqrt"])
def test_gradients_by_finite_differences(name):
    graph = g.Graph()
    x = graph.input([5])
    y = g.sum(getattr(g, name)(x))
    program = graph.compile([y, g.gradients(y, [x])[0]])
    at = np.array([0.3, 0.7, 1.1, 1.6, 2.0], np.float32)
    gradient = program(at)[1]
    h = np.float32(1e-2)
    for i in range(5):
        step = np.zeros(5, np.float32)
        step[i] = h
        difference = (program(at + step)[0] - program(at - step)[0]) / (2 * h)
        assert abs(difference - gradient[i]) < 2e-3 * max(1, abs(gradient[i])), (name, i)


def test_operators_and_types():
    graph = g.Graph()
    x = graph.input([2, 3], name="x")
    n = graph.constant(np.array([[1, 2, 3], [4, 5, 6]], np.int32))
    assert x.shape == (2, 3) and x.dtype == "f32" and n.dtype == "s32"
    out = graph.compile([1 - x, 2 / x, -x, x.reshape([6]), x.transpose([1, 0]), n.astype("float32") * x,
                         g.where(x > 2, x, x * 10), g.maximum(x, 2.5), g.concatenate([x, x], 1),
                         g.einsum("ij,kj->ik", x, x)])
    a = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    want = [1 - a, 2 / a, -a, a.reshape(6), a.T, a * a, np.where(a > 2, a, a * 10), np.maximum(a, 2.5),
            np.concatenate([a, a], 1), a @ a.T]
    for got, expected in zip(out(a), want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_what_does_not_fit():
    graph, other = g.Graph(), g.Graph()
    x = graph.input([2])
    with pytest.raises(k.Error, match="two graphs"):
        x + other.input([2])
    with pytest.raises(k.Error):
        x + graph.input([3])
    program = graph.compile([x])
    with pytest.raises(k.Error, match="inputs"):
        program()
    with pytest.raises(k.Error, match="dtype"):
        graph.input([2], "floaty")
