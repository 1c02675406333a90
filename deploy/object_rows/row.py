"""The value of a row: one object in one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from workers.api import times
from workers.api.kinds import Object, Ref, by_manifest, controller_of

#: ok: nothing to do. active: at work. waiting: for room, time or others. warning: it works, and somebody should look.
#: error: it does not work. paused: a user stopped it.
Tone = Literal["ok", "active", "waiting", "warning", "error", "paused"]
#: The tones in the order of attention.
TONES: tuple[Tone, ...] = ("error", "warning", "waiting", "active", "paused", "ok")
#: Characters of a message: a row is a line, and the object's page shows its conditions in full.
LONGEST = 300


@dataclass(frozen=True, slots=True)
class Summary:
    """The part of a row that the kind determines.

    phase: a word. message: why it is in this phase, on one line; empty where the phase says all. numbers: by name.
    next, last: the next and the last run or end, as the status writes them.
    """

    phase: str
    tone: Tone
    message: str = ""
    numbers: Mapping[str, int] = field(default_factory=dict)
    next: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One object as lists show it; its fields are those of the JSON. kind: the kind's id. owner: its controller."""

    kind: str
    namespace: str
    name: str
    uid: str
    created: str | None
    phase: str
    tone: Tone
    message: str
    conditions: tuple[Mapping[str, Any], ...] = ()
    numbers: Mapping[str, int | float] = field(default_factory=dict)
    next: str | None = None
    last: str | None = None
    owner: Mapping[str, str] | None = None


def assemble(ref: Ref, body: Object, summary: Summary, conditions: Sequence[Object]) -> Row:
    """Returns the row of an object from its summary and its conditions in Kubernetes' form."""
    metadata = body["metadata"]
    return Row(
        kind=ref.kind.id,
        namespace=ref.namespace,
        name=ref.name,
        uid=str(metadata.get("uid") or ""),
        created=instant(metadata.get("creationTimestamp")),
        phase=summary.phase,
        tone=summary.tone,
        message=one_line(summary.message),
        conditions=tuple(condition(each) for each in conditions if isinstance(each, dict)),
        numbers=summary.numbers,
        next=instant(summary.next),
        last=instant(summary.last),
        owner=_owner(ref.namespace, body),
    )


def condition(entry: Object) -> Mapping[str, Any]:
    """Returns a condition as the page shows it."""
    return {
        "type": str(entry.get("type") or ""),
        "status": str(entry.get("status") or "Unknown"),
        "reason": str(entry.get("reason") or ""),
        "message": str(entry.get("message") or ""),
        "since": instant(entry.get("lastTransitionTime")),
    }


def instant(text: object) -> str | None:
    """Returns a timestamp as RFC 3339 in UTC with milliseconds, None for an absent or malformed one."""
    found = times.instant(text)
    return times.render_precisely(found) if found else None


def of_micros(micros: int) -> str | None:
    """Returns microseconds since the epoch as RFC 3339 in UTC with milliseconds, None for 0."""
    return times.render_precisely(times.of_micros(micros)) if micros else None


def one_line(text: object) -> str:
    """Returns a text of a row: whole words on one line, cut at `LONGEST` characters."""
    words = " ".join(str(text).split())
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


def because(entry: Object | None) -> str:
    """Returns reason and message of a condition or state, joined; empty for None."""
    return ": ".join(str(part) for part in ((entry or {}).get("reason"), (entry or {}).get("message")) if part)


def count(value: object) -> int:
    """Returns a number of a status; 0 for an absent one and for one that is none: any client may write it."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def status_of(body: Object) -> Object:
    """Returns the object's status, empty without one."""
    found = body.get("status")
    return found if isinstance(found, dict) else {}


def spec_of(body: Object) -> Object:
    """Returns the object's spec, empty without one."""
    found = body.get("spec")
    return found if isinstance(found, dict) else {}


def _owner(namespace: str, body: Object) -> Mapping[str, str] | None:
    reference = controller_of(body)
    if reference is None:
        return None
    kind = by_manifest(reference.get("apiVersion") or "", reference.get("kind") or "")
    if kind is None:
        return None
    return {"kind": kind.id, "namespace": namespace if kind.namespaced else "", "name": str(reference.get("name"))}
