"""The keyed work queue against its model: any sequence of calls, crashes, replays and losses, step by step.

Subclasses say which server the queue runs on. The invariants I1 to I6 are those of docs/queue.md.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from redis.asyncio import Redis

from scheduler.keys import Keys, LaneKeys
from scheduler.queue import (
    UNSETTLED,
    Done,
    Failed,
    Lane,
    Lease,
    Outcome,
    Postponed,
    Requeue,
    RequeueAt,
    RetryBackoff,
)
from tests.unit.scheduler.model import SECOND, Model

# The second failure in a row waits for longer than a lease lasts, the third for the cap.
LEASE, BASE, CAP = 10, 8, 30
# Few, so that the interesting meetings happen: one namespace with several keys, two with one.
KEYS = [f"scaledjobs.keda.sh/{name}" for name in ("blue/a", "blue/b", "blue/c", "green/a", "red/a")]

#: Reads a lane in one call: five sorted sets, two hashes, a set.
EVERYTHING = """
local all = {}
for i = 1, 5 do all[i] = redis.call('ZRANGE', KEYS[i], 0, -1, 'WITHSCORES') end
for i = 6, 7 do all[i] = redis.call('HGETALL', KEYS[i]) end
all[8] = redis.call('SMEMBERS', KEYS[8])
return all
"""

some_keys = st.lists(st.sampled_from(KEYS), min_size=1, max_size=4)
seconds = st.sampled_from([0, 1, 3, 7, 9, 10, 11, 60])


class Replaying:
    """A client that may lose the connection after the broker carried a call out, and then asks again."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self.twice = False

    async def evalsha(self, *args: Any) -> Any:
        answer = await self._client.evalsha(*args)
        return await self._client.evalsha(*args) if self.twice else answer

    async def script_load(self, *args: Any) -> Any:
        return await self._client.script_load(*args)


@dataclass
class Holder:
    """A lease as its holder sees it: until when (virtual microseconds) it believes in it."""

    lease: Lease
    until: int


class QueueMachine(RuleBasedStateMachine):
    """Every rule does the same to the queue and to the model; then the two must be equal."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.now = 1_700_000_000 * SECOND
        self.redis = self.runner.run(self.connect())
        self.replaying = Replaying(self.redis)
        self.lane = Lane(
            cast(Redis, self.replaying),
            "reconcile",
            Keys("test"),
            lease=LEASE,
            backoff=RetryBackoff(BASE, CAP, jitter=0.0),
            slots=2,
            clock=lambda: self.now,
        )
        #: On some days nothing works, so that failures in a row get long.
        self.moody = False
        self.holders: list[Holder] = []
        self.spent: list[Holder] = []
        self.wanted: set[str] = set()
        self.model = self.empty_model()

    async def connect(self) -> Redis:
        """A client of an empty server."""
        raise NotImplementedError

    def empty_model(self) -> Model:
        return Model(LEASE * SECOND, BASE * SECOND, CAP * SECOND)

    def teardown(self) -> None:
        self.runner.run(self.redis.aclose())
        self.runner.close()

    @initialize(opened=st.sampled_from([True, True, False]), moody=st.sampled_from([False, False, False, True]))
    def start(self, opened: bool, moody: bool) -> None:
        self.moody = moody
        if opened:
            self.open()

    @rule(keys=some_keys, priority=st.sampled_from([0, 0, 0, 1, -1, 99]), forgive=st.booleans(), twice=st.booleans())
    def mark(self, keys: list[str], priority: int, forgive: bool, twice: bool) -> None:
        with_replay = self.model.mark(keys, self.now, priority, forgive=forgive)
        self.replaying.twice = twice
        marked = self.runner.run(self.lane.mark(keys, priority=priority, forgive=forgive))
        self.replaying.twice = False
        assert twice or marked.ready == with_replay
        self.wanted.update(keys)

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), forgive=st.booleans())
    def news_of_a_held_key(self, data: st.DataObject, forgive: bool) -> None:
        key = data.draw(st.sampled_from(self.holders)).lease.key
        self.mark([key], priority=0, forgive=forgive, twice=False)

    @precondition(lambda self: self.model.failures)
    @rule(data=st.data())
    def an_edit_of_a_failing_key(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.failures)))
        self.mark([key], priority=0, forgive=True, twice=False)

    @rule(n=st.integers(1, 3), notified=st.booleans(), twice=st.booleans())
    def claim(self, n: int, notified: bool, twice: bool) -> None:
        expected = self.model.claim(n, self.now)
        self.replaying.twice = twice
        claim = self.runner.run(self.lane.claim(n, notified=notified))
        self.replaying.twice = False
        keys = [lease.key for lease in claim.leases]
        for lease in claim.leases:
            believers = [holder for holder in self.holders if holder.lease.key == lease.key and self.now < holder.until]
            assert not believers, f"I2: {lease.key} has two holders"
            older = [holder.lease.token for holder in self.holders + self.spent if holder.lease.key == lease.key]
            assert all(token < lease.token for token in older), "I6: a later claim has the higher token"
            self.holders.append(Holder(lease, self.now + LEASE * SECOND))
        assert sorted(keys) == sorted(expected), "I4: whose turn it is"
        assert claim.now == self.now
        assert claim.ready == len(self.model.ready)
        assert (claim.opens is None) == (self.now >= (self.model.opens or 0))
        assert [(x.failures, x.reason) for x in claim.leases] == [
            self.model.failures.get(key, (0, None)) for key in keys
        ], "I5: failures travel with the claim"
        self.wanted.difference_update(keys)

    @precondition(lambda self: self.holders)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        holder = data.draw(st.sampled_from(self.holders + self.spent[-1:]))
        held = self.model.renew(holder.lease.key, holder.lease.token, self.now)
        lost = self.runner.run(self.lane.renew([holder.lease]))
        assert lost == (frozenset() if held else {holder.lease})
        if held and self.now < holder.until:
            holder.until = self.now + LEASE * SECOND

    @precondition(lambda self: self.holders)
    @rule(data=st.data(), many=st.integers(1, 4), twice=st.booleans())
    def finish(self, data: st.DataObject, many: int, twice: bool) -> None:
        holders = data.draw(
            st.lists(
                st.sampled_from(self.holders + self.spent[-1:]),
                min_size=1,
                max_size=many,
                unique_by=lambda holder: holder.lease,
            )
        )
        self.give_back([(holder, data.draw(self.outcome())) for holder in holders], twice)

    def give_back(self, outcomes: list[tuple[Holder, Outcome]], twice: bool = False) -> None:
        self.replaying.twice = twice
        finished = self.runner.run(self.lane.finish((holder.lease, outcome) for holder, outcome in outcomes))
        self.replaying.twice = False
        stale = set()
        for holder, outcome in sorted(outcomes, key=lambda pair: _order(pair[1])):
            if not self.model.finish_lease(holder.lease.key, holder.lease.token, outcome, self.now):
                stale.add(holder.lease)
        assert set(finished.stale) == stale, "I6: a stale outcome is refused and said to be"
        # A holder that has spoken holds nothing any more; it may still speak again.
        self.spent += [holder for holder, _ in outcomes if holder in self.holders]
        self.holders = [holder for holder in self.holders if holder not in self.spent]

    @rule(data=st.data(), n=st.integers(1, 3))
    def work(self, data: st.DataObject, n: int) -> None:
        """A whole turn, so that keys get far enough to fail several times in a row."""
        due = min(self.model.later.values(), default=self.now)
        self.sweep(max(0, due - self.now) // SECOND, limit=1000)
        held = len(self.holders)
        self.claim(n, notified=True, twice=False)
        outcome = data.draw(self.outcome())
        if claimed := self.holders[held:]:
            self.give_back([(holder, outcome) for holder in claimed])

    @precondition(lambda self: not self.moody)
    @rule(data=st.data(), key=st.sampled_from(KEYS), after=seconds)
    def work_on_a_booked_key(self, data: st.DataObject, key: str, after: int) -> None:
        """A key asks to come back, and is marked and decided on again meanwhile."""
        for outcome in (RequeueAt(self.now / SECOND + after), data.draw(self.outcome())):
            self.mark([key], priority=99, forgive=False, twice=False)
            held = len(self.holders)
            self.claim(1, notified=True, twice=False)
            self.give_back([(holder, outcome) for holder in self.holders[held:]])

    def outcome(self) -> st.SearchStrategy[Outcome]:
        failed = st.sampled_from(
            [Failed("no"), Failed("not yet", after=9.0), Failed("away", within=3.0), Failed(f"{UNSETTLED}?", after=5.0)]
        )
        postponed = seconds.map(lambda after: Postponed(float(after)))
        if self.moody:
            return st.one_of(failed, failed, postponed)
        return st.one_of(
            st.just(Done()),
            st.just(Done()),
            st.just(Done()),
            st.just(Requeue()),
            seconds.map(lambda after: RequeueAt(self.now / SECOND + after)),
            failed,
            postponed,
        )

    @rule(after=seconds)
    def time_passes(self, after: int) -> None:
        self.now += after * SECOND

    @rule(after=seconds, limit=st.sampled_from([1, 3, 1000]))
    def sweep(self, after: int, limit: int) -> None:
        self.time_passes(after)
        moved = self.model.sweep(limit, self.now)
        swept = self.runner.run(self.lane.sweep(limit))
        assert swept.moved == moved
        due = min((*self.model.later.values(), *self.model.leases.values()), default=None)
        assert swept.next == (None if due is None else due / SECOND)

    @precondition(lambda self: all(holder.until <= self.now for holder in self.holders))
    @rule()
    def open(self) -> None:
        self.model.open(self.now)
        self.runner.run(self.lane.open())

    @rule(sure=st.integers(0, 19))
    def flush(self, sure: int) -> None:
        if sure == 0:
            self.runner.run(self.redis.flushall())
            self.model = self.empty_model()
            # Tokens are seeded with the time, and a claim takes longer than the microsecond that would repeat one.
            self.now += SECOND
            # Marked again from the cluster, by whoever watches it.
            self.wanted.clear()

    @invariant()
    def nothing_wanted_is_lost(self) -> None:
        keeps = {**self.model.ready, **self.model.later}
        lost = {key for key in self.wanted if key not in keeps and key not in self.model.dirty}
        # A holder that died leaves its key leased until the lease is swept; the key comes back by that.
        assert not lost, f"I1: {lost}"

    @invariant()
    def the_queue_is_as_the_model_says(self) -> None:
        assert self.runner.run(self.state()) == {
            "ready": self.model.ready,
            "since": self.model.since,
            "tenants": self.model.finish,
            "later": self.model.later,
            "leased": self.model.leased,
            "leases": self.model.leases,
            "dirty": self.model.dirty,
            "failures": self.model.failures,
        }

    async def state(self) -> Mapping[str, object]:
        """What the server holds, in the model's words."""
        zsets = ("ready", "since", "tenants", "later", "leases")
        named = dict(zip(LaneKeys.PARTS, self.lane.keys.all(), strict=True))
        *scored, holders, failed, wanted_again = await self.redis.eval(
            EVERYTHING, 8, *(named[name] for name in (*zsets, "leased", "failures", "dirty"))
        )
        state: dict[str, object] = {
            name: {member.decode(): int(score) for member, score in _pairs(answer)}
            for name, answer in zip(zsets, scored, strict=True)
        }
        state["leased"] = {key.decode(): int(token) for key, token in _pairs(holders)}
        state["failures"] = {key.decode(): _failures(text.decode()) for key, text in _pairs(failed)}
        state["dirty"] = {key.decode() for key in wanted_again}
        return state


def _pairs(answer: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(answer[::2], answer[1::2], strict=True)


def _failures(text: str) -> tuple[int, str]:
    count, _, reason = text.partition(" ")
    return int(count), reason


def _order(outcome: Outcome) -> int:
    """The order in which one call carries outcomes out, by kind."""
    return [Done, Requeue, RequeueAt, Failed, Postponed].index(type(outcome))


def on_server(url: str) -> type[QueueMachine]:
    """The machine for a real server, which it empties."""

    class OnServer(QueueMachine):
        async def connect(self) -> Redis:
            client: Redis = Redis.from_url(url)
            await client.flushall()
            return client

    return OnServer
