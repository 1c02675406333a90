"""Parser of formulas.

The language is the part of expr that formulas use: arithmetic, comparison, logic, ``a ? b : c``, ``a ?? b``, lists,
ranges, functions, closures over a list (``count([a, b], {# > 1})``), pipes (``a | max(b)``), names of parts
(``let c = a + b; c / 2``) and comments. The parser turns a text into a tree of nodes, which
`evaluator` builds and evaluates.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from workers.formula import evaluator
from workers.formula.evaluator import FormulaError, Node, Value

__all__ = ["Formula", "FormulaError", "parse"]

#: Most characters and most levels of nesting of a formula, far beyond those of hand-written ones.
LONGEST = 10_000
DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed formula. names: its variables."""

    text: str
    names: frozenset[str]
    node: Node

    def value(self, values: Mapping[str, float | None]) -> float | None:
        """Returns the result for these values by trigger name, None for ``nil``.

        Raises FormulaError if the result is not a number.
        """
        return evaluator.number(self.node, values)


def parse(text: str) -> Formula:
    """Returns the parsed formula. Raises FormulaError that names the position of a problem."""
    if len(text) > LONGEST:
        raise FormulaError(f"the formula is longer than {LONGEST} characters")
    parser = _Parser(list(_tokens(text)))
    node = parser.ternary()
    if parser.kind != "end":
        raise parser.error("the end of the formula")
    return Formula(text, frozenset(parser.names), node)


_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*[\s\S]*?\*/
    |(?P<number>(?:[0-9][0-9_]*(?:\.(?!\.)[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)
    |(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<sign>\?\?|\*\*|==|!=|<=|>=|&&|\|\||\.\.|[-+*/%^<>!?:;=|,#(){}\[\]])""",
    re.VERBOSE,
)
_WORDS = {"and": "&&", "or": "||", "not": "!", "in": "in", "let": "let"}
#: Binary operators: those of `_Parser._LEVELS` and the powers.
_OPERATORS = frozenset(
    {"||", "&&", "==", "!=", "<", "<=", ">", ">=", "in", "!", "..", "+", "-", "*", "/", "%", "**", "^"}
)
_LITERALS: Mapping[str, Value] = {"true": True, "false": False, "nil": None}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise FormulaError(f"{text[at]!r} at position {at + 1} means nothing in a formula")
        kind = found.lastgroup
        if kind is not None:
            word = found.group()
            yield _Token("sign", _WORDS[word], at) if word in _WORDS else _Token(kind, word, at)
        at = found.end()
    yield _Token("end", "", at)


class _Parser:
    """A recursive descent parser; operators of the lowest precedence come first."""

    #: Left-associative operators by rising precedence.
    _LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">=", "in"), ("..",), ("+", "-"), ("*", "/", "%"))

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._place = 0
        self._depth = 0
        self._closures = 0
        self._locals: set[str] = set()
        self.names: set[str] = set()

    @property
    def kind(self) -> str:
        return self._tokens[self._place].kind

    def error(self, wanted: str) -> FormulaError:
        token = self._tokens[self._place]
        found = f"{token.text[:40]!r}" if token.text else "nothing"
        return FormulaError(f"position {token.at + 1} of the formula: expected {wanted}, found {found}")

    def ternary(self) -> Node:
        with self._deeper():
            if self._takes("let"):
                return self._let()
            condition = self._piped()
            if not self._takes("?"):
                return condition
            then = self.ternary()
            self._expect(":")
            return evaluator.choice(condition, then, self.ternary())

    def _let(self) -> Node:
        """Parses ``let name = value; formula``; the name has a meaning in that formula alone."""
        token = self._tokens[self._place]
        if token.kind != "name":
            raise self.error("a name")
        known = {*_LITERALS, *evaluator.FUNCTIONS, *evaluator.OVER_LISTS, *self._locals}
        if (name := token.text) in known:
            raise FormulaError(f"position {token.at + 1} of the formula: {name[:40]} has a meaning already")
        self._place += 1
        self._expect("=")
        value = self.ternary()
        self._expect(";")
        self._locals.add(name)
        node = evaluator.binding(name, value, self.ternary())
        self._locals.discard(name)
        return node

    def _piped(self) -> Node:
        """Parses pipes: the first argument of each function is what stands before its pipe."""
        node = self._binary(0)
        while self._takes("|"):
            token = self._tokens[self._place]
            if token.kind != "name":
                raise self.error("a function")
            self._place += 1
            self._expect("(")
            node = self._binary(0, self._call(token, node))
        return node

    def _binary(self, level: int, known: Node | None = None) -> Node:
        """Parses operators from this level on. known: the first operand, if it is parsed already."""
        if level == len(self._LEVELS):
            return self._unary(known)
        first = self._binary(level + 1, known)
        rest: list[tuple[str, Node]] = []
        while sign := self._operator(self._LEVELS[level]):
            rest.append((sign, self._binary(level + 1)))
        return evaluator.chain(first, rest) if rest else first

    def _operator(self, signs: Sequence[str]) -> str | None:
        if "in" in signs and self._upcoming(("!", "in")):
            self._place += 2
            return "not in"
        return self._one_of(signs)

    def _coalesced(self, known: Node | None) -> Node:
        """Parses ``??``, which has the highest precedence; another operator after it needs parentheses."""
        nodes = [known or self._primary()]
        while self._takes("??"):
            nodes.append(self._unary() if any(self._upcoming((sign,)) for sign in "-+!") else self._primary())
        if len(nodes) == 1:
            return nodes[0]
        token = self._tokens[self._place]
        if token.kind == "sign" and token.text in _OPERATORS:
            raise FormulaError(f"position {token.at + 1} of the formula: put what ?? belongs to into parentheses")
        return evaluator.coalescing(nodes)

    def _unary(self, known: Node | None = None) -> Node:
        with self._deeper():
            if known is None and (sign := self._one_of(("-", "+", "!"))):
                return evaluator.signed(sign, self._unary())
            base = self._coalesced(known)
            if self._one_of(("**", "^")):
                return evaluator.chain(base, [("**", self._unary())])
            return base

    def _primary(self) -> Node:
        token = self._tokens[self._place]
        if token.kind == "number":
            self._place += 1
            return evaluator.constant(_number(token))
        if token.kind == "text":
            self._place += 1
            return evaluator.constant(re.sub(r"\\(.)", r"\1", token.text[1:-1]))
        if token.kind == "name":
            self._place += 1
            return self._named(token)
        if self._takes("("):
            node = self.ternary()
            self._expect(")")
            return node
        if self._takes("["):
            return evaluator.listing(self._until("]"))
        if self._closures and self._takes("#"):
            return evaluator.element
        raise self.error("a value")

    def _named(self, token: _Token) -> Node:
        if self._takes("("):
            return self._call(token)
        if token.text in _LITERALS:
            return evaluator.constant(_LITERALS[token.text])
        if token.text not in self._locals:
            self.names.add(token.text)
        return evaluator.variable(token.text)

    def _call(self, token: _Token, piped: Node | None = None) -> Node:
        """Parses a call from behind its parenthesis on. piped: its first argument, if a pipe leads to it."""
        if token.text in evaluator.FUNCTIONS:
            return evaluator.calling(token.text, [*([piped] if piped else ()), *self._until(")")])
        if token.text not in evaluator.OVER_LISTS:
            raise FormulaError(f"position {token.at + 1} of the formula: there is no function {token.text[:40]}")
        items = piped or self.ternary()
        more = not self._upcoming((")",)) if piped else self._takes(",")
        closure = self._closure() if more else evaluator.element
        self._expect(")")
        return evaluator.over(token.text, items, closure)

    def _closure(self) -> Node:
        braces = self._takes("{")
        self._closures += 1
        node = self.ternary()
        self._closures -= 1
        if braces:
            self._expect("}")
        return node

    def _until(self, end: str) -> list[Node]:
        nodes: list[Node] = []
        while not self._takes(end):
            if nodes:
                self._expect(",")
            nodes.append(self.ternary())
        return nodes

    @contextmanager
    def _deeper(self) -> Iterator[None]:
        self._depth += 1
        # Each level of the formula enters here twice: as a ternary and as a unary.
        if self._depth > 2 * DEEPEST:
            raise FormulaError(f"the formula is nested deeper than {DEEPEST} levels")
        yield
        self._depth -= 1

    def _takes(self, sign: str) -> bool:
        return self._one_of((sign,)) is not None

    def _upcoming(self, signs: Sequence[str]) -> bool:
        tokens = self._tokens[self._place : self._place + len(signs)]
        return all(token.kind == "sign" for token in tokens) and [token.text for token in tokens] == list(signs)

    def _one_of(self, signs: Sequence[str]) -> str | None:
        token = self._tokens[self._place]
        if token.kind == "sign" and token.text in signs:
            self._place += 1
            return token.text
        return None

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            raise self.error(repr(sign))


def _number(token: _Token) -> float | int:
    text = token.text.replace("_", "")
    try:
        return int(text) if text.isdecimal() else float(text)
    except ValueError as error:
        raise FormulaError(f"position {token.at + 1} of the formula: {error}") from error
