"""Actions on objects: which a kind has, and the change of each, carried out with the user's own token."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workers.api import kinds
from workers.api.bool_annotations import PAUSED
from workers.api.kinds import Object, Ref
from workers.errors import UserError

Verb = Literal["run", "suspend", "resume", "pause", "unpause", "replay", "drop", "delete"]

#: Entries that one request names.
MOST_ENTRIES = 10_000
_ENTRY = re.compile(r"\d{1,20}-\d{1,20}")

_SCHEDULES = frozenset({kinds.SCHEDULED_JOB.id, kinds.CRON_JOB.id})
#: Kinds with `spec.suspend`.
_SUSPENDED = _SCHEDULES | {kinds.JOB.id, kinds.EVENT_JOB.id, kinds.JOB_FLOW.id, kinds.VC_CRON_JOB.id}
_SCALED = frozenset({kinds.SCALED_JOB.id, kinds.SCALED_OBJECT.id})


@dataclass(frozen=True, slots=True)
class Change:
    """A merge patch and the words for what it did."""

    patch: Object
    done: str


@dataclass(frozen=True, slots=True)
class DeliveryChange:
    """Deliveries to replay or drop. entries: their names; None for all that are parked."""

    verb: Literal["replay", "drop"]
    entries: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ObjectDeletion:
    """The object is deleted, and its children after it."""


def of_kind(kind_id: str) -> tuple[Verb, ...]:
    """Returns the actions that objects of a kind have."""
    found: list[Verb] = []
    if kind_id in _SCHEDULES:
        found.append("run")
    if kind_id in _SUSPENDED:
        found += ["suspend", "resume"]
    if kind_id in _SCALED:
        found += ["pause", "unpause"]
    if kind_id == kinds.EVENT_JOB.id:
        found += ["replay", "drop"]
    return (*found, "delete")


def api_verb(action: Verb) -> str:
    """Returns the verb that the API server's authorization is asked about."""
    return "delete" if action == "delete" else "patch"


def planned(action: str, ref: Ref, parameters: Mapping[str, Any]) -> Change | DeliveryChange | ObjectDeletion:
    """Returns the change that an action makes.

    Raises UserError for an action that the kind does not have, and for wrong parameters.
    """
    if action not in of_kind(ref.kind.id):
        raise UserError(f"{ref.kind.kind} has no action {action[:40]!r}; it has {', '.join(of_kind(ref.kind.id))}")
    allowed = {"run": {"environment"}, "replay": {"entries", "state"}, "drop": {"entries", "state"}}
    if unknown := sorted(set(parameters) - allowed.get(action, set())):
        raise UserError(f"parameters: {action} has no {unknown[0][:40]!r}")
    if action == "delete":
        return ObjectDeletion()
    if action == "replay" or action == "drop":
        return DeliveryChange("replay" if action == "replay" else "drop", _entries(parameters))
    return _PATCHES[action](ref, parameters)


def delete_options(uid: str) -> Object:
    """Returns the body of a deletion of the object of this uid, and of its children after it."""
    return {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Background",
        "preconditions": {"uid": uid},
    }


def _run(ref: Ref, parameters: Mapping[str, Any]) -> Change:
    # The gateway serves the page and does without controllers until a run is asked for.
    from workers.controllers.batch.cronjob import names, run_requests

    given = parameters.get("environment") or {}
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise UserError("parameters.environment: an object of texts is needed")
    for name in given:
        if not run_requests.is_variable(name):
            raise UserError(f"parameters.environment: {name[:60]!r} is no name of a variable")
    request = run_requests.RunRequest(run_requests.new_id(), given)
    job = names.of(ref.kind, ref.name).manual(request.id)
    return Change({"metadata": {"annotations": {request.annotation: request.value}}}, f"run asked for: {job}")


def _suspend(ref: Ref, _parameters: Mapping[str, Any]) -> Change:
    return Change({"spec": {"suspend": True}}, f"{ref} suspended")


def _resume(ref: Ref, _parameters: Mapping[str, Any]) -> Change:
    # A flow that was never suspended has no such field, and Volcano knows none.
    spec: Object = {"suspend": None if ref.kind.id == kinds.JOB_FLOW.id else False}
    if ref.kind.id == kinds.SCHEDULED_JOB.id:
        spec["suspendUntil"] = None
    return Change({"spec": spec}, f"{ref} resumed")


def _pause(ref: Ref, _parameters: Mapping[str, Any]) -> Change:
    return Change({"metadata": {"annotations": {PAUSED: "true"}}}, f"{ref} paused")


def _unpause(ref: Ref, _parameters: Mapping[str, Any]) -> Change:
    return Change({"metadata": {"annotations": {PAUSED: None}}}, f"{ref} goes on")


_PATCHES: Mapping[str, Callable[[Ref, Mapping[str, Any]], Change]] = {
    "run": _run,
    "suspend": _suspend,
    "resume": _resume,
    "pause": _pause,
    "unpause": _unpause,
}


def _entries(parameters: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Returns the entries that parameters name, None for all parked ones."""
    entries, state = parameters.get("entries"), parameters.get("state")
    if (entries is None) == (state is None):
        raise UserError("parameters: one of entries and state is needed")
    if state is not None:
        if state != "parked":
            raise UserError("parameters.state: parked is the one state that can be named")
        return None
    if not isinstance(entries, list) or not entries or len(entries) > MOST_ENTRIES:
        raise UserError(f"parameters.entries: a list of 1 to {MOST_ENTRIES} entries is needed")
    for entry in entries:
        if not isinstance(entry, str) or not _ENTRY.fullmatch(entry):
            raise UserError("parameters.entries: an entry looks like 1700000000000-0")
    return tuple(entries)
