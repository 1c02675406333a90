"""Limits that objects share: never exceeded whatever is interleaved, lost or gone; and fair where they are scarce."""

import asyncio

import fakeredis
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduler.broker import clients
from scheduler.keys import Keys
from scheduler.queue import Done, Lane
from tests.support import broker_clock
from tests.support.caps import SharedCap
from tests.support.tables import cases
from workers.api.kinds import JOB, SCALED_JOB, Ref
from workers.cache.store import ObjectVersion, Store
from workers.decision.limits import JobLimit, LimitReservation
from workers.decision.snapshot import Snapshot
from workers.errors import Stale
from workers.reconcile import reservations as module
from workers.reconcile.reservations import Reservations

KEYS = Keys("test")
#: Workers that decide on one object, one after the other.
HANDS = 8


def cap(limit, name="quota", **spec):
    policy = {"metadata": {"name": name, "uid": f"uid-{name}", "generation": 1}, "spec": {"maxJobs": limit, **spec}}
    return JobLimit(policy, limit, SCALED_JOB, lambda body: True)


class LimitsRig:
    """Objects and their Jobs, in the store as it is; a broker; and what was granted."""

    def __init__(self, client, limit=6):
        self.client = client
        self.lane = Lane(client, "reconcile", KEYS)
        self.store = Store(client, KEYS, {SCALED_JOB.id: (self.lane,)})
        self.limit = limit
        self.jobs = {}
        self.uids = {}
        self.dropped = []
        self.versions = 0
        self.reservations = Reservations(client, KEYS, self.store, self.lane, self.notify, stale=3600)

    async def notify(self, notifications):
        pass

    async def follow(self):
        await self.lane.open()
        for kind in (SCALED_JOB, JOB):
            listing = await self.store.begin(kind, 1)
            await self.store.finish(listing, {"": "0"})
            await self.store.touch(kind, 1, await self.now())

    async def now(self):
        return await broker_clock.now(self.client)

    def uid(self, name):
        """A name may come again, a uid never does: the store takes no version of a uid that is gone."""
        return f"uid-{name}-{self.dropped.count(name)}"

    def body(self, kind, name, **more):
        self.versions += 1
        metadata = {"name": name, "namespace": "default", "uid": self.uid(name), "resourceVersion": str(self.versions)}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**metadata, **more}}

    async def add(self, name):
        self.jobs.setdefault(name, 0)
        await self.store.apply(SCALED_JOB, [ObjectVersion(self.body(SCALED_JOB, name))])

    async def drop(self, name):
        """The object goes, and the garbage collector takes its Jobs."""
        await self.jobs_of(name, 0)
        del self.jobs[name]
        await self.store.apply(SCALED_JOB, [ObjectVersion.gone(Ref(SCALED_JOB, "default", name), self.uid(name))])
        self.dropped.append(name)

    async def jobs_of(self, name, number):
        """The object has so many unfinished Jobs now."""
        owner = {"apiVersion": SCALED_JOB.api_version, "kind": SCALED_JOB.kind, "name": name, "uid": self.uid(name)}
        had, self.jobs[name] = self.jobs[name], number
        changes = []
        for each in (f"{name}-{i}" for i in range(had, number)):
            self.uids[each] = f"uid-{each}-{self.versions}"
            body = self.body(JOB, each, uid=self.uids[each], ownerReferences=[{**owner, "controller": True}])
            changes.append(ObjectVersion(body))
        changes += [
            ObjectVersion.gone(Ref(JOB, "default", each), self.uids[each])
            for each in (f"{name}-{i}" for i in range(number, had))
        ]
        await self.store.apply(JOB, changes)

    async def ask(self, name, wanted, *, caps=None, alive=None, held=0, **snapshot):
        body = self.body(SCALED_JOB, name)
        asked = LimitReservation(caps or (cap(self.limit),), self.jobs[name] if alive is None else alive, wanted, held)
        # Each is another decision.
        observed = Snapshot(Ref(SCALED_JOB, "default", name), body, **{"at": self.versions, **snapshot})
        return await self.reservations.ask(observed, asked)

    async def works(self, name, wanted):
        """One decision, carried out."""
        granted = await self.ask(name, max(wanted, self.jobs[name]))
        await self.jobs_of(name, max(granted, self.jobs[name]))
        return granted


@pytest.fixture
async def rig(client):
    rig = LimitsRig(client)
    await rig.follow()
    for name in "abc":
        await rig.add(name)
    return rig


async def test_one_object_gets_what_it_wants_up_to_the_limit(rig):
    assert await rig.works("a", 4) == 4
    assert await rig.works("a", 40) == 6


async def test_a_reservation_is_exclusive(rig):
    assert await rig.ask("a", 4) == 4
    assert await rig.ask("b", 4) == 2
    assert await rig.ask("c", 4) == 0


async def test_what_was_reserved_and_not_used_gives_way_to_fair_shares(rig):
    assert await rig.ask("a", 6) == 6
    assert await rig.ask("b", 6) == 0
    assert [await rig.ask(name, 6) for name in "aba"] == [3, 3, 3]


async def test_what_was_granted_for_work_in_hand_is_not_taken_back(rig):
    """Items that were taken out of a queue get their Jobs; shares are made even as those end."""
    assert await rig.ask("a", 9) == 6
    assert await rig.ask("b", 9) == 0
    assert await rig.ask("a", 9, held=5) == 5
    assert await rig.ask("b", 9) == 1
    await rig.jobs_of("a", 5)
    await rig.jobs_of("a", 4)
    assert await rig.ask("a", 9, held=4) == 4
    assert await rig.ask("b", 9) == 2


async def test_work_in_hand_that_nothing_was_granted_for_gets_no_more_than_its_share(rig):
    assert await rig.ask("a", 2) == 2
    assert await rig.ask("b", 9) == 4
    assert await rig.ask("a", 9, held=9) == 2
    assert await rig.ask("b", 9, held=9) == 4
    await rig.client.delete(f"{KEYS.tag}:limit:{cap(6).id}")
    assert [await rig.ask(name, 9, held=9) for name in "ba"] == [6, 0]


async def test_work_in_hand_waits_while_there_are_jobs_beyond_the_limit(rig):
    await rig.works("a", 6)
    await rig.jobs_of("b", 3)
    await rig.client.delete(f"{KEYS.tag}:limit:{cap(6).id}")
    assert await rig.ask("b", 3) == 3
    await rig.jobs_of("a", 2)
    assert await rig.ask("a", 9, held=6) == 3


@given(
    limit=st.integers(0, 9),
    steps=st.lists(
        st.tuples(st.sampled_from("abc"), *(st.integers(0, 9) for _ in range(3)), st.booleans()), max_size=20
    ),
)
@example(limit=1, steps=[("a", 0, 5, 0, False), ("b", 0, 5, 0, False), ("a", 0, 5, 0, False)])
@example(limit=1, steps=[("a", 0, 5, 0, False), ("b", 0, 5, 0, False), ("a", 0, 5, 0, False), ("a", 0, 5, 0, True)])
@settings(max_examples=60)
def test_the_script_answers_as_the_arithmetic_says(limit, steps):
    """What is reserved never exceeds the limit but by Jobs that are there."""
    asyncio.run(_as_the_model(limit, steps))


async def _as_the_model(limit, steps):
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        model, ledger = SharedCap(limit), "{x}:cap"
        # Filled in the current generation: there is none.
        await client.hset(ledger, "#", "")
        for number, (name, alive, more, held, keep) in enumerate(steps, 1):
            before, asked = dict(model.granted), alive + more
            # The clock of the test's: turns have different moments.
            arguments = [number * 1000, name, "uid", alive, asked, held, int(keep), 60, 60, number, limit]
            answer = await module._RESERVE(client, ["{x}:generation", ledger, f"{ledger}:turns"], arguments)
            assert answer[1] == model.ask(name, alive=alive, wanted=asked, held=held, keep=keep, decision=number)
            again = await module._RESERVE(client, ["{x}:generation", ledger, f"{ledger}:turns"], arguments)
            assert again[1] == model.ask(name, alive=alive, wanted=asked, held=held, keep=keep, decision=number)
            assert keep or again[1] >= answer[1], "a replay takes nothing back"
            values = await client.hgetall(ledger)
            assert {
                key.decode(): int(value.split()[1]) for key, value in values.items() if key != b"#"
            } == model.granted
            rise = model.granted[name] - max(before.get(name, 0), alive)
            assert rise <= 0 or sum(model.granted.values()) <= limit


async def test_scarce_jobs_are_shared_evenly_once_they_come_free(rig):
    await rig.works("a", 9)
    assert [await rig.works(name, 9) for name in "bc"] == [0, 0]
    for alive in (5, 4, 3, 2, 1, 0):
        await rig.jobs_of("a", alive)
        for name in "abc":
            await rig.works(name, 9)
    assert rig.jobs == {"a": 2, "b": 2, "c": 2}


async def test_one_that_asks_a_hundred_times_as_often_gets_no_more_than_its_share(rig):
    """Its Jobs end one by one, and it is always there first when one does."""
    await rig.works("a", 99)
    await rig.works("b", 99)
    for _ in range(6):
        await rig.jobs_of("a", rig.jobs["a"] - 1 if rig.jobs["a"] > 3 else 3)
        for _ in range(100):
            await rig.works("a", 99)
        await rig.works("b", 99)
    assert rig.jobs["a"] + rig.jobs["b"] == 6
    assert rig.jobs["b"] == 3


async def test_what_one_does_not_want_the_others_may_have(rig):
    assert await rig.works("a", 1) == 1
    assert await rig.works("b", 9) == 5


async def test_a_remainder_of_fair_shares_is_granted(rig):
    rig.limit = 7
    for _ in range(3):
        for name in "abc":
            await rig.works(name, min(rig.jobs[name] + 1, 9))
    await rig.works("a", 9)
    assert sum(rig.jobs.values()) == 7


@given(order=st.lists(st.integers(0, 4), min_size=40, max_size=40), limit=st.integers(1, 3), most=st.integers(1, 3))
@settings(max_examples=15)
def test_who_is_always_busy_waits_for_its_turn(redis_server, order, limit, most):
    """Objects with Jobs that end at any time, each of which asks first as its own Job ends."""
    asyncio.run(_in_turns(redis_server, order, limit, most))


async def _in_turns(redis_server, order, limit, most):
    # The simulated one takes ten times as long for each of some thousand calls.
    async with clients.client(redis_server, client_name="tests") as client:
        await client.flushall()
        rig = LimitsRig(client, limit)
        await rig.follow()
        names = "abcde"
        waited = dict.fromkeys(names, 0)
        for name in names:
            await rig.add(name)
            await rig.works(name, most)
        await rig.works("a", most)
        for number in order:
            working = [name for name in names if rig.jobs[name]]
            assert sum(rig.jobs.values()) == limit, "what one leaves another takes"
            ending = working[number % len(working)]
            await rig.jobs_of(ending, rig.jobs[ending] - 1)
            before = dict(rig.jobs)
            await rig.works(ending, most)
            while woken := (await rig.lane.claim(10)).leases:
                await rig.lane.finish([(lease, Done()) for lease in woken])
                for lease in woken:
                    await rig.works(lease.key.rpartition("/")[2], most)
            waited = {name: 0 if rig.jobs[name] > before[name] else waited[name] + 1 for name in names}
            # Those that had Jobs before there was competition have had no turn yet.
            longest = len(names) + limit
            assert all(waited[name] < longest for name in names if not rig.jobs[name]), waited


async def test_who_wants_no_more_than_its_share_lets_the_others_go(rig):
    """Its turn would be kept free until its wish is forgotten."""
    rig.limit = 1
    for name in "abca":
        await rig.works(name, 5)
    await rig.jobs_of("a", 0)
    assert await rig.ask("a", 5) == 0
    await rig.lane.finish([(lease, Done()) for lease in (await rig.lane.claim(10)).leases])
    await rig.ask("b", 0)
    assert [lease.key.rpartition("/")[2] for lease in (await rig.lane.claim(10)).leases][:1] == ["c"]
    assert [await rig.ask(name, 5) for name in "ac"] == [0, 1]


async def test_of_many_that_wait_those_that_waited_longest_are_told(client):
    """A server that sorts and sends thousands of them keeps everybody else waiting."""
    ledgers = [("{x}:cap", 2, "one"), ("{x}:other", 3, "two")]
    turns = {}
    for ledger, _, label in ledgers:
        await client.hset(ledger, mapping={"#": "", "holder": "uid 2 2 1000000"})
        # Two had their turns at the same moment: names decide.
        turns[label] = {f"{label}-{n:03}": 1_000 + (n * 37 % 100) // 2 for n in range(100)}
        await client.hset(ledger, mapping=dict.fromkeys(turns[label], "uid 0 1 1000000"))
        await client.hset(f"{ledger}:turns", mapping={name: f"{us} 1" for name, us in turns[label].items()})
        await client.hset(f"{ledger}:turns", "gone", "1 1")
    names = ["{x}:generation", *(name for name, *_ in ledgers), *(f"{name}:turns" for name, *_ in ledgers)]
    answer = await module._RESERVE(client, names, [10**6, "holder", "uid", 0, 0, 0, 0, 60, 60, 9, 2, 3])
    longest = sorted(turns["one"], key=lambda name: (turns["one"][name], name))
    assert [name.decode() for name in answer[2]] == longest[:16]
    assert not await client.hexists("{x}:cap:turns", "gone")
    await client.hset("{x}:cap", mapping=dict.fromkeys(longest[5:], "uid 0 0 1000000"))
    await client.hset("{x}:cap", "holder", "uid 2 2 1000000")
    answer = await module._RESERVE(client, names, [10**6, "holder", "uid", 0, 0, 0, 0, 60, 60, 10, 2, 3])
    others = sorted(turns["two"], key=lambda name: (turns["two"][name], name))
    assert [name.decode() for name in answer[2]] == [*longest[:5], *others[:11]]


async def test_the_turn_of_an_object_that_is_gone_is_forgotten(rig, monkeypatch):
    monkeypatch.setattr(module, "RECOUNT", 0.0)
    rig.limit = 1
    for name in "aba":
        await rig.works(name, 5)
    turns = f"{KEYS.tag}:limit:{cap(1).id}:turns"
    assert await rig.client.hkeys(turns) == [Ref(SCALED_JOB, "default", "a").key.encode()]
    await rig.drop("a")
    for name in "bcb":
        await rig.works(name, 5)
    await rig.jobs_of("b", 0)
    await rig.works("b", 5)
    assert Ref(SCALED_JOB, "default", "a").key.encode() not in await rig.client.hkeys(turns)


async def set_back(rig, hours=1):
    """The broker's clock: what the ledgers say of moments lies as much ahead."""
    for ledger in await rig.client.keys(f"{KEYS.tag}:limit:*"):
        place = 0 if ledger.endswith(b":turns") else 3
        for key, value in (await rig.client.hgetall(ledger)).items():
            if key != b"#":
                words = value.split(b" ")
                words[place] = b"%d" % (int(words[place]) + hours * 3_600_000_000)
                await rig.client.hset(ledger, key, b" ".join(words))


async def test_a_clock_that_was_set_back_keeps_no_reservation_of_an_object_that_is_gone(rig, monkeypatch):
    monkeypatch.setattr(module, "RECOUNT", 0.0)
    await rig.works("a", 6)
    await rig.drop("a")
    await set_back(rig)
    assert await rig.ask("b", 6) == 0, "a plan of that time may still be under way"
    assert await rig.ask("b", 6) == 6


async def test_a_clock_that_was_set_back_keeps_nobody_from_its_turn(rig):
    rig.limit = 1
    for name in "aba":
        await rig.works(name, 5)
    await set_back(rig)
    had = []
    for _ in range(4):
        busy = next(name for name in "ab" if rig.jobs[name])
        await rig.jobs_of(busy, 0)
        for name in (busy, *"ab"):
            await rig.works(name, 5)
        had += [name for name in "ab" if rig.jobs[name]]
    assert set(had) == set("ab"), had


async def test_jobs_beyond_the_limit_stay_and_no_more_are_made(rig):
    await rig.jobs_of("a", 8)
    assert await rig.ask("a", 9) == 8
    assert await rig.ask("b", 1) == 0


async def test_several_limits_all_hold(rig):
    both = (cap(6), cap(2, "small"))
    assert await rig.ask("a", 5, caps=both) == 2
    assert await rig.ask("b", 9) == 4


async def test_a_ledger_that_was_lost_is_counted_again(rig):
    await rig.works("a", 4)
    await rig.client.delete(ledger := f"{KEYS.tag}:limit:{cap(6).id}")
    assert await rig.ask("b", 9) == 2
    held = {key.decode().rpartition("/")[2] for key in await rig.client.hkeys(ledger)}
    assert held == {"#", "a", "b"}, "c has no Jobs and wants none"
    assert module.KEPT - 60 < await rig.client.ttl(ledger) <= module.KEPT


async def test_a_count_tells_how_many_reservations_it_took_back(rig, monkeypatch):
    await rig.works("a", 4)
    await rig.ask("a", 6)
    assert await rig.reservations._recount(cap(6)) == 0, "the plan that reserved them may still create them"
    monkeypatch.setattr(module, "SETTLED", -1)
    assert await rig.reservations._recount(cap(6)) == 2


async def test_a_count_takes_back_no_reservation_of_an_object_that_came_while_it_counted(rig, monkeypatch):
    await rig.works("a", 3)
    slow = Reservations(rig.client, KEYS, rig.store, rig.lane, rig.notify, stale=3600)
    scan, granted = rig.store.scan, []

    async def scanned(kind):
        async for entry in scan(kind):
            yield entry
        if kind == SCALED_JOB and not granted:
            # All objects are counted; another one comes, whose plan begins to create its Jobs.
            await rig.add("new")
            granted.append(await rig.ask("new", 3))

    monkeypatch.setattr(rig.store, "scan", scanned)
    assert await slow._recount(cap(6)) == 0
    assert granted == [3]
    assert await rig.ask("b", 9) == 0


async def test_an_object_that_is_gone_holds_nothing(rig, monkeypatch):
    monkeypatch.setattr(module, "RECOUNT", 0.0)
    await rig.works("a", 6)
    assert await rig.ask("b", 3) == 0
    await rig.drop("a")
    assert await rig.ask("b", 3) == 3


async def test_a_reservation_that_was_never_used_is_held_until_it_is_settled(rig, monkeypatch):
    monkeypatch.setattr(module, "RECOUNT", 0.0)
    await rig.ask("a", 6)
    assert await rig.ask("b", 3) == 0
    monkeypatch.setattr(module, "SETTLED", -1)
    assert await rig.ask("b", 3) == 3


async def test_after_a_failure_nothing_is_given_back(rig):
    await rig.ask("a", 5)
    assert await rig.ask("a", 2, failures=1) == 2
    assert await rig.ask("b", 6) == 1


async def test_waiting_objects_are_marked_when_room_is_given_back_and_no_others(rig):
    await rig.works("c", 1)
    await rig.works("a", 5)
    await rig.ask("b", 2)
    claim = await rig.lane.claim(10)
    await rig.lane.finish([(lease, Done()) for lease in claim.leases])
    await rig.jobs_of("a", 3)
    await rig.ask("a", 3)
    marked = {lease.key for lease in (await rig.lane.claim(10)).leases}
    assert marked == {Ref(SCALED_JOB, "default", name).key for name in "ab"}, "a for its Jobs, b for the room"


async def test_what_cannot_be_seen_is_not_counted_as_nothing(fake_redis):
    rig = LimitsRig(fake_redis)
    rig.jobs["a"] = 0
    with pytest.raises(Stale):
        await rig.ask("a", 1)


async def _decide(rig, reservations, name, wanted, turns):
    """One worker's decisions on one object, each carried out a while after it was allowed."""
    for _ in range(turns):
        body = rig.body(SCALED_JOB, name)
        alive = rig.jobs[name]
        asked = LimitReservation((cap(rig.limit),), alive, max(alive, wanted))
        granted = await reservations.ask(Snapshot(Ref(SCALED_JOB, "default", name), body), asked)
        for number in range(alive + 1, granted + 1):
            # Others decide between one Job and the next.
            await asyncio.sleep(0)
            await rig.jobs_of(name, number)
            assert sum(rig.jobs.values()) <= rig.limit


@cases(("none", (0, 0)), ("one has all", (6, 0)), ("at it", (3, 3)), ("one left", (5, 0)))
async def test_two_objects_at_the_limit_with_many_workers_deciding_at_once(start, client):
    """Each object is in one hand at a time, as the queue has it, whichever worker's that is; all of them at once."""
    rig = LimitsRig(client, limit=6)
    await rig.follow()
    for name, alive in zip("ab", start, strict=True):
        await rig.add(name)
        await rig.jobs_of(name, alive)
    workers = [Reservations(client, KEYS, rig.store, rig.lane, rig.notify, stale=3600) for _ in range(2 * HANDS)]
    keeper = {name: asyncio.Lock() for name in "ab"}

    async def work(number, reservations):
        name = "ab"[number % 2]
        async with keeper[name]:
            await _decide(rig, reservations, name, 9, turns=2)

    await asyncio.gather(*(work(number, each) for number, each in enumerate(workers)))
    assert sum(rig.jobs.values()) == rig.limit
    # One Job of either ends: its room goes to somebody, and never to both.
    for name in "ab":
        if rig.jobs[name]:
            await rig.jobs_of(name, rig.jobs[name] - 1)
    await asyncio.gather(*(work(number, each) for number, each in enumerate(workers)))
    assert sum(rig.jobs.values()) == rig.limit


steps = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(["want", "end", "reserve", "lose", "go"]), st.integers(0, 9)),
    max_size=25,
)


async def _never_more(limit, steps):
    async with fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer(), version=(7,), socket_timeout=None) as client:
        rig = LimitsRig(client, limit)
        await rig.follow()
        reserved = {}
        for name, what, number in steps:
            if name not in rig.jobs:
                await rig.add(name)
            match what:
                case "want":
                    await rig.works(name, number)
                    reserved.pop(name, None)
                case "end":
                    await rig.jobs_of(name, min(number, rig.jobs[name]))
                case "reserve":
                    # A plan that is not carried out yet; its Jobs come later, in whole or in part, or never.
                    reserved[name] = await rig.ask(name, max(number, rig.jobs[name]))
                case "lose" if not reserved:
                    await client.delete(f"{KEYS.tag}:limit:{cap(limit).id}")
                case "go":
                    await rig.drop(name)
                    reserved.pop(name, None)
            assert sum(max(alive, reserved.get(of, 0)) for of, alive in rig.jobs.items()) <= limit


@given(limit=st.integers(0, 7), steps=steps)
@settings(max_examples=60)
def test_there_are_never_more_jobs_than_the_limit(limit, steps):
    asyncio.run(_never_more(limit, steps))
