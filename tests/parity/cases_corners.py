"""Sets of a given size, elements of few bits, infinities: what probing beside the oracle found.

Expressions for `test_expressions` by theme, one a line, over its arrays.
"""

CASES = {
    "sets of a given size": r"""
m.intersect1d(i8, m.array([30, 51, 9]), size=3)
m.intersect1d(i8, m.array([3, 5, 9]), size=6, fill_value=-1, return_indices=True)
m.intersect1d(v[:0], v, size=3)
m.intersect1d(f, v, size=8, return_indices=True)
m.unique(v[:0], size=2)
m.unique(v[:0], size=2, fill_value=3)
m.unique(x[:0], size=2, axis=0)
m.union1d(v[:0], v[:0], size=5)
m.setdiff1d(3, v)
m.setdiff1d(i8, v, size=5, fill_value=9)
m.setxor1d(i8, v, size=9)
m.setxor1d(i8, i8, size=2)
m.setxor1d(f, f, size=5)
""",
    "order statistics": r"""
m.median(1.5, keepdims=True)
m.nanmedian(m.float32(1.5), keepdims=True)
m.nanmedian(m.float32(1.5), axis=(), keepdims=True)
m.nanquantile(m.float32(1.5), m.array([0.5, 0.3]), keepdims=True)
m.median(x, axis=(), keepdims=True)
m.quantile(x, np.nan)
m.nanmedian(m.array([3, -2, 5, -7], 'int4'))
""",
    "bits of other widths": r"""
lib.lax.bitcast_convert_type(m.array([[3, -2], [5, -7]], 'int4'), 'int8')
lib.lax.bitcast_convert_type(m.array([[3, 2], [5, 15]], 'uint4'), 'int8')
lib.lax.bitcast_convert_type(m.array([3, -2, 5, -7], 'int4'), 'int16')
lib.lax.bitcast_convert_type(m.array([3, -2, 5, -7], 'int4'), 'uint4')
lib.lax.bitcast_convert_type(m.array([3, -2, 5, -7], 'int4'), 'int8')
lib.lax.bitcast_convert_type(m.array([3, -2], 'int4'), m.int2)
lib.lax.bitcast_convert_type(i8, m.int4)
lib.lax.bitcast_convert_type(m.array([7, -2], 'int32'), m.uint4)
lib.jit(lambda a: lib.lax.bitcast_convert_type(a + 1, m.int4))(i8)
lib.lax.bitcast_convert_type(v, m.complex64)
lib.lax.bitcast_convert_type(v[:2], m.complex64)
lib.lax.bitcast_convert_type(v, None)
m.array([3, -2, 5, -7], 'int4').view('int8')
m.array([3, -2, 5, -7], 'int4').view('int32')
m.array([3, -2, 5, -7], 'int4').view('float16')
i8.view('uint4')
""",
    "integers of few bits": r"""
lib.lax.shift_right_arithmetic(m.array([3, -2, 5, -7], 'int4'), m.int4(1))
lib.lax.shift_right_arithmetic(m.array([3, -2, 5, -7], 'int4'), m.int4(-1))
lib.lax.shift_right_logical(m.array([3, -2, 5, -7], 'int4'), m.int4(1))
lib.lax.shift_left(m.array([3, -2, 5, -7], 'int4'), m.int4(2))
lib.lax.clz(m.array([3, 0, 5, -7], 'int4'))
lib.lax.div(m.array([3, -2, 5, -8], 'int4'), m.array([0, 3, -2, -1], 'int4'))
lib.lax.rem(m.array([3, -2, 5, -8], 'int4'), m.array([0, 3, -2, -1], 'int4'))
lib.lax.div(m.array([3, 15], 'uint4'), m.array([0, 4], 'uint4'))
""",
    "products of two dtypes": r"""
m.matmul(v.astype('float8_e4m3fn'), v.astype('float8_e4m3fn'), preferred_element_type='float32')
m.einsum('i,i', v.astype('float8_e5m2'), v.astype('float8_e5m2'), preferred_element_type='float16')
lib.lax.dot(v.astype('float8_e4m3fn'), v.astype('float8_e5m2'))
lib.lax.dot(h, v.astype('float8_e5m2'))
lib.lax.dot(h, v.astype('bfloat16'))
lib.lax.dot(u8, i8)
lib.lax.dot(i8, m.array([3, 2, 5, 1], 'uint32'))
lib.lax.dot(i8, m.array([3, -2, 5, -7], 'int4'), preferred_element_type='int32')
""",
    "arguments that do not fit": r"""
m.sum(x, where=x)
m.mean(x, where=1)
m.var(x, where=i8[:3])
m.nanmean(x, where=1)
m.all(x, where=1)
m.full((2,), 300, 'uint8')
m.full((2,), m.nan, 'int32')
m.full((2,), 2**40, 'float32')
m.full((2,), 1j, 'float32')
m.asarray(np.float64(3))
m.array(np.float32(300), 'uint8')
m.sum(i8, initial=m.nan)
m.min(i8[0], initial=m.nan)
m.bincount(u8)
m.cumulative_prod(i8)
m.cumulative_prod(b, include_initial=True)
m.trapezoid(m.array([3, -2, 5, -7], 'int4'))
m.ediff1d(b)
m.delete(v, 5)
m.delete(v, np.array([0, -7]))
m.compress(m.array([True, False]), x, axis=0, size=3)
m.repeat(v, 1.5)
m.take(v[:0], m.array([0]))
m.unravel_index(4, (2, 3))
m.unwrap(z)
m.poly(m.array([[1., 2], [3, 4]]))
m.poly(v[:0])
m.angle(h.astype('float8_e4m3fn'))
lib.lax.broadcast(x, (-1,))
lib.lax.full_like(x, 1j)
lib.lax.reduce_precision(v, 5.0, 2)
lib.lax.zeta(m.float32(m.nan), m.float32(0))
""",
    "weak types of loops": r"""
lib.lax.fori_loop(0, 3, lambda i, c: c + i, 0)
lib.lax.fori_loop(0, 3, lambda i, c: c + i, np.int8(0))
lib.lax.fori_loop(np.int8(0), np.int8(3), lambda i, c: c + i, 0)
lib.lax.fori_loop(m.int32(0), 3, lambda i, c: i, m.int32(0))
lib.jit(lambda n: lib.lax.fori_loop(0, n, lambda i, c: c + i, np.int8(0)))(3)
lib.jit(lambda n: lib.lax.fori_loop(n, 3, lambda i, c: c + i, 0))(m.int32(0))
lib.lax.scan(lambda c, a: (c * a, None), 1., h)
lib.lax.scan(lambda c, a: (c * a, None), 1, i8)
lib.lax.while_loop(lambda c: c < 3, lambda c: c + m.int8(1), 0)
lib.lax.while_loop(lambda c: c < 3, lambda c: (c + 1).astype('int8'), m.int32(0))
lib.lax.while_loop(lambda c: (c < 3,), lambda c: c + 1, 0)
""",
    "lengths of attention": r"""
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], query_seq_lengths=np.int32([1, 2]))
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], query_seq_lengths=[1, 2])
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], query_seq_lengths=np.int16([1, 2]))
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], query_seq_lengths=2)
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], key_value_seq_lengths=np.float32([1, 2]))
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], key_value_seq_lengths=np.int32([1]))
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], key_value_seq_lengths=np.int32([[1], [2]]))
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], local_window_size=[1, 0])
nn.dot_product_attention(t[:, :, :, None], t[:, :, :, None], t[:, :, :, None], bias=m.ones((1, 1, 2, 4, 3, 3)))
""",  # noqa: E501
    "zero times infinity": r"""
m.eye(3) @ m.array([[1, m.inf, 3], [4, 5, m.nan], [1, 2, 3]])
m.triu(m.ones((3, 3))) @ m.array([[1., 2], [3, 4], [m.inf, 6]])
m.dot(m.zeros(3), m.array([m.inf, 0, 0]))
m.convolve(m.array([1, m.inf, 2.]), m.array([0, 1.]), 'same')
lib.lax.conv_general_dilated(m.full((1, 1, 4, 4), m.inf), m.ones((1, 1, 3, 3)), (1, 1), 'SAME')
lib.lax.conv_general_dilated(m.array([[[1, m.inf, 3.]]]), m.array([[[1., 0, 1]]]), (1,), 'SAME')
lib.lax.conv_general_dilated(m.array([[[1, 2, 3.]]]), m.array([[[m.inf, 1., 1]]]), (1,), ((2, 2),))
lib.lax.conv_general_dilated(m.array([[[1, 2, 3.]]]), m.array([[[m.inf, 1., 1]]]), (1,), ((0, 0),), lhs_dilation=(2,))
lib.lax.conv_transpose(m.array([[[1.], [m.inf], [3]]]), m.array([[[1.]], [[0.]], [[2.]]]), (2,), 'SAME')
""",  # noqa: E501
    "complex infinities": r"""
m.log10(m.array([0, -1, complex(m.inf, 1), 3e38, 1j], 'complex64'))
m.log2(m.array([0, -1, complex(0, -m.inf), 3e38j, 1j], 'complex64'))
m.log(m.array([3e38, complex(3e38, 3e38), complex(0, m.nan), 1e-30], 'complex64'))
m.sqrt(m.array([complex(0, m.nan), 3e38, -4], 'complex64'))
m.square(m.array([complex(m.inf, 3e38), complex(1, 2), complex(3e-30, -1)], 'complex64'))
m.tanh(m.array([complex(3e38, m.inf), complex(3e38, m.nan), complex(m.inf, 1)], 'complex64'))
m.arcsin(m.array([complex(m.inf, 1), complex(-m.inf, m.inf), complex(m.inf, m.nan), complex(2, -m.inf)], 'complex64'))
m.arccos(m.array([complex(m.inf, 1), complex(-m.inf, m.inf), complex(m.inf, m.nan), complex(2, -m.inf)], 'complex64'))
m.arcsinh(m.array([complex(m.inf, 1), complex(-m.inf, m.inf), complex(1, m.inf), complex(2, -m.inf)], 'complex64'))
m.arccosh(m.array([complex(m.inf, 1), complex(-m.inf, m.inf), complex(1, m.inf), complex(2, -m.inf)], 'complex64'))
""",  # noqa: E501
    "the array API": r"""
m.__array_api_version__
x.__array_namespace__(api_version='2024.12') is m
x.__array_namespace__(api_version='1999.12') is m
m.__array_namespace_info__().capabilities()
m.__array_namespace_info__().dtypes()
m.__array_namespace_info__().dtypes(kind=('integral', 'bool'))
m.__array_namespace_info__().dtypes(kind='numbers')
m.__array_namespace_info__().default_dtypes()
m.__array_namespace_info__().default_device()
x.to_device(lib.devices()[0])
x.to_device(lib.devices()[0], stream=1)
""",
}
