"""Reading and updating by index, choosing elements.

Expressions for `test_expressions` by theme, one a line, over its arrays.
"""

CASES = {
    "indexing": r"""
x[5]
x[-5]
x[m.array([5])]
x[m.array([-5])]
m.zeros((0,3))[0]
m.zeros((0,3))[m.array([0])]
x[:,[0,1]]
x[[0,1]]
x[[0,1],0]
x['a']
x[1.0]
x[0,0,0]
x[...,...]
x[True]
x[False]
x[m.array(True)]
x[m.array([True,False])]
x[m.array([True])]
x[m.array([[True,False,True],[False,True,False]])]
x[m.int32(1)]
x[np.array(1)]
x[slice(0,m.int32(1))]
lib.jit(lambda x,i:x[i:])(x,1)
lib.jit(lambda x,i:x[x>i])(x,1)
x[m.array([1.0])]
x[np.float32(1)]
x[()]
x[1:2.0]
m.float32(3)[()]
m.float32(3)[0]
m.float32(3)[...]
m.array(5)[None]
m.arange(3)[::-1]
x[::0]
""",
    "updates": r"""
x.at[5].get(mode='wrap')
x.at[5].get(mode='fill')
x.at[5].get(mode='foo')
x.at[5].set(7)
x.at[5].set(7,mode='clip')
x.at[-5].set(7)
x.at[1].set([1,2,3])
x.at[1].set(m.ones(4))
x.at[1].set(m.ones((1,1,3)))
m.arange(3).at[0].set(1.5)
m.arange(3).at[0].add(1.5)
m.arange(3).at[0].set(1j)
x.at[0,1].apply(m.exp)
m.arange(3).at[m.array([0,0])].apply(lambda v:v+1)
x.at[0].set(3, foo=1)
x.at[0].set()
m.arange(3).at[1].divide(2)
m.arange(3).at[1].power(2)
m.arange(3).at[1].min(0)
m.arange(3.).at[1].min(m.nan)
x.at[m.array([7,-7,0])].set(9)
x.at[m.array([7,-7,0])].set(9,mode='wrap')
x.at[m.array([7,-7,0])].add(9,mode='clip')
x.at[m.array([-1])].set(9,wrap_negative_indices=False)
x.at[m.array([-1])].get(wrap_negative_indices=False)
x.at[-1].get(wrap_negative_indices=False)
""",
    "take": r"""
m.take(x,7)
m.take(x,m.array([7,-1,-7]))
m.take(x,m.array([7,-1,-7]),mode='clip')
m.take(x,m.array([7,-1,-7]),mode='wrap')
m.take(x,m.array([7,-1,-7]),mode='raise')
m.take(x,m.array([7,-1,-7]),fill_value=3)
m.take(x,[1])
m.take(x,1.0)
m.take(x,m.array([[0,1],[1,0]]),axis=0)
m.take(x,1,axis=5)
m.take(x.astype(int),9,axis=0)
m.take(m.float32(2),m.array([0,0]))
m.take(x,True)
""",
    "choosing": r"""
m.where(x > 2, x, -x), m.where(b[:3], v, 0), m.where(True, 1, 2.5), m.where(x > 2)
m.where(v > 1, v, i8[:3])
m.where(x > 2, size=2), m.where(x > 2, size=5, fill_value=-1)
m.where(x > 2, x, x, size=3)
m.where(x > 2, m.ones(2), 0)
m.nonzero(x), m.nonzero(x, size=3), m.nonzero(x, size=9, fill_value=(7, 8))
m.nonzero(m.zeros((0, 2)), size=2)
m.nonzero(3)
lib.jit(m.nonzero)(x)
lib.jit(lambda a: m.nonzero(a, size=4))(x)
lib.jit(lambda a: m.argwhere(a, size=4, fill_value=9))(x)
m.argwhere(x), m.argwhere(x, size=2), m.argwhere(3), m.argwhere(0), m.flatnonzero(x)
m.flatnonzero(x, size=7)
m.select([x < 2, x < 4], [x, 10 * x]), m.select([x < 2], [x], 7)
m.select([x > 9, x > 1], [1, 2.5], -1)
m.select([x], [x])
m.select([], [])
m.select([x < 2], [x, x])
m.piecewise(x, [x < 2, x >= 2], [-1, 1]), m.piecewise(x, [x < 2], [lambda a: a * 2, 5])
m.piecewise(x, [x < 2], [1])
m.piecewise(x, [x < 2], [1, 2, 3])
m.piecewise(v, [v < 2, v > 2], [lambda a, k: a + k, lambda a, k: a - k], 10)
m.choose(m.array([1, 0, 1]), [v, -v]), m.choose(m.array([3, -1, 1]), [v, -v], mode='wrap')
m.choose(m.array([3, -1, 1]), [v, -v], mode='clip'), m.choose(1, [v, 5])
m.choose(m.array([3, 0, 1]), [v, -v])
m.choose(v, [v, -v])
m.compress(m.array([True, False, True]), v), m.compress(m.array([False, True]), x, axis=0)
m.compress(m.array([True, False, True]), v, size=3, fill_value=9)
m.compress(m.array([True]), x)
m.compress(x > 1, x)
m.extract(x > 2, x), m.extract(x > 2, x, size=5, fill_value=-1)
m.take_along_axis(x, m.argsort(x, axis=1), axis=1)
m.take_along_axis(x, m.array([[5, -1]]), axis=1)
m.take_along_axis(x, m.array([[5, -1]]), axis=1, mode='clip')
m.take_along_axis(x, m.array([7, 1]), None)
m.take_along_axis(x, m.array([[0], [1]]), axis=1)
m.take_along_axis(x, m.array([[0, 1, 0]]), axis=0)
m.take_along_axis(x, m.array([[5]]), axis=1, fill_value=-3)
m.take_along_axis(x, m.array([0]), axis=1)
m.take_along_axis(x, x, axis=1)
m.put_along_axis(x, m.array([[0], [1]]), 9, 1, inplace=False)
m.put(x, m.array([0, 5, -1]), 9, inplace=False)
m.put_along_axis(x, m.array([[0], [1]]), 9, 1)
m.put(x, m.array([0, 7]), m.array([8, 9]), mode='clip', inplace=False)
m.put(x, m.array([7]), 9, mode='wrap', inplace=False)
m.put(x, m.array([0]), 9)
m.place(x, x > 2, m.array([7, 8]), inplace=False)
m.place(x, x > 2, m.array([]), inplace=False)
""",
}
