"""Elementwise functions, ufuncs, methods, functions of `nn`.

Expressions for `test_expressions` by theme, one a line, over its arrays.
"""

CASES = {
    "scalars, powers, clipping, where": r"""
m.power(2,-1)
m.power(np.int32([2,1,-1,0]),-1)
m.power(np.int32([2,1,-1,0]),np.int32([-1,-2,-3,-1]))
m.power(True,2)
m.power(np.bool_([1]),2)
m.power(v,np.int32([2]))
m.round(np.int32([123,155]),-1)
m.round(np.int32([123,155]),1)
m.round(np.float16([1.2345,2.567]),2)
m.uint8(3)+300
m.uint8(3)+(-1)
m.uint32([3])+(-1)
m.int32(3)+2**40
m.clip(v,[0.],1)
m.clip(1j,0,1)
m.clip(v)
m.clip(np.int32([1,5]),0.5,2.5)
m.clip(v,min=2)
m.where(v>0)
m.where(v>0,1)
m.where(2.0,v,v)
m.where([True],v,v)
m.where(v>0,[1.],v)
""",
    "bits and windows": r"""
m.packbits(m.array([1,0,1],int))
m.packbits(m.array([[1,0,1],[1,1,1]],bool),axis=0)
m.packbits(m.array([1,0,1],int),bitorder='little')
m.packbits(x)
m.unpackbits(m.array([5],m.uint8))
m.unpackbits(m.array([[5],[7]],m.uint8),axis=1,count=3)
m.unpackbits(m.array([5],m.uint8),bitorder='little')
m.unpackbits(m.array([5]))
m.unpackbits(m.array([5],m.uint8),count=-2)
m.unpackbits(m.array([5],m.uint8),count=12)
m.bartlett(5)
m.blackman(5)
m.hamming(5)
m.hanning(5)
m.kaiser(5,14.)
m.hanning(1)
m.hanning(0)
m.hanning(2)
m.gcd(12,18)
m.gcd(m.array([-12,0,7]),m.array([18,5,0]))
m.lcm(4,6)
m.lcm(m.array([-4,0]),6)
m.gcd(m.uint8(200),m.uint8(150))
""",
    "comparing": r"""
m.allclose(x,x)
m.allclose(x,m.ones(2))
m.array_equal(x,x)
m.array_equal(x,[1])
m.array_equal(x,x[0])
m.array_equal(m.nan,m.nan)
m.array_equal(m.nan,m.nan,equal_nan=True)
m.array_equiv(x,x[:1])
m.array_equiv(m.ones((2,3)),m.ones(3))
m.array_equiv(x,m.ones(2))
""",
    "ufuncs": r"""
m.add.reduce(x)
m.add.reduce(x,axis=None)
m.add.accumulate(x)
m.add.outer(m.arange(2),m.arange(3))
m.add.at(m.arange(3),m.array([0,0]),1,inplace=False)
m.add.at(m.arange(3),m.array([0,0]),1)
m.add.reduceat(m.arange(6),m.array([0,2,4]))
m.multiply.reduce(x)
m.maximum.reduce(x)
m.maximum.accumulate(x,axis=1)
m.logaddexp.reduce(x)
m.subtract.reduce(x)
m.negative.at(m.arange(3),1,inplace=False)
m.add.nin
m.add.identity
m.maximum.identity
m.add.__name__
m.logical_and.reduce(x)
m.bitwise_and.reduce(m.arange(3))
m.add.reduce(x,where=x>1)
m.add.reduce(x,initial=5.)
m.maximum.reduce(m.zeros(0))
m.add.accumulate(x,axis=None)
m.add(x,x,where=True)
m.subtract.accumulate(m.arange(4))
m.frompyfunc(lambda a,b: a+b,2,1)(x,x)
m.frompyfunc(lambda a,b: a+b,2,1,identity=0).reduce(x)
""",
    "functions of functions": r"""
m.apply_along_axis(m.sum,0,x)
m.apply_along_axis(lambda v: v*2,1,x)
m.apply_along_axis(m.sum,1,m.arange(120.).reshape(2,3,4,5))
m.apply_along_axis(lambda v: m.outer(v,v),-4,m.arange(120.).reshape(2,3,4,5))
m.apply_over_axes(m.sum,x,[0,1])
m.vectorize(lambda a,b:a+b)(x,x[0])
m.vectorize(m.dot,signature='(n),(n)->()')(x,x[0])
m.vectorize(lambda a,b:a+b,excluded={1})(x,2)
m.vectorize(lambda a:(a,a))(x[0])
""",
    "methods": r"""
x.sum(), x.sum(0), x.mean(axis=1), x.max(), x.min(0), x.std(), x.var(ddof=1), x.prod(), x.all()
x.any(), x.ptp()
x.argmax(), x.argmin(axis=1), x.cumsum(), x.cumprod(0), x.round(1), x.clip(1, 4), x.clip(max=2)
x.conj(), z.real, z.imag
x.reshape(3, 2), x.reshape((3, 2)), x.reshape(-1), x.reshape([6]), x.reshape(3, -1, order='F')
x.ravel(), x.flatten()
x.T, x.mT, x.transpose(), x.transpose(1, 0), x.transpose((1, 0)), x.transpose(None)
x.swapaxes(0, 1), x.squeeze()
v.mT
x.dot(v), x.take(m.array([1, 2])), x.take(0, axis=1), x.trace(), x.diagonal(), x.sort(axis=0)
x.argsort(), x.nonzero()
x.repeat(2, axis=0), x.astype(int), x.astype('bfloat16'), x.copy(), v.searchsorted(2)
x.compress(m.array([True, False]), axis=0), m.array([1, 0, 1]).choose([v, -v])
v.argpartition(1)[1]
x.view('int32'), x.view('uint8'), i8.view('int32'), z.view('float32'), x.T.view('complex64')
x.view(bool)
m.float32(1).view('int8')
v.view('float16'), b.view('int8'), i8.view('uint8'), i8.byteswap(), v.byteswap(), z.byteswap()
z.astype(float), z.astype(int), z.astype(bool), x.astype(None), x.astype(bool)
-x, +x, abs(-x), ~i8, ~b, round(m.float32(2.6)), round(x, 1), round(m.float32(2.6), 1)
round(m.int32(3))
x + 1, 1 + x, x - 1.5, 2 - x, x * 2, 2 * x, x / 2, 2 / (x + 1), x // 2, 7 // (x + 1), x % 2
7 % (x + 1)
x ** 2, 2 ** x, x ** 0.5, x ** -1, x ** v, divmod(x, 2), divmod(7, x + 1), x @ v, v @ x.T
np.ones(2, 'f') @ x
x == 1, x != 1, x < 2, x <= 2, x > 2, x >= 2, 2 < x, x == x, x < v, np.float32(2) < x
np.ones(3) + x
i8 & 1, 1 | i8, i8 ^ 3, i8 << 1, i8 >> 1, 5 & i8, 1 << u8, 300 >> u8, b & b, b | True, b ^ b
x + None
x + 'a'
x + [1, 2, 3]
[1, 2, 3] * x
x @ 3
x == 'a', x != None
x < 'a'
x & 1
b - b
-b
x[0] > 1 and 5
bool(x)
bool(x[0, 1]), int(x[1, 2]), float(x[0, 1]), complex(x[0, 1])
len(x), [r for r in v], 2.0 in v, list(reversed(v)), x.shape, x.ndim, x.size, x.dtype, x.nbytes
iter(m.float32(3))
x.at[0].set(1), x.at[0, 1].add(2), x.at[:, 0].multiply(3), x.at[0].divide(2), x.at[0].power(2)
x.at[0].min(1)
hash(x)
x.__setitem__(0, 1)
x.item()
x.tolist(), x.item(2), x[0, 0].item()
2.0 in x
x == [1]
x != {}
""",
    "nn": r"""
nn.one_hot([0,2],3)
nn.one_hot(m.array([0,2,5,-1]),3)
nn.one_hot(m.array([0,2]),3,axis=0)
nn.one_hot(m.array([0,2]),3,dtype=int)
nn.one_hot(m.array([0.,1.]),3)
nn.one_hot(1,3)
nn.one_hot(m.array([0,2]),3,axis=5)
nn.one_hot(m.array([0,2]),3.0)
nn.one_hot(m.array([0,2]),0)
nn.softmax(x)
nn.softmax(x,axis=None)
nn.softmax(x,axis=(0,1))
nn.softmax(x,where=x>1)
nn.softmax(x,where=x>9)
nn.softmax(m.array([-m.inf,-m.inf]))
nn.softmax(m.array([m.inf,0.]))
nn.softmax(m.zeros((0,3)))
nn.softmax(m.zeros((3,0)))
nn.softmax(m.array([1e30,1e38]))
nn.log_softmax(x)
nn.log_softmax(x,where=x>1)
nn.log_softmax(x,where=x>9)
nn.log_softmax(m.array([-m.inf,0]))
nn.log_softmax(m.zeros((3,0)))
nn.logsumexp(x)
nn.logsumexp(x,axis=1,keepdims=True)
nn.logsumexp(x,b=m.array([1.,-1,1]))
nn.logsumexp(x,axis=1,b=m.array([1.,-3,1]),return_sign=True)
nn.logsumexp(x,where=x>2)
nn.logsumexp(m.array([]))
nn.logsumexp(m.array([-m.inf]))
nn.logsumexp(m.array([m.inf,1.]))
nn.logsumexp(m.array([m.nan,1.]))
nn.logsumexp(1j*x)
nn.logsumexp(x,b=0.)
nn.logsumexp(x,return_sign=True)
nn.logmeanexp(x)
nn.logmeanexp(x,axis=0,where=x>1)
nn.logmeanexp(x,axis=1,keepdims=True)
nn.standardize(x)
nn.standardize(x,axis=0)
nn.standardize(x,mean=0.,variance=1.)
nn.standardize(x,where=x>1)
nn.standardize(x,algorithm='two_pass')
nn.standardize(x,algorithm='foo')
nn.standardize(x,axis=(0,1))
nn.glu(m.arange(4.))
nn.glu(x,axis=0)
nn.log1mexp(m.array([0.,.1,1,50]))
nn.relu(m.array([-1.,m.nan,-0.]))
nn.relu6(m.array([-1.,7,m.nan]))
nn.leaky_relu(x-3,0.2)
nn.elu(x-3,2.)
nn.celu(x-3,2.)
nn.gelu(x-3,False)
nn.gelu(x-3)
nn.squareplus(x-3,1.)
nn.sparse_plus(x/2-1)
nn.sparse_sigmoid(x/2-1)
nn.selu(x-3)
nn.soft_sign(x-3)
nn.hard_silu(x-3)
nn.hard_tanh(x-3)
lib.grad(nn.relu)(0.)
lib.grad(nn.relu6)(0.)
lib.grad(nn.relu6)(6.)
lib.grad(nn.leaky_relu)(0.)
lib.grad(nn.elu)(0.)
lib.grad(nn.hard_tanh)(1.)
lib.grad(nn.softplus)(0.)
lib.grad(nn.silu)(0.)
lib.grad(nn.hard_sigmoid)(3.)
lib.grad(nn.celu)(0.)
lib.grad(nn.sparse_plus)(1.)
lib.grad(nn.squareplus)(0.)
lib.grad(lambda v: nn.logsumexp(v))(m.zeros(2))
lib.grad(nn.log_sigmoid)(-200.)
lib.grad(nn.log1mexp)(1.)
""",
}
