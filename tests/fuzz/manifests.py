"""The manifests that fuzzing starts from: every example, as the embedded API server stores it."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from deploy.local.apiserver import strategies
from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.schema import schema
from deploy.local.apiserver.schema.schema import Schema
from deploy.local.apiserver.strategies.base import Strategy
from tests.support.crd_copies import crd_copies
from tests.support.paths import ROOT
from tests.unit.controllers.factories import NOW
from workers.api import kinds
from workers.api.kinds import Kind, Object

DEFINED = {crd["metadata"]["name"]: crd for crd in crd_copies()}
KINDS = {(each.api_version, each.kind): each for each in vars(kinds).values() if isinstance(each, Kind)}
UID = "8d3f5f2e-0000-4000-8000-000000000001"


def examples() -> Iterator[tuple[str, Kind, Object]]:
    """Yields each example with its kind: its name, the kind, and the manifest."""
    for file in sorted((ROOT / "examples").glob("*.yaml")):
        for number, body in enumerate(yaml.load_all(file.read_text(), yaml.CSafeLoader)):
            if body and (kind := KINDS.get((body["apiVersion"], body["kind"]))):
                yield f"{file.stem}-{number}", kind, body


@cache
def rules(kind: Kind) -> tuple[Schema, Strategy]:
    """Returns the embedded API server's schema and rules of a kind."""
    definition = DEFINED.get(kind.id)
    reading = schema.custom(definition["spec"]["versions"][0]) if definition else schema.builtin(kind)
    return reading, strategies.strategy(kind, definition)


def stored(kind: Kind, body: Object) -> Object | None:
    """Returns the object as the embedded API server would store it, None if it refuses it."""
    reading, strategy = rules(kind)
    metadata: Any = body.get("metadata")
    if not isinstance(metadata, dict):
        return None
    try:
        decoded, _ = reading.decode(body, strict="Warn")
    except DecodeError:
        return None
    place = {"namespace": "default"} if kind.namespaced else {}
    decoded["metadata"] = {**(decoded.get("metadata") or {}), **place, "uid": UID}
    made = strategy.prepare_create(reading.default(decoded), NOW)
    if reading.validate(made) or strategy.validate_create(made):
        return None
    found = {**made, "metadata": {**made["metadata"], "resourceVersion": "7"}}
    if "status" not in body:
        return found
    whole = {**found, "status": body["status"]}
    try:
        told, _ = reading.decode(whole, strict="Warn")
    except DecodeError:
        return None
    return None if reading.validate(told) else {**found, **({"status": told["status"]} if told.get("status") else {})}
