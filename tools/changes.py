"""All small changes of a module's source that a test ought to notice, as text and in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "//", ast.Pow: "*",
    ast.BitAnd: "|", ast.BitOr: "&", ast.LShift: ">>", ast.RShift: "<<",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {  # a sign, and what is put in its place
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
}  # fmt: skip
_NAMES = {"min": "max", "any": "all", "minimum": "maximum", "floor": "ceil", "argmin": "argmax"}
_SWAPPED = _NAMES | {after: before for before, after in _NAMES.items()}
_LOOKS = frozenset({"__repr__", "__str__", "_repr_html_"})
_ATOMS = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant

Node = ast.expr | ast.stmt


@dataclass(frozen=True)
class Change:
    """One piece of source replaced by another. Columns count bytes, as Python's own positions do."""

    line: int
    column: int
    end_line: int
    end_column: int
    before: str
    after: str
    line_text: str  # the line on which it begins, so that one can see which of several numbers is meant
    function: int = 0  # the line at which the function begins that holds it; 0 outside of functions

    def applied(self, source: str) -> str:
        """The changed source."""
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        first, last = lines[self.line - 1], lines[self.end_line - 1]
        lines[self.line - 1 : self.end_line] = [first[: self.column] + self.after.encode() + last[self.end_column :]]
        return b"".join(lines).decode()

    def __str__(self) -> str:
        return f"`{brief(self.before)}` → `{brief(self.after)}`"


def brief(text: str, most: int = 70) -> str:
    """Text on one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def changes(source: str) -> list[Change]:
    """Every change of a module, by line. Annotations, decorators, texts and asserts stay as they are."""
    found, lines = [], [line.encode() for line in source.splitlines(keepends=True)]
    for node, after, function in _walk(ast.parse(source), lines, 0):
        ends = node.end_lineno or node.lineno, node.end_col_offset or 0
        around = lines[node.lineno - 1].decode().strip()
        found.append(Change(node.lineno, node.col_offset, *ends, _text(node, lines), after, around, function))
    return sorted(found, key=lambda one: (one.line, one.column, one.after))


def _text(node: Node, lines: list[bytes]) -> str:
    """The source of a node."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    found = lines[node.lineno - 1 : node.end_lineno]
    found[-1] = found[-1][: node.end_col_offset]
    found[0] = found[0][node.col_offset :]
    return b"".join(found).decode()


def _walk(node: ast.AST, lines: list[bytes], function: int) -> Iterator[tuple[Node, str, int]]:
    """Every node that may be replaced, by what, and the first line of the function around it."""
    left_out: list[ast.AST | None] = []
    match node:
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.arg():
            return
        case ast.If() if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            if node.name in _LOOKS:
                return
            function = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            left_out = [node.returns, *node.decorator_list]
        case ast.ClassDef():
            left_out = [*node.decorator_list, *node.bases]
        case ast.AnnAssign():
            left_out = [node.annotation]
        case ast.Raise():
            left_out = list(ast.iter_child_nodes(node))  # what an error says
    yield from ((place, after, function) for place, after in _instead(node, lines))
    for child in ast.iter_child_nodes(node):
        if child not in left_out:
            yield from _walk(child, lines, function)


def _instead(node: ast.AST, lines: list[bytes]) -> Iterator[tuple[Node, str]]:
    """What may stand in the place of a node, or of one of its parts."""

    def text(part: ast.expr) -> str:
        return _text(part, lines) if isinstance(part, _ATOMS) else f"({_text(part, lines)})"

    match node:
        case ast.BinOp() if type(node.op) in _OPERATORS:
            yield node, f"({text(node.left)} {_OPERATORS[type(node.op)]} {text(node.right)})"
        case ast.Compare():
            for changed in node.ops:
                signs = [_COMPARISONS[type(one)][one is changed] for one in node.ops]
                rest = [f"{sign} {text(part)}" for sign, part in zip(signs, node.comparators, strict=True)]
                yield node, f"({' '.join([text(node.left), *rest])})"
        case ast.BoolOp():
            yield node, f"({(' or ' if isinstance(node.op, ast.And) else ' and ').join(map(text, node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node, text(node.operand)
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, repr(value + 1)
        case ast.Constant(value=float() as value):
            yield node, repr(2 * value or 1.0)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _SWAPPED:
            yield node.func, _text(node.func, lines).removesuffix(name) + _SWAPPED[name]
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test) if not isinstance(
            test, ast.Compare | ast.UnaryOp
        ):
            yield test, f"(not {text(test)})"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "pass"
