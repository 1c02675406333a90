"""Queries of plans for tests."""

from collections.abc import Iterable
from typing import TypeVar

from tests.unit.controllers.factories import NOW
from workers.api.kinds import Object, reference
from workers.controllers.batch.cronjob import ending
from workers.controllers.batch.job.pods import TRACKING
from workers.decision.plan import (
    ComeBack,
    CountMetric,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    RecordEvent,
    Together,
    Unfinalize,
)

Step = TypeVar("Step", Create, Delete, Patch, Unfinalize)


def staged(plan: Plan, kind: type[Step]) -> list[Step]:
    """The steps of this kind that are carried out side by side."""
    return [each for step in plan.steps if isinstance(step, Together) for each in step.steps if isinstance(each, kind)]


def created(plan: Plan) -> list[str]:
    return [step.body["metadata"]["name"] for step in staged(plan, Create)]


def deleted(plan: Plan) -> list[str]:
    return [step.ref.name for step in staged(plan, Delete)]


def counted(plan: Plan) -> list[str]:
    """The pods whose finalizers are taken off once they are written down."""
    return [step.ref.name for step in staged(plan, Unfinalize)]


def untracked(plan: Plan) -> list[str]:
    """The pods whose finalizers are taken off so that their end is not counted."""
    return [
        step.ref.name
        for step in staged(plan, Patch)
        if set(step.body["metadata"]) == {"finalizers"} and TRACKING not in step.body["metadata"]["finalizers"]
    ]


def statuses(plan: Plan) -> list[dict]:
    return [step.status for step in plan.steps if isinstance(step, PatchStatus)]


def status_of(plan: Plan) -> dict:
    """The last status of the plan: what came of it all."""
    return statuses(plan)[-1]


def with_references(status: Object, made: Iterable[Object | None]) -> Object:
    """The status as it is written once the Jobs that the plan makes are there; None for one that did not come to be."""
    known = [reference(ending.kind_of(job), job) for job in made if job]
    return {**status, "active": [*status.get("active", ()), *known]} if known else status


def condition(plan: Plan, type_: str) -> dict:
    """The condition of this type in the last status of the plan, empty if there is none."""
    return next((each for each in status_of(plan).get("conditions", ()) if each["type"] == type_), {})


def verdict(plan: Plan, type_: str) -> tuple[str, str | None]:
    """Status and reason of a condition."""
    found = condition(plan, type_)
    return found["status"], found.get("reason")


def conditions_of(plan: Plan) -> list[tuple[str, str, str]]:
    return [(each["type"], each["status"], each["reason"]) for each in status_of(plan).get("conditions", [])]


def events(plan: Plan) -> list[str]:
    return [step.reason for step in plan.steps if isinstance(step, RecordEvent)]


def back(plan: Plan) -> float | None:
    """Seconds after NOW when the key comes back."""
    times = [step.at for step in plan.steps if isinstance(step, ComeBack)]
    return (times[0] - NOW).total_seconds() if times else None


def shape(plan: Plan) -> list[str]:
    """The steps by kind, in order, without what is measured; of steps side by side, what they do."""
    return [
        type(step.steps[0]).__name__ + "s" if isinstance(step, Together) else type(step).__name__
        for step in plan.steps
        if not isinstance(step, CountMetric)
    ]


def measured(plan: Plan) -> dict[tuple[str, ...], float]:
    """Returns the counted values by metric and labels."""
    return {(step.metric, *step.labels): step.value for step in plan.steps if isinstance(step, CountMetric)}
