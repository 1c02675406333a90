"""Values that a process has kept are not sent again, and what it observes is what a process without a memory does."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import fakeredis
import pytest
import redis.asyncio as redis_async
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.keys import Keys
from scheduler.scripts import Script, load
from tests.support.tables import cases
from tests.unit.workers.objects import job, scaled_job
from workers.api.kinds import JOB, SCALED_JOB, Kind, Object, ref_of
from workers.cache import observations
from workers.cache import store as store_module
from workers.cache.decode_cache import DecodeCache
from workers.cache.observations import Observation, ObserveRequest
from workers.cache.store import ObjectVersion, Store, StoreLost

OWNERS = (scaled_job("one", 1), scaled_job("two", 1))
REQUESTS = [ObserveRequest(ref_of(SCALED_JOB, owner), (JOB,)) for owner in OWNERS]
REQUESTS += [ObserveRequest(ref_of(SCALED_JOB, OWNERS[0]))]
NAMES = ("a", "b", "c", "d")
#: Children of the first owner from the beginning: enough for a mark in the log of children.
OTHERS = tuple(f"b{number:02d}" for number in range(20))

#: What happens: an object is put for an owner, deleted, or made again; the broker's clock moves (us); old tombstones
#: go; everything is listed again; an entry of an index, the log or the generation is lost; the process drops a value
#: that it kept; time for a look.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from((*NAMES, *OTHERS[:2])), st.integers(0, 1)),
        st.tuples(st.just("delete"), st.sampled_from((*NAMES, *OTHERS[:2])), st.just(0)),
        st.tuples(st.just("edit owner"), st.just(""), st.integers(0, 1)),
        st.tuples(st.just("clock"), st.just(""), st.sampled_from((0, 1, 1_000_000, -5_000_000))),
        st.tuples(st.just("look"), st.just(""), st.just(0)),
        st.tuples(st.just("lose"), st.sampled_from(NAMES), st.just(0)),
        *(st.tuples(st.just(what), st.just(""), st.just(0)) for what in ("expire", "list", "trim", "begin anew")),
        st.tuples(st.just("drop"), st.just(""), st.integers(0, 30)),
    ),
    max_size=40,
)


class Stores:
    """A store that remembers, and new ones on the same broker to compare it with.

    size: bytes that the first keeps. client: of the broker, one in memory by default.
    """

    def __init__(self, size: int, client: redis_async.Redis | None = None) -> None:
        self.client = client or fakeredis.FakeAsyncRedis(
            server=fakeredis.FakeServer(), version=(7,), socket_timeout=None
        )
        self.now = 1_700_000_000_000_000
        self.version = 10
        self.apart = 0
        self.store = self.another()
        self.store._values.decoded = DecodeCache(size)
        self.living: dict[str, Object] = {}

    def another(self) -> Store:
        return Store(self.client, Keys("test"), {SCALED_JOB.id: ()}, clock=lambda: self.now)

    async def put_owners(self, *names: str) -> None:
        """Puts the owners, and these children of the first."""
        await self.store.begin(JOB, 1)
        await self.store.apply(SCALED_JOB, [ObjectVersion(owner) for owner in OWNERS])
        for name in names:
            await self.step("put", name, 0)

    async def step(self, what: str, name: str, number: int) -> None:
        self.version += 1
        if what == "put":
            self.living[name] = job(name, self.version, uid=f"uid-{name}-{number}", owner=OWNERS[number])
            await self.store.apply(JOB, [ObjectVersion(self.living[name])])
            self.now += self.apart
        elif what == "delete" and (body := self.living.pop(name, None)):
            await self.store.apply(JOB, [ObjectVersion.gone(ref_of(JOB, body), body["metadata"]["uid"])])
        elif what == "edit owner":
            owner = OWNERS[number]
            metadata = {**owner["metadata"], "resourceVersion": str(self.version), "generation": self.version}
            await self.another().apply(SCALED_JOB, [ObjectVersion({**owner, "metadata": metadata})])
        elif what == "clock":
            self.now += number
        elif what == "expire":
            self.now += 700_000_000
            # Without its generation the store has to be filled first.
            with suppress(StoreLost):
                await self.store.touch(JOB, 1, None)
        elif what == "list":
            listing = await self.store.begin(JOB, 1)
            await self.store.apply(JOB, [ObjectVersion(body) for body in self.living.values()], listing=listing)
            await self.store.finish(listing, {"": str(self.version)})
        elif what == "lose":
            owners = self.store.keys.owners(JOB.id)
            await self.client.zrem(owners, *(f"{owner['metadata']['uid']} default/{name}" for owner in OWNERS))
        elif what == "lose others":
            await self.client.zrem(self.store.keys.owners(JOB.id), f"{OWNERS[0]['metadata']['uid']} default/b07")
        elif what == "trim":
            await self.client.xtrim(self.store.keys.child_log(JOB.id), 1, approximate=False)
        elif what == "begin anew":
            await self.client.delete(self.store.keys.keys.generation)
        elif what == "drop" and (kept := self.store._values.decoded._kept):
            del kept[sorted(kept)[number % len(kept)]]
        elif what == "look":
            await self.compare()

    async def compare(self) -> None:
        assert await self.observed(self.store) == await self.observed(self.another())

    async def observed(self, store: Store) -> list[Observation]:
        return list((await store.observe(REQUESTS)).observations)


@given(
    steps=STEPS,
    others=st.sampled_from(((), OTHERS)),
    size=st.sampled_from((1 << 20, 4_000, 900)),
    answer=st.sampled_from((8 << 20, 1)),
)
@example(
    answer=8 << 20,
    size=4_000,
    others=(),
    steps=[("put", "a", 0), ("look", "", 0), ("clock", "", -5_000_000), ("put", "a", 0)],
)
@example(
    answer=8 << 20,
    size=1 << 20,
    others=OTHERS,
    steps=[
        ("put", "c", 0),
        ("look", "", 0),
        ("lose", "c", 0),
        ("delete", "b00", 0),
        ("expire", "", 0),
        ("list", "", 0),
    ],
)
@example(
    answer=8 << 20,
    size=1 << 20,
    others=(),
    steps=[("put", "a", 0), ("look", "", 0), ("delete", "a", 0), ("put", "a", 1), ("look", "", 0)],
)
def test_a_process_that_remembers_observes_what_one_without_a_memory_does(
    steps: list[tuple[str, str, int]], others: tuple[str, ...], size: int, answer: int
) -> None:
    async def run() -> None:
        stores = Stores(size)
        await stores.put_owners(*others)
        for step in steps:
            await stores.step(*step)
        await stores.compare()
        await stores.compare()

    # A property's examples share a fixture of pytest.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observations, "ANSWER", answer)
        asyncio.run(run())


@pytest.fixture
async def stores() -> Stores:
    return await beginning(Stores(1 << 20))


async def beginning(made: Stores) -> Stores:
    """Returns the stores with their owners, and a clock that goes on with each object."""
    made.apart = 1
    await made.put_owners()
    return made


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The answers of the script, in order."""
    return meanwhile(monkeypatch)


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, after: int = 0, act: Callable[[], Awaitable[object]] | None = None
) -> list[Any]:
    """Returns the list of the script's answers as they come. act: what happens before the caller has answer `after`."""
    seen: list[Any] = []
    script = observations._SCRIPT

    async def call(*args: Any) -> Any:
        answer = await script(*args)
        seen.append(answer[2])
        if act and len(seen) == after:
            await act()
        return answer

    monkeypatch.setattr(observations, "_SCRIPT", call)
    return seen


def _sizes(answer: Any) -> dict[bytes, int]:
    """Returns the bytes of each child's value in the answer for the first request."""
    _, (_, _, *flat) = answer[0]
    return {name: len(value) for name, value in zip(flat[0::2], flat[1::2], strict=True)}


async def test_of_what_was_kept_only_the_head_is_sent(stores: Stores, answers: list[Any]) -> None:
    for name in NAMES:
        await stores.step("put", name, 0)
    await stores.observed(stores.store)
    await stores.step("put", "b", 0)
    await stores.observed(stores.store)
    await stores.observed(stores.store)
    first, second, third = map(_sizes, answers)
    assert {name for name in first if second[name] < 60} == {b"default/a", b"default/c", b"default/d"}
    assert second[b"default/b"] == first[b"default/b"]
    assert all(size < 60 for size in third.values())
    # The owner's own value, too.
    assert len(answers[2][0][0]) < 60 < len(answers[0][0][0])


async def test_what_is_not_kept_any_more_is_asked_for_whole_at_once(stores: Stores, answers: list[Any]) -> None:
    for name in NAMES:
        await stores.step("put", name, 0)
    await stores.observed(stores.store)
    stores.store._values.decoded._kept.clear()
    await stores.observed(stores.store)
    first, second = map(_sizes, answers)
    assert first == second


def forget(stores: Stores, *fields: tuple[Kind, str]) -> None:
    """Makes the process keep these values no longer, but those that were read before them."""
    for kind, name in fields:
        del stores.store._values.decoded._kept[kind.id, f"default/{name}".encode()]


async def test_values_that_are_not_kept_any_more_are_read_again_all_at_once(stores: Stores, answers: list[Any]) -> None:
    for number, (first, second) in enumerate((("a", "b"), ("c", "d"))):
        await stores.step("put", first, number)
        await stores.step("put", second, number)
    await stores.observed(stores.store)
    forget(stores, (JOB, "b"), (JOB, "d"))
    observed = await stores.observed(stores.store)
    assert len(answers) == 3, "all objects once, and once more those of which a value is missing, together"
    _, heads, whole = answers
    assert [len(answer[0][1]) - 2 for answer in answers] == [4, 4, 4]
    assert max(_sizes(heads).values()) < 60 < min(_sizes(whole).values())
    assert min(_sizes(whole[1:]).values()) > 60
    assert observed == await stores.observed(stores.another())


async def test_an_object_is_not_read_later_than_what_was_asked_for_after_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stores.step("put", "a", 0)
    await stores.step("put", "b", 0)
    await stores.observed(stores.store)
    forget(stores, (JOB, "b"))
    calls = meanwhile(monkeypatch, 1, lambda: stores.step("put", "c", 0))
    first, _, last = await stores.observed(stores.store)
    assert len(calls) == 2
    # The last request asks for the first owner without its children.
    assert len(first.children[JOB.id]) == 3
    assert last.entry == first.entry


async def test_of_children_that_did_not_change_for_a_while_only_heads_are_sent_when_all_are_read_again(
    crowd: Stores, answers: list[Any]
) -> None:
    of = (JOB, OWNERS[0]["metadata"]["uid"])
    for step in ("look", "look", "trim", "look"):
        if step == "trim":
            await crowd.step("put", "b00", 1)
            await crowd.step("trim", "", 0)
            answers.clear()
        else:
            await crowd.store.children_many([of])
    assert _names(answers[-1]) == sorted(OTHERS[1:])
    assert max(_sizes(answers[-1]).values()) < 60


async def test_what_two_calls_read_at_once_and_is_not_kept_any_more_is_no_garbage(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stores.step("put", "a", 0)
    await stores.step("put", "b", 0)
    await stores.observed(stores.store)
    forget(stores, (JOB, "b"))
    script, asked = observations._SCRIPT, asyncio.Barrier(2)

    async def call(*args: Any) -> Any:
        answer = await script(*args)
        await asked.wait()
        return answer

    monkeypatch.setattr(observations, "_SCRIPT", call)
    # The first answer makes the process forget that it has read this, while the second one is under way.
    both = await asyncio.gather(stores.observed(stores.store), stores.observed(stores.store))
    monkeypatch.undo()
    assert both == [await stores.observed(stores.another())] * 2
    assert not await stores.client.exists(stores.store.keys.unreadable)


async def test_values_that_cannot_be_kept_side_by_side_are_sent_each_time(stores: Stores, answers: list[Any]) -> None:
    stores.store._values.decoded = DecodeCache(size=900)
    for name in NAMES:
        await stores.step("put", name, 0)
    for _ in range(3):
        await stores.observed(stores.store)
    assert len(answers) == 3
    assert all(size > 60 for answer in answers for size in _sizes(answer).values())


async def test_garbage_that_one_call_meets_makes_its_kind_unknown_though_another_call_sets_it_aside(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stores.step("list", "", 0)
    await stores.step("put", "a", 0)
    await stores.store.touch(JOB, 1, await stores.store.touch(JOB, 1, None))
    assert (await stores.store.freshness([JOB]))[JOB.id] == 0
    await stores.client.hset(stores.store.keys.objects(JOB.id), "default/a", b"garbage")
    monkeypatch.setattr(observations, "ANSWER", 1)
    # Another call ends while this one asks for the rest.
    calls = meanwhile(monkeypatch, 2, lambda: stores.store.get_many([ref_of(SCALED_JOB, OWNERS[0])]))
    seen = await stores.store.observe(REQUESTS[:2])
    assert len(calls) == 2
    assert seen.ages[JOB.id] is None
    assert not seen.observations[0].children[JOB.id]


@pytest.mark.parametrize("garbage", [b"", b"12 ", b"7 8 ", b"no value at all "])
async def test_garbage_is_not_taken_for_the_head_of_a_value(garbage: bytes, stores: Stores) -> None:
    await stores.step("put", "a", 0)
    await stores.step("put", "b", 0)
    await stores.observed(stores.store)
    await stores.client.hset(stores.store.keys.objects(JOB.id), "default/a", garbage)
    observed, *_ = await stores.observed(stores.store)
    assert [entry.ref.name for entry in observed.children[JOB.id]] == ["b"]
    assert await stores.client.hget(stores.store.keys.unreadable, f"{JOB.id}/default/a") == garbage


# --- the log of children


def _names(answer: Any) -> list[str]:
    """Returns the names of the children that an answer has for the first request."""
    return sorted(name.decode().partition("/")[2] for name in _sizes(answer))


@pytest.fixture
async def crowd(stores: Stores, answers: list[Any]) -> Stores:
    """The first owner has many children, and they were read."""
    for name in OTHERS:
        await stores.step("put", name, 0)
    await stores.observed(stores.store)
    answers.clear()
    return stores


async def test_of_many_children_only_those_that_changed_are_sent(crowd: Stores, answers: list[Any]) -> None:
    await crowd.step("put", "b03", 0)
    await crowd.step("put", "a", 0)
    await crowd.step("put", "b04", 1)
    await crowd.step("delete", "b05", 0)
    await crowd.compare()
    assert _names(answers[0]) == ["a", "b03", "b04", "b05"]
    assert _sizes(answers[0])[b"default/b04"] == 0, "it has left"
    await crowd.compare()
    assert _names(answers[2]) == []


@cases(
    ("more changed than there are children", ("put", "b00", 0), 40),
    ("the log was cut", ("trim", "", 0), 1),
    ("a new generation began", ("begin anew", "", 0), 1),
    ("an entry of the index is lost", ("lose others", "", 0), 1),
)
async def test_all_children_are_read_where_the_log_does_not_tell(
    step: tuple[str, str, int], times: int, crowd: Stores, answers: list[Any]
) -> None:
    await crowd.step("put", "b01", 0)
    for _ in range(times):
        await crowd.step(*step)
    await crowd.compare()
    # The last answer is that of the process without a memory.
    assert _names(answers[-2]) == _names(answers[-1]) != ["b01"]


async def test_as_many_children_of_an_owner_that_was_made_again_are_not_taken_for_those_of_the_first(
    crowd: Stores, answers: list[Any]
) -> None:
    again = {**OWNERS[0], "metadata": {**OWNERS[0]["metadata"], "uid": "another", "resourceVersion": "999"}}
    children = [job(f"z{number}", 500 + number, uid=f"uid-z{number}", owner=again) for number in range(len(OTHERS))]
    await crowd.store.apply(JOB, [ObjectVersion(body) for body in children])
    await crowd.compare()
    await crowd.store.apply(SCALED_JOB, [ObjectVersion(again)])
    await crowd.compare()
    assert _names(answers[-1]) == sorted(body["metadata"]["name"] for body in children)


async def test_the_log_keeps_the_newest_entries_only(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    text = load("workers", "apply").replace("CHILD_LOG = 10000", "CHILD_LOG = 5")
    monkeypatch.setitem(store_module._SCRIPTS, "apply", Script(text))
    await stores.store.apply(JOB, [ObjectVersion(job(f"n{each}", 5, owner=OWNERS[0])) for each in range(250)])
    log = await stores.client.xrange(stores.store.keys.child_log(JOB.id))
    # A server trims its stream by a hundred entries or so at once.
    assert 5 <= len(log) < 150
    assert log[-1][1] == {b"child": b"uid-one default/n249"}
