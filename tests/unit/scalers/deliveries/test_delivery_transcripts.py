"""Transcripts of an EventJob's ledger: what its scripts answer and write, one poll after the other."""

from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis

from scalers.claimable import ClaimableItems
from tests.support.event_jobs import PolledEventJob, spec_of
from tests.support.keyspaces import KeyspaceTranscript
from workers.api import times
from workers.decision.claims import ClaimOrder, ClaimSettlement, How


class ToldEventJob:
    """An EventJob whose polls are added to a transcript."""

    def __init__(self, job: PolledEventJob) -> None:
        self.job = job
        self.transcript = KeyspaceTranscript(
            Path(__file__).parent / "transcripts", job.client, None, "{penstock}:", "events:default/"
        )

    async def told(self, call: str, answer: Awaitable[Any]) -> None:
        found = await answer
        if isinstance(found, ClaimableItems) and found.again is not None:
            # To whole minutes: the server's clock goes on.
            found = replace(found, again=round(found.again / 60) * 60)
        await self.transcript.after(call, found)

    async def push(self, *ids: str, **attributes: str) -> None:
        await self.job.push(*ids, **attributes)
        await self.transcript.look()

    async def poll(self, limit: int = 0, **more: Any) -> None:
        await self.told(f"poll {limit} {more or ''}".strip(), self.job.poll(limit, **more))

    async def settle(self, how: How, *ids: str, limit: int = 0, **fields: Any) -> None:
        shown = "".join(f" {name}={value}" for name, value in fields.items())
        await self.told(f"settle {' '.join(ids)} {how}{shown}", self.job.settle(how, *ids, limit=limit, **fields))

    async def change(self, verb: str, *ids: str) -> None:
        entries = [await self.job.entry(id) for id in ids]
        await self.told(f"{verb} {' '.join(ids)}", getattr(self.job.deliveries, verb)(self.job.uid, entries))


@pytest.fixture
def told(job: PolledEventJob) -> ToldEventJob:
    return ToldEventJob(job)


async def test_events_from_the_intake_to_every_end(told: ToldEventJob) -> None:
    told.job.spec = spec_of(history={"limit": 3})
    await told.push("a", "b", data="x")
    await told.push("c", "a", subject="s")
    await told.poll(3)
    await told.poll(3)
    await told.settle("retried", "a", attempt=1, delay=3_600_000, reason="exit 1", limit=1)
    await told.settle("returned", "b", limit=2)
    await told.settle("parked", "b", reason="no", limit=5)
    await told.settle("done", "c", limit=5)
    told.transcript.note("what users do")
    await told.change("drop", "a", "b")
    await told.change("replay", "b", "a", "c")
    await told.poll(2)
    told.transcript.note("settlements of claims that are others by now")
    stale = [ClaimSettlement(await told.job.entry(id), "done") for id in ("a", "b", "c")]
    await told.told("settle the first claims", told.job.poll(2, *stale))
    await told.settle("done", "b", "a", limit=1)
    await told.push("d", "e")
    await told.poll(5)
    await told.settle("done", *told.job.claims)
    assert told.transcript.text == told.transcript.expected("ends")


async def test_events_of_keys_run_one_after_the_other(told: ToldEventJob) -> None:
    told.job.spec = spec_of(concurrency={"total": 9, "orderingKey": "has(event.subject) ? event.subject : ''"})
    await told.push("a1", "a2", "a3", subject="a")
    await told.push("b1", subject="b")
    await told.push("free")
    await told.poll(9)
    await told.settle("parked", "a1", reason="no", limit=9)
    await told.settle("retried", "a2", attempt=1, delay=7_200_000, limit=9)
    await told.change("replay", "a1")
    await told.change("drop", "a2")
    await told.poll(9)
    await told.settle("done", "a3", limit=9)
    assert told.transcript.text == told.transcript.expected("ordering")


async def test_events_that_are_filtered_put_off_or_seen_before(told: ToldEventJob) -> None:
    told.job.spec = spec_of(
        filter={"exact": {"type": "placed"}},
        dedup={"key": "event.subject", "windowSeconds": 3600},
        delaySeconds=0,
        deadLetter={"limit": 2, "channel": "failures"},
    )
    later = times.render(times.parse("2026-01-01T00:00:00Z"))
    await told.push("a", "b", subject="same")
    await told.push("c", type="other")
    await told.push("d", subject="past", notbefore=later)
    await told.push("e", subject="never", notbefore="3026-01-01T00:00:00Z")
    await told.poll(9)
    await told.settle("parked", "a", reason="exit 1", limit=9)
    told.transcript.note("so many are parked that nothing is routed any more")
    await told.push("f", subject="new")
    await told.poll(9)
    await told.change("drop", "e")
    await told.poll(9)
    assert told.transcript.text == told.transcript.expected("routing")


async def test_jobs_of_a_rate_limit(told: ToldEventJob) -> None:
    told.job.spec = spec_of(rateLimit={"jobs": 1, "periodSeconds": 7200, "burst": 2})
    await told.push(*"abc")
    await told.poll(9)
    await told.settle("done", "a", limit=9)
    told.job.spec = spec_of(rateLimit={"jobs": 2, "periodSeconds": 7200, "burst": 1})
    await told.poll(9)
    told.job.spec = spec_of()
    await told.poll(9)
    told.transcript.note("a new limit, of which one event takes one")
    told.job.spec = spec_of(rateLimit={"jobs": 1, "periodSeconds": 7200, "burst": 5})
    await told.push("d")
    await told.poll(9)
    assert told.transcript.text == told.transcript.expected("rate_limit")


async def test_the_newest_keys_of_duplicates_are_remembered(told: ToldEventJob) -> None:
    told.job.spec = spec_of(dedup={"key": "event.subject", "limit": 2})
    for subject in ("a", "b", "c"):
        await told.push(subject, subject=subject)
    await told.poll()
    await told.push("again-a", subject="a")
    await told.push("again-c", subject="c")
    await told.poll()
    assert told.transcript.text == told.transcript.expected("newest_keys")


async def test_an_event_job_that_goes(told: ToldEventJob) -> None:
    other = PolledEventJob(told.job.client, uid="u2")
    await other.poll()
    await told.job.poll()
    await told.push("a", "b")
    await told.poll(1)
    await other.poll(1)
    await told.push("c")
    told.job.deleting = True
    await told.poll(0)
    await told.settle("returned", "a")
    await told.told("a late poll", told.job.carry_out(ClaimOrder(1, "events", 5)))
    await told.told("a poll that looks", told.job.carry_out(None))
    told.transcript.note("the other one goes by force")
    await other.poll(2)
    await told.transcript.look()
    await told.told("remove", other.deliveries.remove("u2"))
    assert told.transcript.text == told.transcript.expected("removal")


async def test_another_channel_takes_over(told: ToldEventJob, client: redis.Redis) -> None:
    await told.push("a")
    await told.poll(1)
    told.job.channel = "other"
    await told.push("b")
    await told.poll(9, bound=[told.job.claims["a"].id])
    assert told.transcript.text == told.transcript.expected("channels")
