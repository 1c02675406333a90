"""One number out of a document: JSON, YAML and XML by a path, Prometheus' text by selector."""

import codecs
import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import orjson
import yaml
from prometheus_client.parser import text_string_to_metric_families

from penstock.parameters import ParameterError
from penstock.scaler import SourceError
from scalers.sources.http import json_path, yaml_path

#: Bytes of YAML that are read: its parser takes thirty times as long as that of JSON, and other triggers wait for it.
LARGEST_YAML = 256 << 10


def from_json(body: bytes, path: str) -> float | None:
    """The number, or the text that is a quantity (``1k``), at a path; None for null. Raises SourceError."""
    try:
        found = json_path.find(_json(body), json_path.parse(path))
    except ValueError as error:
        raise SourceError(f"{path}: {error}") from None
    if found is json_path.MISSING:
        raise SourceError(f"there is nothing at {path}")
    return number(found, path)


def _json(body: bytes) -> Any:
    """Returns a JSON document. Raises SourceError.

    KEDA reads no more of an answer than the path needs. So what else stands in it may be what strict readers refuse and
    servers write: NaN, control characters, bytes that are not UTF-8, and a byte order mark before it.
    """
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.removeprefix(codecs.BOM_UTF8).decode(errors="replace")
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        raise SourceError("the answer is not JSON") from None


def check(format: str, location: str) -> None:
    """Raises ParameterError of `valueLocation` for a JSON path or a selector of Prometheus that is not understood."""
    try:
        if format == "json":
            json_path.parse(location)
        elif format == "prometheus":
            selector(location)
    except ValueError as error:
        hint = "; docs/json-paths.md has what is understood" if format == "json" else ""
        raise ParameterError("valueLocation", f"{location}: {error}{hint}") from None


def from_yaml(body: bytes, path: str) -> float | None:
    """As `from_json`, in YAML and at a dotted path with list indices. Raises SourceError.

    Aliases are not followed: they could make a small answer a very large one.
    """
    if len(body) > LARGEST_YAML:
        raise SourceError(f"the answer is larger than {LARGEST_YAML >> 10} KB, which YAML is read up to")
    try:
        found = yaml_path.find(body, path.split("."))
    except yaml_path.NotRead as error:
        raise SourceError(f"{path}: {error}") from None
    except yaml.YAMLError:
        raise SourceError("the answer is not YAML") from None
    if found is json_path.MISSING:
        raise SourceError(f"there is nothing at {path}")
    return number(found, path)


def from_xml(body: bytes, path: str) -> float | None:
    """As `from_json`, in XML: element names from the root on, and an index among elements of one name."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        # Entities could make a small answer a very large one.
        raise SourceError("the answer is XML with a document type, which is not read")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError:
        raise SourceError("the answer is not XML") from None
    return number(_walk({root.tag: _tree(root)}, path), path)


_SELECTOR = re.compile(r"\s*(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)\s*(?:\{(?P<labels>.*)\})?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')


def selector(text: str) -> tuple[str, Mapping[str, str]]:
    """``name{label="value"}`` taken apart; raises ValueError."""
    found = _SELECTOR.fullmatch(text)
    if found is None:
        raise ValueError('must be a metric such as name or name{label="value"}')
    labels: dict[str, str] = {}
    rest = (found["labels"] or "").strip()
    while rest:
        label = _LABEL.match(rest)
        if label is None:
            raise ValueError('must be a metric such as name or name{label="value"}')
        labels[label[1]] = re.sub(r"\\(.)", r"\1", label[2])
        rest = rest[label.end() :]
    return found["name"], labels


def from_prometheus(body: bytes, text: str) -> float | None:
    """The first sample of this name whose labels contain the given ones. Raises SourceError."""
    name, labels = selector(text)
    # The parser takes seconds for the megabytes of a large exporter, and other triggers wait for it. Without the types
    # it also leaves the names of counters as they are, like KEDA, where OpenMetrics demands _total.
    lines = re.compile(rf"^[ \t]*(?:{name}[ \t{{]|\{{).*", re.MULTILINE)
    try:
        for family in text_string_to_metric_families("\n".join(lines.findall(body.decode()))):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return number(sample.value, text)
    except ValueError:
        raise SourceError("the answer is not in Prometheus' text format") from None
    raise SourceError(f"there is nothing at {text}")


def number(value: Any, path: str) -> float | None:
    """A number, or a text that is a Kubernetes quantity; None stays None. Raises SourceError for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        # Imported here: it brings the blocking client's transport, and few triggers read texts.
        from kubernetes.utils.quantity import parse_quantity

        try:
            result = float(parse_quantity(value.strip()))
        except (ValueError, ArithmeticError, IndexError):
            raise SourceError(f"what is at {path} is a text that is no number") from None
    elif isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        try:
            result = float(value)
        except OverflowError:
            raise SourceError(f"what is at {path} is too large") from None
    else:
        raise SourceError(f"what is at {path} is no number")
    if not math.isfinite(result):
        raise SourceError(f"what is at {path} is {result}")
    return result


def _walk(document: Any, path: str) -> Any:
    here = document
    for part in path.split("."):
        if isinstance(here, list) and part.isdecimal() and int(part) < len(here):
            here = here[int(part)]
        elif isinstance(here, dict) and part in here:
            here = here[part]
        else:
            raise SourceError(f"there is nothing at {path}")
    return here


def _tree(element: ElementTree.Element) -> Any:
    """An element as its text, or as its children by name; several of one name are a list."""
    children: dict[str, list[Any]] = {}
    for child in element:
        children.setdefault(child.tag, []).append(_tree(child))
    if not children:
        return (element.text or "").strip()
    return {name: found[0] if len(found) == 1 else found for name, found in children.items()}
