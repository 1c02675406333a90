"""Transcripts of the scripts that hand readings and orders over, reserve Jobs, and log decisions."""

from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from scheduler.keys import Keys
from scheduler.scripts import Script, load
from tests.support.keyspaces import KeyspaceTranscript

KEYS = Keys("test")
LANE = KEYS.lane("reconcile").all()
SECOND = 1_000_000
A, B = (f"scaledjobs.keda.sh/default/{name}" for name in "ab")
Argument = str | int | float


class ToldScripts:
    """Scripts on a clock of their own, whose calls are added to a transcript."""

    def __init__(self, client: Redis) -> None:
        self.client: Any = client
        self.now = 1_700_000_000 * SECOND
        self.decisions = 0
        self.transcript = KeyspaceTranscript(
            Path(__file__).parent / "transcripts",
            client,
            lambda: self.now,
            *("{test}:lane:", "{test}:", "scaledjobs.keda.sh/default/"),
        )

    async def call(self, name: str, keys: list[str], *arguments: Argument, told: str = "") -> Any:
        """Calls a script; its first argument is the clock."""
        answer = await Script(load("workers", name))(self.client, keys, [self.now, *arguments])
        shown = told or " ".join(map(str, arguments))
        await self.transcript.after(f"{name} {shown}", answer)
        return answer

    async def reading(self, *readings: tuple[str, int, str, str]) -> None:
        await self.call("readings", ["{test}:readings", *LANE], 2, *(part for one in readings for part in one))

    async def reserve(self, key: str, alive: int, wanted: int, *limits: int, held: int = 0, keep: bool = False) -> None:
        ledgers = [f"{{test}}:ledger:{place}" for place in range(len(limits))]
        keys = ["{test}:generation", *ledgers, *(f"{ledger}:turns" for ledger in ledgers)]
        self.decisions += 1
        arguments = (key, f"uid-{key[-1]}", alive, wanted, held, "1" if keep else "0", 600, 30, self.decisions, *limits)
        await self.call("reserve", keys, *arguments, told=f"{key} {alive=} {wanted=} {held=} {keep=} of {limits}")

    async def recount(self, ledger: int, *counted: tuple[str, str, int]) -> None:
        """A recount that counts after all that was reserved."""
        keys = ["{test}:generation", f"{{test}}:ledger:{ledger}"]
        parts = [part for one in counted for part in one]
        await self.call("recount", keys, 5, 600, self.now + 1, *parts, told=f"{ledger} {' '.join(map(str, parts))}")


@pytest.fixture
async def scripts(fake_redis: Redis) -> ToldScripts:
    scripts = ToldScripts(fake_redis)
    await fake_redis.set("{test}:generation", "g1 - 0")
    await scripts.transcript.look()
    return scripts


async def test_readings_and_orders_mark_the_object(scripts: ToldScripts) -> None:
    await scripts.reading((A, 100, "1", "{a}"), (B, 101, "0", "{b}"))
    await scripts.reading((A, 99, "1", "{late}"), (B, 101, "1", "{b again}"))
    scripts.transcript.note("what fails stays in its backoff")
    await scripts.client.delete(*LANE[:2])
    await scripts.client.hset(KEYS.lane("reconcile").of("failures"), A, "2 refused")
    await scripts.client.zadd(LANE[3], {A: scripts.now + 9 * SECOND})
    await scripts.client.hset("{test}:readings", B, "garbage")
    await scripts.transcript.look()
    await scripts.reading((A, 102, "1", "{a}"), (B, 1, "1", "{b}"))
    orders = ["{test}:orders", *LANE]
    await scripts.call("order", orders, 2, B, 50, "{order}")
    await scripts.client.delete(*LANE[:2])
    await scripts.transcript.look()
    await scripts.call("order", orders, 2, B, 49, "{late}")
    await scripts.call("order", orders, 2, A, 1, "{of what fails}")
    await scripts.call("order", orders, 2, B, 50, "{again}")
    assert scripts.transcript.text == scripts.transcript.expected("handed_over")


async def test_a_limit_is_shared(scripts: ToldScripts) -> None:
    a, b, c = A, B, "scaledjobs.keda.sh/default/c"
    await scripts.reserve(a, 0, 3, 6)
    await scripts.recount(0, (a, "uid-a", 0), (b, "uid-b", 2))
    await scripts.reserve(a, 0, 9, 6)
    await scripts.reserve(b, 2, 9, 6)
    await scripts.reserve(c, 0, 1, 6)
    scripts.transcript.note("the first is asked again, and gives back what others may have, but no claimed items")
    await scripts.reserve(a, 1, 9, 6, held=4)
    await scripts.reserve(a, 1, 9, 6)
    await scripts.reserve(c, 0, 1, 6)
    await scripts.reserve(b, 2, 9, 6)
    scripts.transcript.note("a limit that became lower, and a time in which nothing is given back")
    await scripts.reserve(a, 1, 9, 3, held=3)
    await scripts.reserve(a, 1, 0, 6, keep=True)
    await scripts.reserve(a, 1, 0, 6)
    scripts.transcript.note("what others wanted half a minute ago counts no more")
    scripts.now += 31 * SECOND
    await scripts.reserve(a, 1, 9, 6)
    scripts.transcript.note("another object of that name")
    await scripts.client.hset("{test}:ledger:0", c, f"another 4 4 {scripts.now}")
    await scripts.transcript.look()
    await scripts.reserve(c, 0, 9, 9)
    assert scripts.transcript.text == scripts.transcript.expected("shared_limit")


async def test_one_of_several_may_have_one_more_than_the_others(scripts: ToldScripts) -> None:
    a, b, c = A, B, "scaledjobs.keda.sh/default/c"
    await scripts.recount(0)
    await scripts.reserve(a, 0, 9, 3)
    await scripts.reserve(c, 0, 9, 3)
    scripts.transcript.note("two each, and the seventh has the first already")
    await scripts.reserve(b, 0, 9, 7)
    await scripts.reserve(c, 0, 9, 7)
    await scripts.reserve(a, 0, 9, 7)
    assert scripts.transcript.text == scripts.transcript.expected("one_more")


async def test_of_two_limits_the_lower_counts(scripts: ToldScripts) -> None:
    for ledger in (0, 1):
        await scripts.recount(ledger)
    await scripts.reserve(A, 0, 9, 6, 4)
    await scripts.reserve(B, 0, 9, 6, 4)
    await scripts.reserve(A, 2, 9, 6, 4)
    await scripts.reserve(B, 0, 9, 6, 4)
    await scripts.client.hset("{test}:ledger:1", "x", "garbage")
    await scripts.transcript.look()
    await scripts.reserve(B, 0, 9, 6, 4)
    await scripts.recount(1, (A, "uid-a", 2))
    await scripts.reserve(B, 0, 9, 6, 4)
    assert scripts.transcript.text == scripts.transcript.expected("two_limits")


async def test_a_ledger_is_brought_in_line(scripts: ToldScripts) -> None:
    await scripts.recount(0, (A, "uid-a", 2), (B, "uid-b", 0))
    await scripts.reserve(A, 2, 5, 9)
    await scripts.reserve(B, 0, 3, 9)
    scripts.transcript.note("plans may be under way")
    scripts.now += 5 * SECOND
    await scripts.recount(0, (A, "uid-a", 3), (B, "uid-b", 0))
    scripts.transcript.note("they are over; one is another object, one is gone, one has as many as are reserved")
    scripts.now += 1
    await scripts.recount(0, (A, "uid-a", 3), (B, "uid-other", 1))
    await scripts.recount(0, (A, "uid-a", 3), (B, "uid-other", 1))
    await scripts.recount(0, (A, "", 0), (B, "", 1))
    await scripts.recount(0, (A, "", 0), (B, "", 0))
    scripts.transcript.note("one that has none, and is there")
    c = "scaledjobs.keda.sh/default/c"
    await scripts.reserve(c, 0, 2, 9)
    scripts.now += 6 * SECOND
    await scripts.recount(0, (c, "uid-c", 0))
    scripts.transcript.note("of another generation")
    await scripts.client.set("{test}:generation", "g2 - 7")
    await scripts.reserve(A, 0, 5, 9)
    await scripts.recount(0, (A, "uid-a", 1))
    assert scripts.transcript.text == scripts.transcript.expected("recounted")


async def test_decisions_are_logged_newest_first(scripts: ToldScripts) -> None:
    async def note(*decisions: tuple[str, str, str, str], most: int = 2, objects: int = 2) -> None:
        keys = ["{test}:decisions", *(f"{{test}}:decisions:{name}" for name, *_ in decisions)]
        parts = [part for _, *rest in decisions for part in rest]
        await scripts.call("decisions", keys, most, objects, 600, *parts)

    words = "w" * 16
    await note(("a", f"{words}.1", "0", "first"), ("b", "x", "1", "of b"))
    scripts.now += SECOND
    await note(("a", f"{words}.1", "0", "the same"))
    await note(("a", f"{words}.2", "0", "other figures"))
    await note(("a", f"{words}.1", "1", "the same, and it changed something"))
    await note(("a", f"{words}.2", "1", "other figures, and it changed something"))
    await note(("a", "y", "0", "other words"))
    scripts.now += SECOND
    await note(("c", "z", "0", "a third object"))
    scripts.now += SECOND
    await note(("d", "z", "0", "a fourth object"), objects=1)
    assert scripts.transcript.text == scripts.transcript.expected("decisions")
