"""Programs with a name: what the golden tests pin and what timings are taken of."""

from __future__ import annotations

from toys import (
    ArgMax,
    Build,
    Concatenate,
    CumSum,
    Matmul,
    Pad,
    Reshape,
    ScatterAdd,
    Sort,
    Take,
    Transpose,
    UpdateSlice,
)


def softmax(b, x, axis=1):
    e = b.exp(b.sub(x, b.full(b.top(x, axis), x, 1 - axis)))
    return [b.div(e, b.full(b.sum(e, axis), x, 1 - axis))]


def log_softmax(b, x):
    d = b.sub(x, b.full(b.top(x, 1), x, 0))
    return [b.sub(d, b.full(b.log(b.sum(b.exp(d), 1)), x, 0))]


def layer_norm(b, x, scale, shift):
    y, _, _ = layer_norm_parts(b, x, scale, shift)
    return [y]


def layer_norm_parts(b, x, scale, shift):
    """(result, mean, reciprocal deviation)"""
    d, mean, rstd = _normalised(b, x)
    y = b.mul(b.mul(d, b.full(rstd, x, 0)), b.full(scale, x, 1))
    return [b.add(y, b.full(shift, x, 1)), mean, rstd]


def _normalised(b, x):
    n = x.aval.shape[1]
    mean = b.mul(b.sum(x, 1), 1 / n)
    d = b.sub(x, b.full(mean, x, 0))
    variance = b.mul(b.sum(b.mul(d, d), 1), 1 / n)
    return d, mean, b.div(1.0, b.sqrt(b.add(variance, 1e-5)))


def layer_norm_gradient(b, x, scale, ct):
    n = x.aval.shape[1]
    d, _, rstd = _normalised(b, x)
    z, dz = b.mul(d, b.full(rstd, x, 0)), b.mul(ct, b.full(scale, x, 1))
    m1, m2 = b.mul(b.sum(dz, 1), 1 / n), b.mul(b.sum(b.mul(dz, z), 1), 1 / n)
    dx = b.sub(b.sub(dz, b.full(m1, x, 0)), b.mul(z, b.full(m2, x, 0)))
    return [b.mul(b.full(rstd, x, 0), dx), b.sum(b.mul(ct, z), 0), b.sum(ct, 0)]


def gelu(b, x):
    u = b.mul(b.add(x, b.mul(b.mul(b.mul(x, x), x), 0.044715)), 0.79788456)
    return [b.mul(b.mul(x, 0.5), b.add(1.0, b.tanh(u)))]


def variance(b, x):
    n = x.aval.size
    d = b.sub(x, b.full(b.mul(b.sum(x, 0, 1), 1 / n), x))
    return [b.mul(b.sum(b.mul(d, d), 0, 1), 1 / n)]


def stencil(b, x):
    n = x.aval.shape[0]

    def at(i, j):
        return b.cut(x, (1 + i, n - 1 + i), (1 + j, n - 1 + j))

    s = b.add(b.add(at(-1, 0), at(1, 0)), b.add(at(0, -1), at(0, 1)))
    return [b(Pad((1, 1), (1, 1), 0.0), b.mul(b.sub(s, b.mul(at(0, 0), 4.0)), 0.25))]


def two_layers(b, x, w1, b1, w2, b2):
    h = b(Matmul(0), x, w1)
    h = b.tanh(b.add(h, b.full(b1, h, 1)))
    o = b(Matmul(0), h, w2)
    return [softmax(b, b.add(o, b.full(b2, o, 1)))[0], h]


def rows_and_columns(b, x):
    return [b.sub(b.sub(x, b.full(b.sum(x, 1), x, 0)), b.full(b.sum(x, 0), x, 1))]


def part_of_a_row(b, x):
    """What fills the scratch must reach all that is read of it later."""
    rows, columns = x.aval.shape
    e = b.exp(b.sin(x))
    left = b.cut(e, (0, rows), (0, columns - 1))
    return [b.div(b.cut(e, (0, rows), (1, columns)), b.full(b.sum(left, 1), left, 0))]


def value_and_its_sum(b, x):
    e = b.exp(x)
    return [e, b.sum(e, 1)]


def attention(b, q, k, v):
    scores = b(Matmul(0), q, b(Transpose((1, 0)), k))
    return [b(Matmul(0), softmax(b, b.mul(scores, 0.125))[0], v)]


def shape(*n, dtype="float32"):
    return n, dtype


#: name -> (program, input shapes)
PROGRAMS = {
    "gelu": (gelu, [shape(40, 50)]),
    "softmax": (softmax, [shape(40, 50)]),
    "softmax_columns": (lambda b, x: softmax(b, x, 0), [shape(40, 50)]),
    "log_softmax": (log_softmax, [shape(40, 50)]),
    "layer_norm": (layer_norm, [shape(40, 50), shape(50), shape(50)]),
    "layer_norm_parts": (layer_norm_parts, [shape(40, 50), shape(50), shape(50)]),
    "layer_norm_gradient": (layer_norm_gradient, [shape(40, 50), shape(50), shape(40, 50)]),
    "variance": (variance, [shape(40, 50)]),
    "stencil": (stencil, [shape(20, 20)]),
    "two_layers": (two_layers, [shape(4, 9), shape(9, 12), shape(12), shape(12, 10), shape(10)]),
    "attention": (attention, [shape(40, 64), shape(50, 64), shape(50, 32)]),
    "rows_and_columns": (rows_and_columns, [shape(40, 50)]),
    "part_of_a_row": (part_of_a_row, [shape(40, 50)]),
    "value_and_its_sum": (value_and_its_sum, [shape(40, 50)]),
    "sum_columns": (lambda b, x: [b.sum(x, 0)], [shape(40, 50)]),
    "sum_rows_outer": (lambda b, x: [b.sum(x, 1)], [shape(4, 40, 50)]),
    "two_sums": (lambda b, x: [b.sum(x, 1), b.sum(b.mul(x, x), 1)], [shape(40, 50)]),
    "argmax_columns": (lambda b, x: [b(ArgMax(0), x)], [shape(40, 50)]),
    "transpose": (lambda b, x: [b.add(b(Transpose((1, 0)), x), 1.0)], [shape(40, 50)]),
    "reshape": (lambda b, x: [b(Reshape((50, 40)), b.exp(x))], [shape(40, 50)]),
    "reshape_of_transpose": (
        lambda b, x: [b(Reshape((2000,)), b(Transpose((1, 0)), x))],
        [shape(40, 50)],
    ),
    "short_rows": (softmax, [shape(40, 3)]),
    "pad": (lambda b, x: [b(Pad((1, 2), (0, 1), 0.5), b.sin(x))], [shape(40, 50)]),
    "concatenate": (
        lambda b, x, y: [b.mul(b(Concatenate(0), x, y), 2.0)],
        [shape(40, 50), shape(3, 50)],
    ),
    "take": (
        lambda b, x, r: [b.mul(b(Take(), x, r), 3.0)],
        [shape(9, 50), shape(7, dtype="int32")],
    ),
    "scatter": (
        lambda b, x, r, u: [b(ScatterAdd(), x, r, b.sin(u))],
        [shape(9, 50), shape(7, dtype="int32"), shape(7, 50)],
    ),
    "update_slice": (
        lambda b, x, u, s: [b.mul(b(UpdateSlice(), b.exp(x), u, s), 2.0)],
        [shape(9, 50), shape(3, 50), shape(dtype="int32")],
    ),
    "running_sum": (lambda b, x: [b(CumSum(1, True), b.exp(x))], [shape(40, 50)]),
    "running_sum_columns": (lambda b, x: [b(CumSum(0, False), x)], [shape(40, 50)]),
    "sort": (lambda b, x: [b.mul(b(Sort(), b.mul(x, 2.0)), 2.0)], [shape(40, 50)]),
}


def build(function, shapes):
    """The Jaxpr of a program."""
    b = Build()
    return b.jaxpr(*function(b, *[b.input(*n, dtype=d) for n, d in shapes]))


def named(name):
    """The Jaxpr of one of `PROGRAMS`."""
    return build(*PROGRAMS[name])
