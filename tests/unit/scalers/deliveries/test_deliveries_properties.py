"""Pushes, polls, decisions, Jobs and people in any order; polls are cut short, orders are repeated and stale."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import redis.asyncio as redis
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.client import beside
from scalers.claimable import ClaimRequest
from scalers.sources.redis.connection import RedisLink
from tests.support.event_jobs import KEYS, PolledEventJob, event_of, spec_of
from workers.decision.claims import DELIVERIES, ClaimOrder, ClaimSettlement

LIMIT, RETRIES = 2, 1
EXAMPLES = 8
STATES_OF_JOBS = st.sampled_from(("done", "done", "failed", "lost"))
UNFINISHED = ("waiting", "delayed", "running", "retrying")


class CutShort(Exception):  # noqa: N818 - what happened
    """The process is gone."""


@dataclass
class BrittleLink(RedisLink):
    """A link whose process dies. left: round trips before that. lost: the last request arrives, and its answer not."""

    left: int = 0
    lost: bool = False

    async def run(self, commands: Sequence[Sequence[str | int]]) -> list[Any]:
        """As always, while it lasts."""
        if self.left == 0 and not self.lost:
            raise CutShort
        answers = await super().run(commands)
        if self.left == 0:
            raise CutShort
        self.left -= 1
        return answers


@dataclass
class DecidedEventJob(PolledEventJob):
    """An EventJob with its Jobs, by claim and attempt: running, done, failed or lost.

    given: every order so far. stored: the last. begun: ids of events by key, in the order of their first Jobs.
    completions: of Jobs by event's id; replays: that people asked for.
    """

    jobs: dict[tuple[str, int], str] = field(default_factory=dict)
    event_ids: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    given: list[ClaimOrder] = field(default_factory=list)
    stored: ClaimOrder | None = None
    read: ClaimOrder | None = None
    begun: dict[str, list[str]] = field(default_factory=dict)
    completions: Counter[str] = field(default_factory=Counter)
    replays: Counter[str] = field(default_factory=Counter)

    @property
    def ordered(self) -> bool:
        return self.spec.concurrency.ordering_key is not None

    def decide(self) -> None:
        """Creates missing Jobs, and gives an order that settles what has ended, as decisions do."""
        settlements: list[ClaimSettlement] = []
        leaving = {each.id for each in self.stored.settlements} if self.stored and self.stored != self.read else set()
        for claim in self.last.claims if self.last else ():
            name = (claim.id, claim.attempt)
            match self.jobs.get(name):
                case None if claim.id not in leaving and claim.item is not None:
                    self._begin(name, orjson.loads(claim.item))
                case "done":
                    settlements.append(ClaimSettlement(claim.id, "done", job="j"))
                case "failed" if claim.attempt < RETRIES:
                    settlements.append(ClaimSettlement(claim.id, "retried", "no", claim.attempt + 1, 0, "j"))
                case "failed":
                    settlements.append(ClaimSettlement(claim.id, "parked", "no", job="j"))
                case "lost":
                    settlements.append(ClaimSettlement(claim.id, "returned"))
        self.stored = ClaimOrder(next(self.orders), DELIVERIES, LIMIT, False, tuple(settlements))
        self.given.append(self.stored)

    def _begin(self, name: tuple[str, int], event: dict[str, str]) -> None:
        id, key = event["id"], event.get("subject", "")
        self.event_ids[name[0]], self.keys[id] = id, key
        if self.ordered:
            alive = [claim for claim, state in self.jobs.items() if state == "running"]
            assert key not in {self.keys[self.event_ids[each]] for each, _ in alive}, "two Jobs of one key at once"
        self.jobs[name] = "running"
        if id not in self.begun.setdefault(key, []):
            self.begun[key].append(id)

    async def polled(self, order: ClaimOrder | None, link: RedisLink) -> None:
        """Polls with this order; a poll that is cut short has no reading."""
        try:
            self.last = await self.ledger.carry_out(link, ClaimRequest("default/orders", self.uid, order))
        except CutShort:
            return
        self.read = order if self.last.applied else None


class EventJobMachine(RuleBasedStateMachine):
    """Two EventJobs of one channel, one of them with an ordering key."""

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.client = redis.Redis.from_url(self.url)
        self.pushed: dict[str, str] = {}
        ordered = spec_of(concurrency={"orderingKey": "event.subject"}, history={"limit": 100_000})
        self.event_jobs = [
            DecidedEventJob(self.client, ordered, "u1"),
            DecidedEventJob(self.client, spec_of(history={"limit": 100_000}), "u2"),
        ]

    def teardown(self) -> None:
        try:
            self.settle_everything()
        finally:
            self.run(self.client.aclose())
            self.runner.close()

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    @initialize()
    def begin(self) -> None:
        self.run(self.client.flushall())
        for job in self.event_jobs:
            self.run(job.poll())

    @rule(ids=st.lists(st.integers(1, 12), min_size=1, max_size=4), key=st.sampled_from("ab"), straight=st.booleans())
    def push(self, ids: list[int], key: str, straight: bool) -> None:
        for id in ids:
            self._push(id, key, straight)

    def _push(self, id: int, key: str, straight: bool) -> None:
        event: dict[Any, Any] = event_of(str(id), subject=self.pushed.get(str(id), key))
        if not straight:
            self.run(self.client.xadd(self.event_jobs[0].intake, event))
        elif str(id) not in self.pushed:
            # What the gateway does with a new event; it knows itself which is one.
            self.run(self.client.xadd(beside(self.event_jobs[0].intake, "accepted"), event))
        if straight and str(id) in self.pushed:
            return
        self.pushed.setdefault(str(id), key)
        if straight:
            digest = f"{event['source']}\n{id}"
            self.run(self.client.eval(
                "return redis.call('ZADD', KEYS[1], 'NX', redis.call('TIME')[1] * 1000, redis.sha1hex(ARGV[1]))",
                1, beside(self.event_jobs[0].intake, "seen"), digest,
            ))  # fmt: skip

    @rule(which=st.integers(0, 1))
    def poll(self, which: int) -> None:
        job = self.event_jobs[which]
        self.run(job.polled(job.stored, RedisLink(self.client)))

    @rule(which=st.integers(0, 1), left=st.integers(0, 3), lost=st.booleans())
    def poll_that_dies(self, which: int, left: int, lost: bool) -> None:
        job = self.event_jobs[which]
        self.run(job.polled(job.stored, BrittleLink(self.client, left=left, lost=lost)))

    @rule(which=st.integers(0, 1), data=st.data())
    def stale_poll(self, which: int, data: st.DataObject) -> None:
        """A poller without its lease carries an old order out; nobody reads what it finds."""
        job = self.event_jobs[which]
        if job.given:
            order = data.draw(st.sampled_from(job.given))
            self.run(job.ledger.carry_out(RedisLink(self.client), ClaimRequest("default/orders", job.uid, order)))

    @rule(which=st.integers(0, 1))
    def decide(self, which: int) -> None:
        self.event_jobs[which].decide()

    @rule(which=st.integers(0, 1), states=st.lists(STATES_OF_JOBS, max_size=3), data=st.data())
    def work(self, which: int, states: list[str], data: st.DataObject) -> None:
        """Some Jobs end; a poll and a decision go on from that."""
        job = self.event_jobs[which]
        for state in states:
            if running := sorted(name for name, was in job.jobs.items() if was == "running"):
                name = data.draw(st.sampled_from(running))
                job.jobs[name] = state
                job.completions[job.event_ids[name[0]]] += state == "done"
        job.decide()
        self.poll(which)
        job.decide()

    @rule(which=st.integers(0, 1), verb=st.sampled_from(("replay", "drop")), id=st.integers(1, 12))
    def change(self, which: int, verb: str, id: int) -> None:
        job = self.event_jobs[which]
        entries = [each.entry for each in self.run(job.deliveries.of_event(job.uid, str(id)))]
        changed = self.run(getattr(job.deliveries, verb)(job.uid, entries))
        if verb == "replay":
            job.replays[str(id)] += changed

    @precondition(lambda self: self.pushed)
    @rule(which=st.integers(0, 1))
    def remove_group(self, which: int) -> None:
        """The next poll goes on where the group was; what another EventJob's poll trims before is lost."""
        job = self.event_jobs[which]
        self.run(self.client.xgroup_destroy(beside(job.intake, "accepted"), f"eventjob:{job.uid}"))
        self.poll(which)

    @invariant()
    def holds(self) -> None:
        for job in self.event_jobs:
            self.run(self._consistent(job))
            for id, number in job.completions.items():
                assert number <= 1 + job.replays[id], f"{id} ran to its end {number} times"

    async def _consistent(self, job: DecidedEventJob) -> None:
        """Every delivery is where its state says, and the channel knows how many are not finished."""
        keys = KEYS.deliveries(job.uid)
        states = (*UNFINISHED, "parked", "done", "dropped")
        pipeline = self.client.pipeline(transaction=True)
        for part in ("records", "attributes"):
            pipeline.hgetall(keys.of(part))
        for part in (*states, "ready"):
            pipeline.zrange(keys.of(part), 0, -1)
        pipeline.hget(beside(job.intake, "unfinished"), job.uid)
        texts, attributes, *sets, found_ready, told = await pipeline.execute()
        records = {entry: orjson.loads(text) for entry, text in texts.items()}
        unfinished: dict[str, list[bytes]] = {}
        for state, members in zip(states, sets, strict=True):
            assert set(members) == {entry for entry, record in records.items() if record["s"] == state}
        by_place = sorted(records, key=lambda entry: records[entry].get("p", records[entry]["o"]))
        for entry in by_place:
            if records[entry]["s"] in UNFINISHED and "k" in records[entry]:
                unfinished.setdefault(records[entry]["k"], []).append(entry)
        heads = {queue[0] for queue in unfinished.values()}
        ready = {
            entry
            for entry, record in records.items()
            if record["s"] == "waiting" and ("k" not in record or entry in heads)
        }
        assert set(found_ready) == ready
        for queue in unfinished.values():
            assert all(records[entry]["s"] in ("waiting", "delayed") for entry in queue[1:]), "behind the first"
        assert sum(record["s"] == "running" for record in records.values()) <= LIMIT
        number = sum(record["s"] in UNFINISHED for record in records.values())
        assert int(told or 0) == number
        ids = [orjson.loads(text)["id"] for text in attributes.values()]
        assert len(ids) == len(set(ids)), "an event has two deliveries"

    def settle_everything(self) -> None:
        """Whatever happened, every event comes to its end once polls and decisions go on."""
        for job in self.event_jobs:
            for _ in range(4 * len(self.pushed) + 8):
                self.poll(self.event_jobs.index(job))
                job.decide()
                if job.last and job.last.counts and not sum(job.last.counts[state] for state in UNFINISHED):
                    break
                for name, state in job.jobs.items():
                    if state == "running":
                        job.jobs[name] = "done"
                        job.completions[job.event_ids[name[0]]] += 1
            self.holds()
            ended = self.run(job.ids("done", "parked", "dropped"))
            assert sorted(ended) == sorted(self.pushed), "each accepted event ends, for each EventJob"
            self.run(self._in_order(job))
        assert self.run(self.client.xlen(beside(self.event_jobs[0].intake, "accepted"))) == 0

    async def _in_order(self, job: DecidedEventJob) -> None:
        if not job.ordered:
            return
        arrivals = (await job.ids("done", "parked", "dropped"))[::-1]
        for begun in job.begun.values():
            first = [id for id in begun if not job.replays[id]]
            assert first == [id for id in arrivals if id in first], "in the order of arrival"


@pytest.mark.broker
def test_each_event_is_done_once_per_event_job_whatever_dies(redis_server: str) -> None:
    EventJobMachine.url = redis_server
    config = settings(max_examples=EXAMPLES, stateful_step_count=30, phases=(Phase.generate,))
    run_state_machine_as_test(EventJobMachine, settings=config)
