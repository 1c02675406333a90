"""The parser of manifests: YAML or JSON documents from files, folders and standard input, each with its origin."""

import sys
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TextIO

import yaml

from workers.api.kinds import Object
from workers.errors import UserError

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object as its author wrote it. where: its origin for messages, such as ``jobs.yaml, document 2``."""

    body: Object
    where: str

    @property
    def api_version(self) -> str:
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The namespace that the manifest itself names, or empty."""
        return str(self.body["metadata"].get("namespace") or "")


@cache
def _loader() -> Any:
    """Returns a YAML loader that agrees with the parser of Kubernetes' tools.

    PyYAML turns dates into datetimes and ``12:30`` into 750; Kubernetes' parser leaves both as text. The loader rejects
    a duplicate key, because one of the two values would silently be lost.
    """
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc]
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
            self.flatten_mapping(node)
            seen = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, Hashable) or key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {key!r} stands twice", key_node.start_mark
                    )
                seen.add(key)
            return dict(super().construct_mapping(node, deep))

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    for first, resolvers in Loader.yaml_implicit_resolvers.items():
        Loader.yaml_implicit_resolvers[first] = [
            (tag, _without_sexagesimal(tag, pattern)) for tag, pattern in resolvers
        ]
    return Loader


def _without_sexagesimal(tag: str, pattern: Any) -> Any:
    import re

    if tag == "tag:yaml.org,2002:int":
        return re.compile(r"^(?:[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$")
    if tag == "tag:yaml.org,2002:float":
        return re.compile(
            r"^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
            r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        )
    return pattern


def read(
    sources: Sequence[str],
    *,
    recursive: bool = False,
    stdin: TextIO | None = None,
    passed_over: list[str] | None = None,
) -> list[Manifest]:
    """Returns the manifests of all sources in order: a file, a folder (its YAML and JSON files by name), or ``-``.

    Raises UserError if a source cannot be read or holds no object; its message names the file and the document.
    passed_over: is given these messages, while there are other objects, instead of the error for the first.
    """
    entry = stdin or sys.stdin
    manifests = [manifest for source in sources for manifest in _source(source, recursive, entry, passed_over)]
    if not manifests:
        raise UserError((passed_over or [f"no objects in {', '.join(sources)}"])[0])
    return manifests


def _source(source: str, recursive: bool, stdin: TextIO, passed_over: list[str] | None) -> Iterator[Manifest]:
    if source == "-":
        yield from parse(stdin.read(), "standard input", passed_over)
        return
    path = Path(source)
    if path.is_dir():
        found = sorted(path.rglob("*") if recursive else path.iterdir())
        files = [file for file in found if file.suffix in SUFFIXES and file.is_file()]
        if not files:
            raise UserError(f"{source}: no {', '.join(SUFFIXES)} files in this folder")
    else:
        files = [path]
    for file in files:
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{file}: no such file or folder") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: cannot be read: {error}") from error
        yield from parse(text, str(file), passed_over)


def parse(text: str, where: str, passed_over: list[str] | None = None) -> Iterator[Manifest]:
    """Yields the manifests of one text, those of a `List` one by one.

    Raises UserError if the text is neither YAML nor JSON, or a document is no object. passed_over: see `read`.
    """
    try:
        documents = list(yaml.load_all(text, _loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        wrong = UserError(f"{where}{line}: not valid YAML: {getattr(error, 'problem', None) or error}")
        if passed_over is None:
            raise wrong from error
        passed_over.append(str(wrong))
        return
    for index, document in enumerate(documents, 1):
        if document is not None:
            yield from _checked(document, f"{where}, document {index}" if len(documents) > 1 else where, passed_over)


def _checked(document: Any, where: str, passed_over: list[str] | None) -> Iterator[Manifest]:
    if wrong := _problem(document, where):
        if passed_over is None:
            raise UserError(wrong)
        passed_over.append(wrong)
    elif _is_list(document):
        for index, item in enumerate(document["items"]):
            yield from _checked(item, f"{where}, items[{index}]", passed_over)
    else:
        yield Manifest(document, where)


def _is_list(document: Object) -> bool:
    return bool(document["kind"].endswith("List")) and isinstance(document.get("items"), list)


def _problem(document: Any, where: str) -> str | None:
    """Returns why a document is neither an object with a name nor a list, None if it is one."""
    if not isinstance(document, dict):
        return f"{where}: an object with apiVersion, kind and metadata is expected, not {_words(document)}"
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str) or not document[field]:
            return f"{where}: {field}: a text is required"
    if _is_list(document):
        return None
    what = f"{where}: {document['kind']}"
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return f"{what}: metadata: an object with a name is required"
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        hint = " (generateName makes a new object each time)" if metadata.get("generateName") else ""
        return f"{what}: metadata.name: a text is required{hint}"
    for field in ("labels", "annotations"):
        if not isinstance(metadata.get(field) or {}, dict):
            return f"{what} {metadata['name']}: metadata.{field}: a mapping is expected"
    return None


def _words(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "a boolean", int: "a number", float: "a number"}.get(
        type(value), type(value).__name__
    )
