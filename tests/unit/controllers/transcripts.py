"""Transcripts of controllers: the plans of a whole scenario."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from tests.support.transcripts import Transcript, flow
from workers.api import times
from workers.api.kinds import Kind, Object, Ref, ref_of
from workers.api.merge_patch import diff
from workers.decision.plan import Create, Patch, PatchStatus, Plan, RecordEvent, Step, Together
from workers.decision.snapshot import Snapshot

More = ParamSpec("More")

#: What a plan has beside its steps.
_REST = ("figures", "reservation", "levels")


class PlanTranscript(Transcript):
    """The plans that decisions returned, in their order; one that repeats the last of its object is left out.

    Of a status and of an object that is created only what differs from the last one is shown.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._last: dict[str, Sequence[str]] = {}
        self._before: dict[str, Object] = {}

    def of(self, decide: Callable[Concatenate[Snapshot, datetime, More], Plan]) -> Callable[..., Plan]:
        """Returns the function, with its plans added here."""

        def told(snapshot: Snapshot, now: datetime, *more: More.args, **named: More.kwargs) -> Plan:
            plan = decide(snapshot, now, *more, **named)
            self._plan(str(snapshot.ref), now, plan)
            return plan

        return told

    def _plan(self, subject: str, now: datetime, plan: Plan) -> None:
        shown = [each for step in plan.steps for each in self._step(subject, step)]
        shown += [f"{name} {flow(_plain(value))}" for name in _REST if (value := getattr(plan, name))]
        told = (plan.why, *shown)
        if shown and self._last.get(subject) != told:
            self._last[subject] = told
            self.add(f"{times.render(now)} {subject}: {plan.why}", shown)

    def _step(self, subject: str, step: Step) -> Iterator[str]:
        [(name, given)] = _plain(step).items()
        match step:
            case PatchStatus():
                given["status"] = self._change(f"status of {subject}", _keyed(given["status"]))
                if not any(given.values()):
                    return
            case RecordEvent(about=(kind, body)):
                given["about"] = ref_of(kind, body).key
            case Patch(then=RecordEvent(about=(kind, body))):
                given["then"]["RecordEvent"]["about"] = ref_of(kind, body).key
            case Create():
                given["body"] = self._change(f"{step.kind.id} of {subject}", given["body"])
            case Together():
                for each in step.steps:
                    for line in self._step(subject, each):
                        yield f"  {line}"
                del given["steps"]
        yield f"{name} {flow(given)}"

    def _change(self, what: str, body: Object) -> Object:
        """Returns what differs from the last body of that name, as a merge patch."""
        change = diff(self._before.get(what, {}), body)
        self._before[what] = body
        return change


def _keyed(value: Any) -> Any:
    """Returns a status whose lists are by type or name, so that entries that did not change need not be shown."""
    if isinstance(value, dict):
        return {name: _keyed(each) for name, each in value.items()}
    if not isinstance(value, list):
        return value
    for key in ("type", "name"):
        names = [each.get(key) for each in value if isinstance(each, dict)]
        if value and all(names) and len(set(names)) == len(value):
            return {name: _keyed(each) for name, each in zip(names, value, strict=True)}
    return [_keyed(each) for each in value]


def _plain(value: Any) -> Any:
    """Returns a value of YAML: a dataclass becomes its name with the fields that have no default value."""
    match value:
        case Ref():
            return value.key
        case Kind():
            return value.id
        case datetime():
            return times.render(value)
        case Mapping():
            return {str(key): _plain(each) for key, each in value.items()}
        case str() | int() | float() | None:
            return value
        case Sequence():
            return [_plain(each) for each in value]
        case Set():
            return sorted(map(_plain, value), key=str)
    if is_dataclass(value):
        changed = {
            each.name: _plain(got) for each in fields(value) if (got := getattr(value, each.name)) != each.default
        }
        return {type(value).__name__: changed}
    return repr(value)
