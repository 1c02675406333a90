"""A simulated cluster for claims: two lists with their ledgers, Jobs, a broker that may be emptied, and polls and plans
that may be cut short anywhere."""

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.support.ledgers import ListLedger
from tests.unit.controllers.factories import NOW, at, child, micros, scaled_job
from workers.api import conditions, job_annotations
from workers.api.kinds import JOB, SCALED_JOB, Object, Ref
from workers.controllers.claims import binding
from workers.controllers.keda.scaledjob import decide
from workers.decision import claim_names
from workers.decision.claims import ClaimedItem, ClaimLedger, ClaimOrder, ledger_of, name_of
from workers.decision.plan import (
    ComeBack,
    Create,
    Delete,
    Patch,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import CachedObject, Reading, Snapshot, TriggerSample

TRIGGER = {"metadata": {"address": "localhost:6379", "listLength": "1", "listName": "work"}, "type": "redis"}
ANNOTATION = orjson.dumps(TRIGGER, option=orjson.OPT_SORT_KEYS).decode()
OF = name_of(ANNOTATION)


class Killed(Exception):  # noqa: N818
    """The process that carried out a plan was killed."""


@dataclass
class Poll:
    """A poll in progress: its input, and its findings once it has read the ledger."""

    started: int
    id: int
    generation: int
    annotation: str | None
    list: str
    order: ClaimOrder | None
    found: ClaimLedger | None = None
    waiting: int = 0
    done: bool = False


def work(maximum: int, retries: int, rollout: str) -> Object:
    """A ScaledJob that claims."""
    return scaled_job(
        maxReplicaCount=maximum,
        scalingStrategy={"strategy": "claim", "claim": {"retries": retries}},
        rollout={"strategy": rollout},
        successfulJobsHistoryLimit=1,
        failedJobsHistoryLimit=1,
    )


@dataclass
class ClaimsCluster:
    """The simulation, on one clock (microseconds).

    lists: by name, with their ledgers. jobs: on the API server. cache: the Jobs in the store. unobserved: names of Jobs
    with changes that the store lacks. completed: by item, the number of its completed Jobs. budget: writes left before
    the process of a plan is killed; None without a limit.
    """

    owner: Object | None
    now: int = field(default_factory=lambda: micros(0))
    lists: dict[str, ListLedger] = field(default_factory=lambda: {"work": ListLedger(), "other": ListLedger()})
    jobs: dict[str, Object] = field(default_factory=dict)
    cache: dict[str, CachedObject] = field(default_factory=dict)
    unobserved: set[str] = field(default_factory=set)
    reading: Reading | None = None
    order: ClaimOrder | None = None
    poll_wanted: bool = True
    completed: Counter[str] = field(default_factory=Counter)
    pushed: list[str] = field(default_factory=list)
    started: Counter[str] = field(default_factory=Counter)
    budget: int | None = None
    version: int = 100

    # The lists.

    def push(self, name: str, number: int) -> None:
        for _ in range(number):
            item = f"item-{len(self.pushed)}"
            self.pushed.append(item)
            self.lists[name].items.append(item)

    # Polls.

    def begin(self) -> Poll:
        assert self.owner is not None
        self.now += 1
        self.poll_wanted = False
        trigger = self.owner["spec"]["triggers"][0]["metadata"]["listName"]
        annotation = ledger_of(self.owner)
        if annotation:
            trigger = "other" if '"other"' in annotation else "work"
        previous = self.reading.id + 1 if self.reading else 0
        generation = self.owner["metadata"]["generation"]
        return Poll(self.now, max(self.now, previous), generation, annotation, trigger, self.order)

    def measure(self, poll: Poll) -> None:
        """Reads the list and, if there is one, carries out the order on its ledger."""
        self.now += 1
        ledger = self.lists[poll.list]
        if poll.annotation:
            of = name_of(poll.annotation)
            order = poll.order if poll.order and poll.order.of == of else None
            obeyed = ledger.carry_out(order)
            claims = ledger.claims(order.bound if order else ())
            done = order if obeyed else None
            poll.found = ClaimLedger(of, done and done.limit, claims, done and done.id)
        poll.waiting, poll.done = len(ledger.items), True

    def store(self, poll: Poll) -> None:
        if self.reading and poll.id < self.reading.id:
            return
        waiting = float(poll.waiting)
        sample = TriggerSample("s0-redis", "redis", waiting, 1.0, waiting > 0, claimable=True)
        self.reading = Reading(poll.id, poll.started, poll.generation, (sample,), ledger=poll.found)

    def poll(self) -> None:
        poll = self.begin()
        self.measure(poll)
        self.store(poll)

    # Decisions.

    def snapshot(self) -> Snapshot:
        self.now += 1
        ref = Ref(SCALED_JOB, "default", "work")
        children = {JOB.id: tuple(self.cache.values())}
        return Snapshot(ref, copy.deepcopy(self.owner), children, reading=self.reading, order=self.order, at=self.now)

    def act(self, plan: Plan, budget: int | None = None) -> bool:
        """Carries out the plan; returns False if the process was killed. The last of `budget` writes is unobserved."""
        self.budget = budget
        try:
            for step in plan.steps:
                self._step(step)
        except Killed:
            return False
        return True

    def planned(self) -> Plan:
        return decide(self.snapshot(), NOW)

    def decide(self) -> None:
        self.act(self.planned())

    def take_turns(self, rounds: int) -> None:
        """Polls and decisions take turns; each decision is made again before its order is carried out."""
        for _ in range(rounds):
            if self.owner:
                self.poll()
            self.decide()
            self.decide()
            self.see_all()

    def _write(self) -> bool:
        """Returns True if the store observes this write."""
        if self.budget is None:
            return True
        self.budget -= 1
        if self.budget < 0:
            raise Killed
        return self.budget > 0

    def _step(self, step: Any) -> None:
        match step:
            case Together(steps=steps):
                for each in steps:
                    self._step(each)
            case Create(body=body):
                self._create(body, observed=self._write())
            case Delete(ref=ref, uid=uid):
                self._delete(ref.name, uid, observed=self._write())
            case Patch(ref=ref, body=body, resource_version=version) if ref.kind is JOB:
                self._patch_job(ref.name, body, version, observed=self._write())
            case Patch(body=body):
                self._write()
                self._patch_owner(body["metadata"])
            case Unfinalize(ref=ref, uid=uid):
                self._finalizers(ref.name, uid, observed=self._write())
            case PollNow(order=order):
                self._write()
                if order and (self.order is None or order.id >= self.order.id):
                    self.order = order
                self.poll_wanted = True
            case PatchStatus(status=status):
                self._write()
                if self.owner:
                    self.owner = {**self.owner, "status": status}
            case RecordEvent() | ComeBack():
                pass
            case _:
                raise AssertionError(step)

    def _patch_owner(self, metadata: Object) -> None:
        assert self.owner is not None
        merged = {**self.owner["metadata"], **{key: value for key, value in metadata.items() if key != "annotations"}}
        annotations = {**(merged.get("annotations") or {}), **metadata.get("annotations", {})}
        merged["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        self.owner = {**self.owner, "metadata": merged}
        if merged.get("deletionTimestamp") and not merged["finalizers"]:
            self.owner = None

    def _create(self, body: Object, *, observed: bool) -> None:
        name = body["metadata"]["name"]
        assert len(name) <= 63
        if name not in self.jobs:
            self.version += 1
            metadata = {**body["metadata"], "uid": f"uid-{self.version}", "resourceVersion": str(self.version)}
            self.jobs[name] = {**body, "metadata": metadata}
            self.started[self.item_of(body)] += 1
        self._changed(name, observed)

    def _delete(self, name: str, uid: str, *, observed: bool) -> None:
        job = self.jobs.get(name)
        if job and job["metadata"]["uid"] == uid:
            self._change(name, {"deletionTimestamp": at(0)})
        self._changed(name, observed)

    def _patch_job(self, name: str, body: Object, version: str, *, observed: bool) -> None:
        job = self.jobs.get(name)
        if job and job["metadata"]["resourceVersion"] == version:
            self._change(name, body["metadata"])
            self._changed(name, observed)

    def _finalizers(self, name: str, uid: str, *, observed: bool) -> None:
        job = self.jobs.get(name)
        if job and job["metadata"]["uid"] == uid:
            self._change(name, {"finalizers": []})
        self._changed(name, observed)

    # The cluster.

    def _change(self, name: str, metadata: Object | None = None, status: Object | None = None) -> None:
        self.version += 1
        job = self.jobs[name]
        merged = {**job["metadata"], **(metadata or {}), "resourceVersion": str(self.version)}
        self.jobs[name] = {**job, "metadata": merged, **({"status": status} if status else {})}
        if merged.get("deletionTimestamp") and not merged.get("finalizers"):
            del self.jobs[name]

    def _changed(self, name: str, observed: bool) -> None:
        if observed:
            self.see(name)
        else:
            self.unobserved.add(name)

    def see(self, name: str) -> None:
        """The store takes in the current version of a Job."""
        self.now += 1
        if name in self.jobs or name in self.cache:
            self.cache[name] = CachedObject(Ref(JOB, "default", name), self.jobs.get(name), self.now)
        self.unobserved.discard(name)

    def see_all(self) -> None:
        for name in sorted(self.unobserved):
            self.see(name)

    def end(self, name: str, how: str) -> None:
        """The Job finishes."""
        condition = {"type": how, "status": "True", "reason": "Because", "lastTransitionTime": at(0)}
        self._change(name, status={"conditions": [condition]})
        self.completed[self.item_of(self.jobs[name])] += how == "Complete"
        self.unobserved.add(name)

    def remove(self, name: str) -> None:
        """A user deletes the Job."""
        self._change(name, {"deletionTimestamp": at(0)})
        self.unobserved.add(name)

    def flush(self) -> None:
        """Empties the broker; the reflectors list all Jobs again."""
        self.reading = self.order = None
        self.cache, self.poll_wanted = {}, True
        self.unobserved = set(self.jobs)
        self.see_all()

    def alive(self) -> list[str]:
        return [name for name, job in self.jobs.items() if not conditions.finished(job)]

    # Invariants.

    def check(self) -> None:
        annotation = (self.owner and ledger_of(self.owner)) or ""
        for name, ledger in self.lists.items():
            assert not ledger.held or f'"{name}"' in annotation, "claims of a ledger that is not annotated"
        self.account()

    def account(self) -> None:
        """Every item is in one place."""
        held = [item for ledger in self.lists.values() for item, _ in ledger.held.values()]
        waiting = [item for ledger in self.lists.values() for item in ledger.waiting()]
        parked = [item for ledger in self.lists.values() for item, _ in ledger.parked]
        running = Counter(self.item_of(self.jobs[name]) for name in self.alive())
        assert all(number == 1 for number in running.values()), f"two Jobs for one item: {running}"
        for item in self.pushed:
            places = held.count(item) + waiting.count(item) + parked.count(item)
            assert self.completed[item] <= 1, f"{item} was done twice"
            if places == 0:
                assert self.completed[item] == 1, f"{item} is lost"
            else:
                assert places == 1
            if item in waiting or item in parked:
                assert not self.completed[item], f"{item} is done and kept"
                assert not running[item], f"{item} is worked on and not claimed"

    def item_of(self, job: Object) -> str:
        """Returns the item that a Job was made for."""
        return item_of(job)

    def state(self) -> tuple[Any, ...]:
        """Returns all that a poll or a decision can change, without the clock."""
        ledgers = [(list(each.items), dict(each.held), list(each.parked)) for each in self.lists.values()]
        return self.owner, self.version, self.order, ledgers, sorted(self.unobserved)

    def maximum(self) -> int:
        assert self.owner is not None
        return int(self.owner["spec"]["maxReplicaCount"])


def item_of(job: Object) -> str:
    return str(job["metadata"]["annotations"][job_annotations.ITEM])


def claim(id: str, **more: Any) -> ClaimedItem:
    return ClaimedItem(id, **{"size": 1, "item": "x", **more})


def name(id: str, attempt: int = 0) -> str:
    return claim_names.claimed("work", OF, id, attempt)


def bound(
    id: str, *ended: str, attempt: int = 0, deleted: bool = False, free: bool = False, **more: Any
) -> CachedObject:
    """The Job of a claim. deleted: it is on its way out. free: nothing keeps it."""
    entry = child(name(id, attempt), *ended, **more)
    assert entry.body is not None
    annotations = {
        **entry.body["metadata"]["annotations"],
        job_annotations.CLAIM: id,
        job_annotations.CLAIM_ATTEMPT: str(attempt),
    }
    metadata = {
        **entry.body["metadata"],
        "annotations": annotations,
        "resourceVersion": "9",
        "finalizers": [] if free else ["other", binding.FINALIZER],
        **({"deletionTimestamp": "2026-03-01T11:59:59Z"} if deleted else {}),
    }
    return CachedObject(entry.ref, {**entry.body, "metadata": metadata}, entry.seen)
