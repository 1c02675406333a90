"""A simulated cluster with one EventJob: deliveries, Jobs, and polls and plans that may be cut short anywhere."""

import copy
from dataclasses import dataclass, field

import orjson

from tests.support.ledgers import ListLedger
from tests.unit.controllers.eventjob.manifests import event_text
from tests.unit.controllers.factories import NOW, UID
from tests.unit.controllers.keda.scaledjob.claims_cluster import ClaimsCluster, Poll
from workers.api import job_annotations
from workers.api.kinds import EVENT_JOB, JOB, Object, Ref
from workers.controllers.eventjob import decide
from workers.decision.claims import DELIVERIES, ClaimedItem, ClaimLedger, ClaimOrder
from workers.decision.plan import Plan
from workers.decision.snapshot import Reading, Snapshot, TriggerSample


@dataclass
class DeliveryLedger(ListLedger):
    """Deliveries in plain Python. An event that leaves the ledger and comes back is another claim.

    retrying: events that wait for their next attempt. attempts, turns: by event. arrivals: all events in their order.
    closed: the EventJob is gone, and everything is removed.
    """

    retrying: list[str] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)
    arrivals: list[str] = field(default_factory=list)
    closed: bool = False

    def carry_out(self, order: ClaimOrder | None, *, deleted: bool = False) -> bool:
        if order is None or order.id < self.order:
            return False
        if order.id > self.order:
            for each in order.settlements:
                if each.id in self.held:
                    self._settle(each.id, each.how, each.reason, each.attempt, False)
        self.order = order.id
        if deleted and order.limit == 0 and not self.held:
            self.items, self.retrying, self.parked, self.closed = [], [], [], True
        while self.items and len(self.held) < order.limit:
            event = self.items.pop(0)
            self.held[f"{self.arrivals.index(event) + 1}-0-{self.turns.get(event, 0)}"] = (
                event,
                self.attempts.get(event, 0),
            )
        return True

    def _settle(self, id: str, how: str, reason: str, attempt: int, tail: bool) -> None:
        event, _ = self.held.pop(id)
        self.turns[event] = self.turns.get(event, 0) + 1
        if how == "retried":
            self.attempts[event] = attempt
            self.retrying.append(event)
        elif how == "returned":
            self._await(event)
        elif how == "parked":
            self.parked.append((event, reason))

    def _await(self, event: str) -> None:
        self.items = sorted([*self.items, event], key=self.arrivals.index)

    def wake(self) -> None:
        """The next attempts become due."""
        for event in self.retrying:
            self._await(event)
        self.retrying = []

    def replay(self) -> None:
        """A user replays everything that is parked."""
        for event, _ in self.parked:
            self.attempts[event] = 0
            self._await(event)
        self.parked = []

    def waiting(self) -> list[str]:
        return [*self.items, *self.retrying]

    def claims(self, bound: tuple[str, ...] = ()) -> tuple[ClaimedItem, ...]:
        return tuple(
            ClaimedItem(id, attempt, 1, None if id in bound else event_text(event), "json")
            for id, (event, attempt) in self.held.items()
        )


@dataclass
class EventCluster(ClaimsCluster):
    """The simulation. deliveries: of the only EventJob."""

    deliveries: DeliveryLedger = field(default_factory=DeliveryLedger)

    def __post_init__(self) -> None:
        self.lists = {"work": self.deliveries}

    def push(self, name: str, number: int) -> None:
        super().push(name, number)
        self.deliveries.arrivals = list(self.pushed)

    def begin(self) -> Poll:
        assert self.owner is not None
        self.now += 1
        self.poll_wanted = False
        previous = self.reading.id + 1 if self.reading else 0
        metadata = self.owner["metadata"]
        deleted = "deleted" if metadata.get("deletionTimestamp") else None
        return Poll(self.now, max(self.now, previous), metadata["generation"], deleted, "work", self.order)

    def measure(self, poll: Poll) -> None:
        self.now += 1
        ledger, order = self.deliveries, poll.order
        done = order if ledger.carry_out(order, deleted=poll.annotation is not None) else None
        counts = {"waiting": len(ledger.items), "parked": len(ledger.parked)}
        claims = ledger.claims(order.bound if order else ())
        poll.found = ClaimLedger(DELIVERIES, done and done.limit, claims, done and done.id, counts)
        poll.waiting, poll.done = len(ledger.items), True

    def store(self, poll: Poll) -> None:
        if self.reading and poll.id < self.reading.id:
            return
        sample = TriggerSample("events", "events", float(poll.waiting), claimable=True)
        self.reading = Reading(poll.id, poll.started, poll.generation, (sample,), uid=UID, ledger=poll.found)

    def snapshot(self) -> Snapshot:
        self.now += 1
        children = {JOB.id: tuple(self.cache.values())}
        ref = Ref(EVENT_JOB, "default", "orders")
        return Snapshot(ref, copy.deepcopy(self.owner), children, reading=self.reading, order=self.order, at=self.now)

    def planned(self) -> Plan:
        return decide(self.snapshot(), NOW)

    def check(self) -> None:
        if not self.deliveries.closed:
            self.account()

    def maximum(self) -> int:
        assert self.owner is not None
        return int(self.owner["spec"]["concurrency"]["total"])

    def item_of(self, job: Object) -> str:
        return str(orjson.loads(job["metadata"]["annotations"][job_annotations.EVENT])["id"])
