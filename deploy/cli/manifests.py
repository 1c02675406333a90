"""The parser of manifests: YAML or JSON documents from files, folders and standard input, each with its origin."""

import json
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

    def placed(self, namespace: str, *, explicit: bool) -> str:
        """Returns the manifest's namespace, or else the given one.

        explicit: --namespace gave that one; raises UserError if the manifest names another.
        """
        if explicit and self.namespace not in ("", namespace):
            raise UserError(f"metadata.namespace: the manifest says {self.namespace}, --namespace says {namespace}")
        return self.namespace or namespace


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


def read(sources: Sequence[str], *, recursive: bool = False, stdin: TextIO | None = None) -> list[Manifest]:
    """Returns the manifests of all sources in order: a file, a folder (its YAML and JSON files by name), or ``-``.

    Raises UserError if a source cannot be read, holds no object, or holds something else; its message names the file
    and the document.
    """
    manifests = []
    for each in _read(sources, recursive, stdin or sys.stdin):
        if isinstance(each, UserError):
            raise each
        manifests.append(each)
    return _some(manifests, sources)


def read_objects(sources: Sequence[str], *, recursive: bool = False) -> tuple[list[Manifest], list[UserError]]:
    """Returns the manifests of all sources, as `read` does, and what they hold beside objects.

    Raises UserError if a source cannot be read or none holds an object.
    """
    found = list(_read(sources, recursive, sys.stdin))
    others = [each for each in found if isinstance(each, UserError)]
    manifests = [each for each in found if isinstance(each, Manifest)]
    if others and not manifests:
        raise others[0]
    return _some(manifests, sources), others


def _some(manifests: list[Manifest], sources: Sequence[str]) -> list[Manifest]:
    if not manifests:
        raise UserError(f"no objects in {', '.join(sources)}")
    return manifests


def _read(sources: Sequence[str], recursive: bool, stdin: TextIO) -> Iterator[Manifest | UserError]:
    """Yields each object, and an error for each document that is none."""
    for source in sources:
        if source == "-":
            yield from _parse(stdin.read(), "standard input")
            continue
        for file in _files(source, recursive):
            try:
                text = file.read_text(encoding="utf-8")
            except FileNotFoundError:
                raise UserError(f"{file}: no such file or folder") from None
            except (OSError, UnicodeDecodeError) as error:
                raise UserError(f"{file}: cannot be read: {error}") from error
            yield from _parse(text, str(file))


def _files(source: str, recursive: bool) -> Sequence[Path]:
    if source.startswith(("https://", "http://")):
        raise UserError(f"{source}: URLs are not fetched; curl -fL {source} | penstock ... -f - reads it")
    path = Path(source)
    if not path.is_dir():
        return [path]
    found = sorted(path.rglob("*") if recursive else path.iterdir())
    files = [file for file in found if file.suffix in SUFFIXES and file.is_file()]
    if not files:
        raise UserError(f"{source}: no {', '.join(SUFFIXES)} files in this folder")
    return files


def _parse(text: str, where: str) -> Iterator[Manifest | UserError]:
    """Yields the manifests of one text, those of a `List` one by one, and an error for what is no object.

    A text that is neither YAML nor JSON is one error.
    """
    try:
        documents = _json_values(text) or list(yaml.load_all(text, _loader()))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        yield UserError(f"{where}{line}: not valid YAML: {getattr(error, 'problem', None) or error}")
        return
    except RecursionError:
        yield UserError(f"{where}: nested too deeply")
        return
    for index, document in enumerate(documents, 1):
        if document is not None:
            yield from _checked(document, f"{where}, document {index}" if len(documents) > 1 else where)


def _json_values(text: str) -> list[Any]:
    r"""Returns the JSON objects that a text consists of, as jq writes them; empty if it holds anything else.

    The YAML library knows neither JSON's ``\/`` nor a character written as two escapes (``\ud83d\ude80``).
    """
    decoder = json.JSONDecoder(object_pairs_hook=_without_twins, parse_constant=_refused)
    values: list[Any] = []
    rest = text.removeprefix("\ufeff").strip()
    while rest.startswith("{"):
        try:
            value, end = decoder.raw_decode(rest)
        except ValueError:
            break
        values.append(value)
        rest = rest[end:].lstrip()
    return [] if rest else values


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object. Raises ValueError for a key that stands twice, which the parser of YAML names."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _checked(document: Any, where: str) -> Iterator[Manifest | UserError]:
    if wrong := _problem(document, where):
        yield UserError(wrong)
    elif _is_list(document):
        for index, item in enumerate(document["items"]):
            yield from _checked(item, f"{where}, items[{index}]")
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
