"""The measurements themselves: read from the syntax trees of a checkout, nothing is imported or run.

Product: the five packages. Modules: all files but `__init__.py` and `__main__.py`. A docstring counts as a question
when it opens with What, Whether, Which, How, Who, Whose, Where or When.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PRODUCT = ("penstock", "scheduler", "workers", "scalers", "deploy")
#: Module names that a family of folders may share: the stages of a controller, and the API's kinds.
FAMILIES = frozenset(
    {
        *("decide", "status", "observed", "transitions", "conditions", "spec", "names", "jobs", "pods", "phases"),
        *("history", "annotations", "figures", "creation", "ending", "cleanup"),
        *("scaledjob", "scaledobject", "cronjob", "scheduledjob", "policies"),
        *("job", "jobflow", "jobtemplate", "podgroup", "queue"),
        # The application, the errors and the Celery tasks of a package.
        *("app", "errors", "tasks"),
        # A command of the command line, or the demonstration or process that it starts, is called as the user types it.
        *("push", "run", "up", "beat"),
        # The parts of each demonstration.
        *("manifest", "report"),
    }
)
_QUESTION = re.compile(r"(What|Whether|Which|How|Who|Whose|Where|When)\b")
#: Names before a colon at the beginning of a paragraph or after a full stop.
_INTRODUCED = re.compile(r"(?:^|(?<=\. ))([a-z_][a-z0-9_]*(?:, [a-z_][a-z0-9_]*)*): ")
_CALLED = ("__init__", "__new__", "__call__")
_INDEFINITE = re.compile(r"\b(nobody|somebody|anybody|whoever|whatever)\b", re.IGNORECASE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. value: as text. offenders: the places behind it."""

    label: str
    value: str
    offenders: Sequence[str] = ()


@dataclass(frozen=True)
class Module:
    """One Python file. path: relative to the checkout."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree."""
        return ast.parse(self.text)

    @property
    def dotted(self) -> str:
        """The name that imports it."""
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def lines(self) -> int:
        """Physical lines."""
        return len(self.text.splitlines())

    @property
    def is_module(self) -> bool:
        """True unless the file is a package's face or entry point."""
        return self.path.name not in ("__init__.py", "__main__.py")

    @property
    def functions(self) -> Iterator[Function]:
        """Every function, nested ones included."""
        return (node for node in ast.walk(self.tree) if isinstance(node, Function))

    @property
    def comments(self) -> int:
        """Lines that hold nothing but a comment."""
        return sum(line.lstrip().startswith("#") for line in self.text.splitlines())

    def imports(self, known: Mapping[str, "Module"]) -> set[str]:
        """The modules of `known` that this one imports."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= names & known.keys() or {node.module}
        return (found & known.keys()) - {self.dotted}


def read(folder: Path, tops: Iterable[str]) -> list[Module]:
    """Every Python file below these folders of a checkout."""
    paths = sorted(path for top in tops for path in (folder / top).rglob("*.py"))
    return [Module(path.relative_to(folder), path.read_text(encoding="utf-8")) for path in paths]


def measure(folder: Path) -> Iterator[Figure]:
    """Returns the figures of the checkout in this folder."""
    product = read(folder, PRODUCT)
    modules = [module for module in product if module.is_module]
    yield from _sizes(folder, product, modules)
    yield from _structure(product, modules)
    yield from _names(modules)
    yield from _text(product)
    unknown = [f"{place}: {name}" for place, name in unknown_parameters(product)]
    yield Figure("docstrings that introduce a parameter or field that is none", str(len(unknown)), unknown)


def _sizes(folder: Path, product: Sequence[Module], modules: Sequence[Module]) -> Iterator[Figure]:
    lua = sum(len(path.read_text().splitlines()) for top in PRODUCT for path in (folder / top).rglob("*.lua"))
    python, tests = (sum(module.lines for module in part) for part in (product, read(folder, ("tests",))))
    yield Figure("lines: product (Python, Lua), tests, together", f"{python} + {lua}, {tests}, {python + lua + tests}")
    yield Figure("modules; lines median / p90 / max", f"{len(modules)}; {_spread([m.lines for m in modules])}")
    lengths = [(node.end_lineno or node.lineno) - node.lineno + 1 for module in modules for node in module.functions]
    yield Figure("function lines median / p90 / p99 / max", _spread(lengths, p99=True))


def _structure(product: Sequence[Module], modules: Sequence[Module]) -> Iterator[Figure]:
    known = {module.dotted: module for module in product}
    imports = {name: module.imports(known) for name, module in known.items()}
    try:
        TopologicalSorter(imports).prepare()
        cycle: Sequence[str] = ()
    except CycleError as error:
        cycle = error.args[1]
    yield Figure("import cycles", "none" if not cycle else " -> ".join(cycle))
    importers: dict[str, set[str]] = defaultdict(set)
    for name, targets in imports.items():
        for target in targets:
            importers[target].add(name)
    alone = [module.dotted for module in modules if len(importers[module.dotted]) == 1]
    yield Figure("modules imported by exactly one other", f"{len(alone)} of {len(modules)}", alone)
    flat = Counter(str(module.path.parent) for module in modules)
    largest = [f"{count} {folder}" for folder, count in flat.most_common(8)]
    yield Figure("largest flat folders (modules)", ", ".join(str(count) for _, count in flat.most_common(4)), largest)


def _names(modules: Sequence[Module]) -> Iterator[Figure]:
    files, classes = defaultdict(list), defaultdict(list)
    for module in modules:
        files[module.path.stem].append(str(module.path))
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(str(module.path))
    yield _repeated("module names used more than once", files)
    yield _repeated(
        "  of them outside the families (stages of a controller, kinds)",
        {name: places for name, places in files.items() if name not in FAMILIES},
    )
    yield _repeated("class names used more than once", classes)


def _repeated(label: str, places: Mapping[str, Sequence[str]]) -> Figure:
    twice = {name: where for name, where in sorted(places.items()) if len(where) > 1}
    value = f"{len(twice)} ({sum(map(len, twice.values()))} places)"
    return Figure(label, value, [f"{name}: {' '.join(where)}" for name, where in twice.items()])


def _text(product: Sequence[Module]) -> Iterator[Figure]:
    comments, lines = sum(module.comments for module in product), sum(module.lines for module in product)
    yield Figure("comments per 100 lines", f"{100 * comments / lines:.1f}")
    docstrings, questions, indefinite = 0, [], []
    public, undocumented, typed, functions = 0, [], 0, 0
    for module in product:
        for node, inside in _documented(module.tree):
            text = ast.get_docstring(node)
            place = f"{module.path}:{getattr(node, 'lineno', 1)}"
            if isinstance(node, Function):
                functions += 1
                typed += _is_typed(node)
                if not inside and not node.name.startswith("_"):
                    public += 1
                    if not text:
                        undocumented.append(f"{place} {node.name}")
            if text:
                docstrings += 1
                if _QUESTION.match(text):
                    questions.append(f"{place} {text.splitlines()[0]}")
                if _INDEFINITE.search(text):
                    indefinite.append(f"{place} {text.splitlines()[0]}")
    yield Figure("docstrings that open with What, Whether, How, Who …", _share(len(questions), docstrings), questions)
    yield Figure("docstrings with nobody, somebody, whoever, whatever", _share(len(indefinite), docstrings), indefinite)
    yield Figure("public functions with a docstring", _share(public - len(undocumented), public), undocumented)
    yield Figure("functions fully annotated", _share(typed, functions))


def unknown_parameters(modules: Sequence[Module]) -> Iterator[tuple[str, str]]:
    """Yields what docstrings introduce by "name:" that is no parameter of the function, or no field of the class.

    Each is a place and the name. Fields are names of the body, what methods set on `self`, parameters of `__init__`,
    `__new__` and `__call__`, and all of these of base classes among the modules.
    """
    classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(node)
    for module in modules:
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ClassDef | Function) or not (text := ast.get_docstring(node)):
                continue
            known = _parameters(node) if isinstance(node, Function) else _fields(node, classes)
            for name in introduced(text):
                if name not in known:
                    yield f"{module.path}:{node.lineno} {node.name}", name


def introduced(docstring: str) -> Iterator[str]:
    """Yields the names that sentences of a docstring introduce, as in ``folder, name: of the file.``"""
    for paragraph in docstring.split("\n\n"):
        for found in _INTRODUCED.finditer(" ".join(paragraph.split())):
            yield from found[1].split(", ")


def _parameters(node: Function) -> set[str]:
    own = node.args
    several = [each for each in (own.vararg, own.kwarg) if each is not None]
    return {each.arg for each in (*own.posonlyargs, *own.args, *own.kwonlyargs, *several)}


def _fields(node: ast.ClassDef, classes: Mapping[str, Sequence[ast.ClassDef]]) -> set[str]:
    found: set[str] = set()
    pending, seen = [node], set[str]()
    while pending:
        each = pending.pop()
        seen.add(each.name)
        for inner in ast.walk(each):
            if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store):
                found |= {inner.attr} if isinstance(inner.value, ast.Name) and inner.value.id == "self" else set()
        for part in each.body:
            if isinstance(part, Function):
                found |= {part.name} | (_parameters(part) if part.name in _CALLED else set())
            elif isinstance(part, ast.AnnAssign | ast.Assign):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
        names = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in each.bases}
        pending += [base for name in names - seen for base in classes.get(name, ())]
    return found


def _documented(tree: ast.Module) -> Iterator[tuple[ast.Module | ast.ClassDef | Function, bool]]:
    """The nodes that may have a docstring, and whether a private class or a function holds them."""
    pending: list[tuple[ast.Module | ast.ClassDef | Function, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        yield node, inside
        hidden = inside or isinstance(node, Function) or (isinstance(node, ast.ClassDef) and node.name.startswith("_"))
        pending += [(child, hidden) for child in node.body if isinstance(child, ast.ClassDef | Function)]


def _is_typed(node: Function) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    bare = [argument for argument in arguments if argument.annotation is None and argument.arg not in ("self", "cls")]
    return node.returns is not None and not bare


def _spread(values: Sequence[int], *, p99: bool = False) -> str:
    ordered = sorted(values)
    shares = (0.5, 0.9, 0.99, 1.0) if p99 else (0.5, 0.9, 1.0)
    return " / ".join(str(ordered[min(len(ordered) - 1, int(share * len(ordered)))]) for share in shares)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(1, whole):.0f} %)"
