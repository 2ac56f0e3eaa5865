"""The little language's compiler: parsed source to LLVM text, through llvmlite's builder."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from llvmlite import ir

from .language import Extern
from .source import Source

#: Instructions, before LLVM simplifies them, up to which a function is put into its callers.
SMALL: Final = 50


def compile_source(source: Source, triple: str) -> str:
    """The program as LLVM text.  It exports every function, every instance, and `api`, the table
    of addresses of its externs, in the order of `source.api`.
    """
    program = _Program(source, triple)
    for node in source.functions.values():
        program.declare(node)
    for node in source.functions.values():
        _Function(program, node).compile()
        function, _ = program.functions[node.name]
        if sum(len(block.instructions) for block in function.blocks) <= SMALL:
            function.attributes.add("alwaysinline")
    return str(program.module)


class _Program:
    def __init__(self, source: Source, triple: str) -> None:
        self.source = source
        self.word, self.double = ir.IntType(64), ir.DoubleType()
        self.module = ir.Module("covector_runtime")
        self.module.triple = triple
        self.functions: dict[str, tuple[Any, str]] = {}
        self.api = self._global("api", len(source.api))
        self.instances = {
            name: self._global(name, len(source.structs[kind]))
            for name, kind in source.instances.items()
        }
        self.texts: dict[str, Any] = {}

    def _global(self, name: str, words: int) -> Any:
        kind = ir.ArrayType(self.word, max(words, 1))
        variable: Any = ir.GlobalVariable(self.module, kind, name)
        variable.initializer = ir.Constant(kind, None)
        variable.align = 64
        return variable

    def kind(self, annotation: ast.expr | None) -> str:
        """'v', 'd', 'w' or the name of a Struct."""
        if annotation is None or (isinstance(annotation, ast.Constant) and not annotation.value):
            return "v"
        name = ast.unparse(annotation).strip("'\"")
        if name in self.source.structs:
            return name
        return {"word": "w", "double": "d", "None": "v"}[name]

    def type(self, kind: str) -> Any:
        if kind == "v":
            return ir.VoidType()
        return self.double if kind == "d" else self.word

    def declare(self, node: ast.FunctionDef) -> None:
        result = self.kind(node.returns)
        args = [self.type(self.kind(a.annotation)) for a in node.args.args]
        function = ir.Function(self.module, ir.FunctionType(self.type(result), args), node.name)
        function.attributes.add("nounwind")
        self.functions[node.name] = (function, result)

    def text(self, value: str) -> Any:
        if value not in self.texts:
            data = bytearray(value.encode() + b"\0")
            kind = ir.ArrayType(ir.IntType(8), len(data))
            variable: Any = ir.GlobalVariable(self.module, kind, f"text{len(self.texts)}")
            variable.initializer = ir.Constant(kind, data)
            variable.global_constant, variable.linkage = True, "internal"
            self.texts[value] = variable
        return self.texts[value]


Value = tuple[Any, str]  # an LLVM value, its kind

_ARITHMETIC: Final = {
    ast.Add: ("add", "fadd"), ast.Sub: ("sub", "fsub"), ast.Mult: ("mul", "fmul"),
    ast.FloorDiv: ("udiv", None), ast.Mod: ("urem", None), ast.BitAnd: ("and_", None),
    ast.BitOr: ("or_", None), ast.BitXor: ("xor", None), ast.LShift: ("shl", None),
    ast.RShift: ("lshr", None),
}  # fmt: skip
_COMPARE: Final = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "==", ast.IsNot: "!=",
}  # fmt: skip
_LOADS: Final = {
    "load8": (8, False), "load16": (16, False), "load32": (32, False),
    "signed8": (8, True), "signed16": (16, True), "signed32": (32, True),
}  # fmt: skip
_STORES: Final = {"store8": 8, "store16": 16, "store32": 32}


class _Function:
    """Compiles one function: locals live in stack slots, which LLVM turns into registers."""

    def __init__(self, program: _Program, node: ast.FunctionDef) -> None:
        self.program, self.node = program, node
        self.function, self.result = program.functions[node.name]
        self.entry = ir.IRBuilder(self.function.append_basic_block("locals"))
        self.b: Any = ir.IRBuilder(self.function.append_basic_block("start"))
        self.start = self.b.block
        self.locals: dict[str, tuple[Any, str]] = {}
        self.loops: list[tuple[Any, Any]] = []

    def compile(self) -> None:
        for parameter, value in zip(self.node.args.args, self.function.args, strict=True):
            kind = self.program.kind(parameter.annotation)
            self.b.store(value, self.slot(parameter.arg, kind))
        self.block(self.node.body)
        if not self.b.block.is_terminated:
            if self.result == "v":
                self.b.ret_void()
            else:
                self.b.unreachable()
        self.entry.branch(self.start)

    def fail(self, node: ast.AST, why: str) -> Exception:
        line = getattr(node, "lineno", 0)
        return SyntaxError(f"{self.node.name}, line {line}: {why}: {ast.unparse(node)}")

    def slot(self, name: str, kind: str) -> Any:
        if name not in self.locals:
            self.locals[name] = (self.entry.alloca(self.program.type(kind), name=name), kind)
        return self.locals[name][0]

    # Statements.

    def block(self, body: list[ast.stmt]) -> None:
        for node in body:
            if self.b.block.is_terminated:
                return
            self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(ast.Constant(str())) | ast.Pass():
                pass
            case ast.Expr(value):
                self.value(value)
            case ast.Assign([target], value):
                self.assign(target, self.value(value))
            case ast.AugAssign(target, op, value):
                self.assign(target, self.value(ast.BinOp(target, op, value)))
            case ast.Return(None):
                self.b.ret_void()
            case ast.Return(value) if value is not None:
                self.b.ret(self.value(value)[0])
            case ast.If(test, body, orelse):
                self.branch(test, body, orelse)
            case ast.While(test, body, []):
                self.loop(test, body)
            case ast.Break():
                self.b.branch(self.loops[-1][1])
            case ast.Continue():
                self.b.branch(self.loops[-1][0])
            case _:
                raise self.fail(node, "no such statement in native code")

    def assign(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(name):
                slot = self.slot(name, value[1])
                kind = self.locals[name][1]
                if (kind == "d") != (value[1] == "d"):
                    raise self.fail(target, "a word and a double in one variable")
                self.b.store(value[0], slot)
            case ast.Attribute() | ast.Subscript():
                self.b.store(value[0], self.place(target)[0], align=8)
            case _:
                raise self.fail(target, "not assignable")

    def branch(self, test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
        then, other, after = (self.function.append_basic_block() for _ in range(3))
        self.b.cbranch(self.truth(test), then, other)
        for block, statements in ((then, body), (other, orelse)):
            self.b.position_at_end(block)
            self.block(statements)
            if not self.b.block.is_terminated:
                self.b.branch(after)
        self.b.position_at_end(after)

    def loop(self, test: ast.expr, body: list[ast.stmt]) -> None:
        head, inside, after = (self.function.append_basic_block() for _ in range(3))
        self.b.branch(head)
        self.b.position_at_end(head)
        self.b.cbranch(self.truth(test), inside, after)
        self.b.position_at_end(inside)
        self.loops.append((head, after))
        self.block(body)
        self.loops.pop()
        if not self.b.block.is_terminated:
            self.b.branch(head)
        self.b.position_at_end(after)

    # Expressions.

    def constant(self, value: int) -> Any:
        return ir.Constant(self.program.word, value)

    def truth(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(True):
                return ir.Constant(ir.IntType(1), 1)
            case ast.UnaryOp(ast.Not(), operand):
                return self.b.not_(self.truth(operand))
            case ast.BoolOp(op, values):
                return self.shortcut(isinstance(op, ast.And), values)
            case ast.Compare(left, [op], [right]):
                a, b = self.value(left), self.value(right)
                sign = _COMPARE[type(op)]
                if a[1] == "d":
                    return self.b.fcmp_ordered(sign, a[0], b[0])
                return self.b.icmp_signed(sign, a[0], b[0])
            case _:
                return self.b.icmp_signed("!=", self.value(node)[0], self.constant(0))

    def shortcut(self, is_and: bool, values: list[ast.expr]) -> Any:
        done = self.function.append_basic_block()
        arrivals = []
        for node in values[:-1]:
            condition = self.truth(node)
            arrivals.append(self.b.block)
            following = self.function.append_basic_block()
            targets = (following, done) if is_and else (done, following)
            self.b.cbranch(condition, *targets)
            self.b.position_at_end(following)
        last = self.truth(values[-1])
        arrivals_last = self.b.block
        self.b.branch(done)
        self.b.position_at_end(done)
        phi = self.b.phi(ir.IntType(1))
        for block in arrivals:
            phi.add_incoming(ir.Constant(ir.IntType(1), 0 if is_and else 1), block)
        phi.add_incoming(last, arrivals_last)
        return phi

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Constant(float(number)):
                return ir.Constant(self.program.double, number), "d"
            case ast.Constant(int(number)):
                return self.constant(int(number)), "w"
            case ast.Constant(None):
                return self.constant(0), "w"
            case ast.Name(name):
                return self.name(node, name)
            case ast.Attribute() | ast.Subscript():
                address, kind = self.place(node)
                return self.b.load(address, align=8), kind
            case ast.UnaryOp(ast.USub(), operand):
                return self.b.neg(self.value(operand)[0]), "w"
            case ast.UnaryOp(ast.Not()) | ast.Compare() | ast.BoolOp():
                return self.b.zext(self.truth(node), self.program.word), "w"
            case ast.BinOp(left, op, right):
                return self.arithmetic(op, self.value(left), self.value(right))
            case ast.IfExp(test, body, orelse):
                return self.choice(test, body, orelse)
            case ast.Call(ast.Name(name), args):
                return self.call(node, name, args)
            case _:
                raise self.fail(node, "no such expression in native code")

    def name(self, node: ast.expr, name: str) -> Value:
        program = self.program
        if name in self.locals:
            slot, kind = self.locals[name]
            return self.b.load(slot), kind
        if name in program.instances:
            address = self.b.ptrtoint(program.instances[name], program.word)
            return address, program.source.instances[name]
        if name in program.source.constants:
            return self.constant(program.source.constants[name]), "w"
        raise self.fail(node, "unknown name")

    def arithmetic(self, op: ast.operator, a: Value, b: Value) -> Value:
        on_words, on_doubles = _ARITHMETIC[type(op)]
        if a[1] == "d":
            return getattr(self.b, on_doubles)(a[0], b[0]), "d"  # type: ignore[arg-type]
        return getattr(self.b, on_words)(a[0], b[0]), "w"

    def choice(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
        condition = self.truth(test)
        a, b = self.value(body), self.value(orelse)
        return self.b.select(condition, a[0], b[0]), a[1]

    def pointer(self, address: Any, bits: int | str = 64) -> Any:
        kinds = {"f32": ir.FloatType(), "f64": ir.DoubleType()}
        kind = kinds[bits] if isinstance(bits, str) else ir.IntType(bits)
        return self.b.inttoptr(address, kind.as_pointer())

    def place(self, node: ast.expr) -> Value:
        """The address of a field or of an indexed word, and the kind of what is there."""
        match node:
            case ast.Attribute(base, field):
                address, struct = self.value(base)
                fields = self.program.source.structs.get(struct)
                if fields is None or field not in fields:
                    raise self.fail(node, f"{struct} has no such field")
                offset = self.program.source.offset(struct, field)
                kind = fields[field] if fields[field] in self.program.source.structs else "w"
                return self.pointer(self.b.add(address, self.constant(offset))), kind
            case ast.Subscript(base, index):
                address, _ = self.value(base)
                offset = self.b.shl(self.value(index)[0], self.constant(3))
                return self.pointer(self.b.add(address, offset)), "w"
            case _:
                raise self.fail(node, "not a place in memory")

    # Calls.

    def call(self, node: ast.expr, name: str, args: list[ast.expr]) -> Value:
        program = self.program
        if name == "text":
            return self.b.ptrtoint(program.text(ast.literal_eval(args[0])), program.word), "w"
        if name == "sizeof":
            return self.constant(8 * len(program.source.structs[ast.unparse(args[0])])), "w"
        if name == "address_of":
            function = program.functions[ast.unparse(args[0])][0]
            return self.b.ptrtoint(function, program.word), "w"
        values = [self.value(a) for a in args]
        if name in program.source.structs:
            return values[0][0], name
        if name in program.functions:
            function, kind = program.functions[name]
            return self.b.call(function, [v for v, _ in values]), kind
        if name in program.source.externs:
            return self.extern(program.source.externs[name], values)
        special: Callable[..., Value] | None = getattr(self, f"on_{name}", None)
        if special is not None:
            return special(*values)
        if name in _LOADS:
            return self.narrow_load(values[0], *_LOADS[name])
        if name in _STORES:
            return self.narrow_store(values[0], values[1], _STORES[name])
        raise self.fail(node, "unknown function")

    def extern(self, extern: Extern, values: list[Value]) -> Value:
        program = self.program
        if len(values) != len(extern.args):
            raise SyntaxError(f"{self.node.name}: {extern.name} takes {len(extern.args)} arguments")
        kinds = {"w": program.word, "i": ir.IntType(32), "d": program.double, "v": ir.VoidType()}
        signature = ir.FunctionType(kinds[extern.result], [kinds[k] for k in extern.args])
        index = program.source.api.index(extern.name)
        zero = ir.Constant(ir.IntType(64), 0)
        where = self.b.gep(program.api, [zero, self.constant(index)])
        function = self.b.inttoptr(self.b.load(where), signature.as_pointer())
        given = [
            self.b.trunc(v, ir.IntType(32)) if k == "i" else v
            for (v, _), k in zip(values, extern.args, strict=True)
        ]
        result = self.b.call(function, given)
        if extern.result == "i":
            return self.b.sext(result, program.word), "w"
        return result, extern.result

    def narrow_load(self, address: Value, bits: int, signed: bool) -> Value:
        loaded = self.b.load(self.pointer(address[0], bits), align=1)
        widen = self.b.sext if signed else self.b.zext
        return widen(loaded, self.program.word), "w"

    def narrow_store(self, address: Value, value: Value, bits: int) -> Value:
        narrowed = self.b.trunc(value[0], ir.IntType(bits))
        return self.b.store(narrowed, self.pointer(address[0], bits), align=1), "v"

    def on_load_f32(self, address: Value) -> Value:
        loaded = self.b.load(self.pointer(address[0], "f32"), align=4)
        return self.b.fpext(loaded, self.program.double), "d"

    def on_load_f64(self, address: Value) -> Value:
        return self.b.load(self.pointer(address[0], "f64"), align=8), "d"

    def on_store_f32(self, address: Value, value: Value) -> Value:
        narrowed = self.b.fptrunc(value[0], ir.FloatType())
        return self.b.store(narrowed, self.pointer(address[0], "f32"), align=4), "v"

    def on_store_f64(self, address: Value, value: Value) -> Value:
        return self.b.store(value[0], self.pointer(address[0], "f64"), align=8), "v"

    def on_to_double(self, value: Value) -> Value:
        return self.b.sitofp(value[0], self.program.double), "d"

    def on_leading_zeros(self, value: Value) -> Value:
        flag = ir.Constant(ir.IntType(1), 0)
        return self.b.ctlz(value[0], flag), "w"

    def on_stack(self, count: Value) -> Value:
        slot: Any = self.b.alloca(self.program.word, size=count[0])
        slot.align = 16
        return self.b.ptrtoint(slot, self.program.word), "w"

    def on_call(self, function: Value, *args: Value) -> Value:
        program = self.program
        signature = ir.FunctionType(program.word, [program.word] * len(args))
        target = self.b.inttoptr(function[0], signature.as_pointer())
        return self.b.call(target, [a for a, _ in args]), "w"
