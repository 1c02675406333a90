"""A flow with a schedule: it creates flows without one, as a CronJob creates Jobs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from scheduler import cron
from workers.api import times
from workers.api.kinds import JOB_FLOW, Object, owner_reference, ref_of
from workers.controllers.batch.cronjob.cursor import EDIT_LAG
from workers.controllers.volcano.jobflow import phases, status
from workers.controllers.volcano.jobflow.observed import ObservedFlow
from workers.controllers.volcano.jobflow.status import FlowReady
from workers.decision.plan import (
    ComeBack,
    Create,
    Delete,
    PatchStatus,
    Plan,
    RecordEvent,
    Step,
    Together,
)

#: Fields of the spec that the created flows do not get.
FIELDS = frozenset(
    {
        *("schedule", "timeZone", "startingDeadlineSeconds", "concurrencyPolicy", "suspend", "cancel"),
        *("successfulFlowsHistoryLimit", "failedFlowsHistoryLimit"),
    }
)
#: Annotation: the slot of a created flow, RFC 3339.
SLOT = "volcano.sh/cronjob-scheduled-timestamp"
#: Lateness is measured in whole seconds.
_SECOND = timedelta(seconds=1)


def decide(view: ObservedFlow) -> Plan:
    """Returns the plan for a flow with a schedule."""
    return _Scheduled(view).plan()


@dataclass(frozen=True)
class _Scheduled:
    view: ObservedFlow

    def plan(self) -> Plan:
        """Deletes old flows, creates the due one, and comes back at the next slot."""
        made = self._slot is not None
        steps: list[Step] = []
        doomed = [*self._old, *(self._active.values() if made and self._replaces else ())]
        if doomed:
            steps.append(Together(tuple(Delete(ref_of(JOB_FLOW, flow), flow["metadata"]["uid"]) for flow in doomed)))
        if self._slot is not None:
            steps += self._made(self._slot)
        new = self._status()
        if new != self.view.status:
            steps.append(PatchStatus(new))
        if self._next:
            steps.append(ComeBack(self._next))
        return Plan(tuple(steps), f"{len(self._active)} at work, {int(made)} to create")

    @cached_property
    def _flows(self) -> Mapping[str, Object]:
        """The existing flows by name."""
        entries = self.view.snapshot.children.get(JOB_FLOW.id, ())
        return {entry.ref.name: entry.body for entry in entries if entry.body is not None}

    @cached_property
    def _active(self) -> Mapping[str, Object]:
        """The flows at work."""
        return {name: flow for name, flow in self._flows.items() if _phase(flow) not in phases.FINAL}

    @property
    def _old(self) -> Iterator[Object]:
        """Finished flows beyond the history limits."""
        spec, limits = self.view.spec, {}
        limits[True] = spec.successful_flows_history_limit
        limits[False] = spec.failed_flows_history_limit
        for well, limit in limits.items():
            over = [
                flow
                for flow in self._flows.values()
                if _phase(flow) in phases.FINAL and (_phase(flow) == phases.SUCCEED) == well
            ]
            over.sort(key=lambda flow: (flow["metadata"].get("creationTimestamp") or "", flow["metadata"]["name"]))
            yield from over[: max(0, len(over) - limit)]

    @cached_property
    def _schedule(self) -> cron.Schedule:
        return cron.parse(self.view.spec.schedule or "", zone=self.view.spec.time_zone)

    @cached_property
    def _since(self) -> datetime:
        """The newest handled slot."""
        created = self.view.body["metadata"].get("creationTimestamp")
        begin = times.parse(created) if created else self.view.now
        last = self.view.status.get("lastScheduleTime")
        return max(begin, times.parse(last)) if last else begin

    @property
    def _text(self) -> str:
        """The schedule with its zone."""
        spec = self.view.spec
        return f"{spec.schedule} ({spec.time_zone})" if spec.time_zone else spec.schedule or ""

    @cached_property
    def _edited(self) -> datetime | None:
        """Returns the time of the last edit of the schedule. As for a CronJob, slots before it were never due."""
        text = self.view.status.get("scheduleEditTime")
        known = times.parse(text) if text else None
        if self.view.status.get("observedSchedule", self._text) == self._text:
            return known
        moment = (self.view.now - EDIT_LAG).replace(microsecond=0)
        return max(moment, known or moment)

    @cached_property
    def _due(self) -> datetime | None:
        """The newest due slot that is not handled."""
        if self._since >= self.view.now:
            return None
        slot = self._schedule.latest(self._since, self.view.now)
        deadline = self.view.spec.starting_deadline_seconds
        if slot is not None and self._edited is not None and slot <= self._edited:
            return None
        if slot is None or deadline is None or (self.view.now - slot) // _SECOND <= deadline:
            return slot
        return None

    @cached_property
    def _slot(self) -> datetime | None:
        """The slot whose flow is created now."""
        spec = self.view.spec
        if self._due is None or spec.suspend or spec.cancel or self._was_made(self._due):
            return None
        return None if self._active and spec.concurrency_policy == "Forbid" else self._due

    @property
    def _replaces(self) -> bool:
        return self.view.spec.concurrency_policy == "Replace"

    def _was_made(self, slot: datetime) -> bool:
        """Returns True if the slot has a flow, or had one that was deleted lately."""
        return any(entry.ref.name == self._name(slot) for entry in self.view.snapshot.children.get(JOB_FLOW.id, ()))

    def _name(self, slot: datetime) -> str:
        minute, second = divmod(int(slot.timestamp()), 60)
        return f"{self.view.name}-{minute}" + (f"-{second}" if second else "")

    def _made(self, slot: datetime) -> Iterator[Step]:
        body, name = self.view.body, self._name(slot)
        flow = {
            "apiVersion": JOB_FLOW.api_version,
            "kind": JOB_FLOW.kind,
            "metadata": {
                "name": name,
                "namespace": body["metadata"]["namespace"],
                **({"labels": labels} if (labels := body["metadata"].get("labels")) else {}),
                "annotations": {SLOT: times.render(slot)},
                "ownerReferences": [owner_reference(JOB_FLOW, body)],
            },
            "spec": {key: value for key, value in body["spec"].items() if key not in FIELDS},
        }
        taken = RecordEvent("Warning", "FailedCreate", f"JobFlow {name} exists and belongs to somebody else")
        # A stage, whose Event tells only of what this plan creates: an earlier one may have created the flow.
        created = RecordEvent("Normal", "SuccessfulCreate", f"Created flow {name}")
        yield Together((Create(JOB_FLOW, flow, taken=taken),), then=created)

    def _status(self) -> Object:
        handled = self._slot or (self._due if self._due and self._was_made(self._due) else None)
        active = {*self._active} - ({*self._active} if self._slot and self._replaces else set())
        if self._slot:
            active.add(self._name(self._slot))
        following = self._next
        computed = {
            "state": {"phase": phases.SCHEDULED},
            "active": sorted(active),
            "lastScheduleTime": times.render(handled) if handled else self.view.status.get("lastScheduleTime"),
            "nextScheduleTime": times.render(following) if following else None,
            "observedSchedule": self._text,
            "scheduleEditTime": times.render(self._edited) if self._edited else None,
            "observedGeneration": self.view.body["metadata"].get("generation"),
            "flowConditions": FlowReady("True", phases.SCHEDULED, "flows start when they are due").render(
                self.view.status, self.view.now
            ),
        }
        return status.merged(self.view.status, computed)

    @cached_property
    def _next(self) -> datetime | None:
        """The next slot; None while suspended or cancelled."""
        spec = self.view.spec
        return None if spec.suspend or spec.cancel else self._schedule.next(max(self.view.now, self._since))


def _phase(flow: Object) -> str | None:
    return ((flow.get("status") or {}).get("state") or {}).get("phase")
