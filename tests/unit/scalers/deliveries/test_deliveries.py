"""Deliveries as people read and change them."""

import orjson
import pytest

from penstock.client import beside
from scalers.deliveries import deliveries
from scalers.deliveries.delivery import DeliveryFilter, DeliveryState
from tests.support.event_jobs import KEYS, MUCH_LATER, PolledEventJob, event_of, spec_of
from tests.support.tables import cases, for_each
from workers.api import times
from workers.controllers.eventjob import jobs


async def read(job: PolledEventJob, limit: int, **filter: object) -> list[list[str]]:
    """The ids of every page."""
    pages, after = [], None
    while True:
        page = await job.deliveries.page(job.uid, DeliveryFilter(**filter), after, limit)  # type: ignore[arg-type]
        pages.append([each.attributes["id"] for each in page.deliveries])
        if (after := page.after) is None:
            return pages


async def test_pages_are_read_newest_first_through_all_states(job: PolledEventJob) -> None:
    await job.push(*"abcdefg")
    await job.poll(3)
    await job.settle("done", "a")
    await job.settle("parked", "b")
    assert await read(job, 3) == [["g", "f", "e"], ["d", "c", "b"], ["a"]]
    assert await read(job, 100, states=frozenset[DeliveryState]({"parked", "running"})) == [["c", "b"]]


async def test_pages_neither_skip_nor_repeat_what_changes_meanwhile(job: PolledEventJob) -> None:
    await job.push(*"abcd")
    await job.poll(4)
    first = await job.deliveries.page(job.uid, limit=2)
    await job.settle("done", "b", "c")
    await job.push("e")
    await job.poll()
    rest = await job.deliveries.page(job.uid, after=first.after, limit=5)
    assert [each.attributes["id"] for each in (*first.deliveries, *rest.deliveries)] == ["d", "c", "b", "a"]


async def test_a_running_delivery_names_the_job_that_its_claim_gets(job: PolledEventJob) -> None:
    owner = {"name": "orders", "uid": job.uid}

    async def named() -> list[str | None]:
        page = await job.deliveries.page(job.uid)
        return [each.job("orders", job.uid) for each in reversed(page.deliveries)]

    await job.push(*"abc")
    await job.poll(2)
    assert await named() == [jobs.name(owner, job.claims["a"]), jobs.name(owner, job.claims["b"]), None]
    await job.settle("retried", "a", attempt=1, limit=2)
    await job.settle("returned", "b", limit=2)
    await job.poll(3)
    assert await named() == [jobs.name(owner, job.claims[id]) for id in "abc"]
    assert [(await job.deliveries.of_event(job.uid, id))[0].claim for id in "abc"] == [
        (job.claims[id].id, attempt) for id, attempt in (("a", 1), ("b", 0), ("c", 0))
    ]


async def test_a_page_ends_where_the_last_delivery_does(job: PolledEventJob) -> None:
    await job.push(*"ab")
    await job.poll()
    assert await read(job, 2) == [["b", "a"]]


async def test_pages_go_on_behind_what_one_script_looks_at(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LOOK", 2)
    await job.push("wanted", type="rare")
    await job.push(*"abcd")
    await job.poll()
    assert await read(job, 100, type="rare") == [["wanted"]]
    monkeypatch.setattr(deliveries, "SCRIPTS", 1)
    assert await read(job, 100, type="rare") == [[], [], ["wanted"]]


async def test_a_delivery_that_goes_meanwhile_is_left_out_without_a_word(
    job: PolledEventJob, caplog: pytest.LogCaptureFixture
) -> None:
    """Its record and its attributes are in two hashes."""
    await job.push("a", "b")
    await job.poll(2)
    await job.client.hdel(KEYS.deliveries(job.uid).of("attributes"), job.claims["a"].id)
    assert await read(job, 5) == [["b"]]
    assert not caplog.records


@cases(
    ("a state that is none", {"s": "lost"}, {"id": "a"}),
    ("an attribute that is no text", {"s": "waiting"}, {"id": 5}),
    ("no state", {}, {"id": "a"}),
    ("no object", [], {"id": "a"}),
)
async def test_a_delivery_that_cannot_be_read_is_left_out(
    record: object, attributes: object, job: PolledEventJob, caplog: pytest.LogCaptureFixture
) -> None:
    await job.push("a", "b")
    await job.poll(2)
    entry, keys = job.claims["a"].id, KEYS.deliveries(job.uid)
    await job.client.hset(keys.of("records"), entry, orjson.dumps(record))  # type: ignore[misc]
    await job.client.hset(keys.of("attributes"), entry, orjson.dumps(attributes))  # type: ignore[misc]
    assert await read(job, 5) == [["b"]]
    [said] = caplog.records
    assert said.message == "a delivery that cannot be read is left out"


async def test_since_and_until_bound_the_arrival(job: PolledEventJob) -> None:
    await job.push("a")
    await job.poll()
    [first] = await job.deliveries.of_event(job.uid, "a")
    assert await read(job, 5, since=first.arrived) == [["a"]]
    assert await read(job, 5, since=first.arrived + 1) == [[]]
    assert await read(job, 5, until=first.arrived) == [[]]
    assert await read(job, 5, until=first.arrived + 1) == [["a"]]


async def test_a_delivery_tells_its_attempts(job: PolledEventJob) -> None:
    await job.push("1", subject="s", data="x")
    job.spec = spec_of(concurrency={"orderingKey": "event.subject"})
    await job.poll(1)
    await job.settle("retried", "1", attempt=1, reason="exit 1", limit=1)
    await job.settle("done", "1")
    entry = await job.entry("1")
    found = await job.deliveries.get(job.uid, entry)
    assert found is not None
    assert [(each.job, each.outcome, each.reason) for each in found.attempts] == [
        ("job-1", "failed", "exit 1"),
        ("job-1", "done", ""),
    ]
    assert (found.entry, found.key, found.data, found.state) == (entry, "s", "x", "done")
    assert found.arrived <= found.attempts[0].ended <= found.attempts[1].ended
    assert await job.deliveries.get(job.uid, "1-1") is None


async def test_a_delivery_tells_its_newest_fifty_attempts(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll(1)
    for number in range(52):
        await job.settle("returned", "1", reason=str(number), limit=1)
    [found] = await job.deliveries.of_event(job.uid, "1")
    assert [each.reason for each in found.attempts] == [str(number) for number in range(2, 52)]


async def test_a_change_that_meets_no_delivery_wakes_nobody(job: PolledEventJob) -> None:
    await job.push("1")
    await job.poll(1)
    entry, asked = await job.entry("1"), KEYS.deliveries(job.uid).of("asked")
    assert (await job.deliveries.replay(job.uid, [entry]), await job.client.exists(asked)) == (0, 0)
    await job.settle("done", "1")
    assert (await job.deliveries.replay(job.uid, [entry]), await job.client.exists(asked)) == (1, 1)


async def test_an_event_is_found_by_its_id_and_its_source(job: PolledEventJob) -> None:
    await job.push("1", source="/a")
    await job.push("1", source="/b")
    await job.poll()
    assert [each.attributes["source"] for each in await job.deliveries.of_event(job.uid, "1")] == ["/b", "/a"]
    assert [each.attributes["source"] for each in await job.deliveries.of_event(job.uid, "1", "/a")] == ["/a"]
    assert await job.deliveries.of_event(job.uid, "2") == ()


@for_each(("waiting", 0, 1), ("running", 0, 0), ("retrying", 0, 1), ("parked", 1, 1), ("done", 1, 0), ("dropped", 1, 0))
async def test_each_verb_changes_only_deliveries_in_its_states(
    state: DeliveryState, replayed: int, dropped: int, job: PolledEventJob
) -> None:
    for verb, number in (("replay", replayed), ("drop", dropped)):
        await job.push(verb)
        await job.poll(0 if state in ("waiting", "dropped") else 1)
        entry = await job.entry(verb)
        if state == "dropped":
            await job.deliveries.drop(job.uid, [entry])
        elif state == "retrying":
            await job.settle("retried", verb, attempt=1, delay=60_000)
        elif state in ("parked", "done"):
            await job.settle(state, verb)  # type: ignore[arg-type]
        assert await getattr(job.deliveries, verb)(job.uid, [entry]) == number
        found = await job.deliveries.get(job.uid, entry)
        assert found is not None
        assert found.state == ({"replay": "waiting", "drop": "dropped"}[verb] if number else state)
        await job.deliveries.remove(job.uid)


async def test_replayed_events_run_in_the_order_of_their_arrival(job: PolledEventJob) -> None:
    await job.push(*"abc")
    await job.poll(3)
    await job.settle("parked", *"cab")
    entries = [await job.entry(id) for id in "bca"]
    assert await job.deliveries.replay(job.uid, entries) == 3
    await job.poll(2)
    assert list(job.claims) == ["a", "b"]


async def test_the_export_has_data(job: PolledEventJob) -> None:
    await job.push("1", data="x")
    await job.push("2")
    await job.poll()
    found = [(each.attributes["id"], each.data) async for each in job.deliveries.export(job.uid)]
    assert found == [("2", None), ("1", "x")]


async def test_counts_are_those_of_the_ledger(job: PolledEventJob) -> None:
    job.spec = spec_of(filter={"exact": {"type": "placed"}}, dedup={"key": "event.subject"})
    await job.push(*"abcd")
    await job.push("e", "f", subject="same")
    await job.push("g", type="other")
    await job.push("h", notbefore=MUCH_LATER)
    job.spec = spec_of(
        filter={"exact": {"type": "placed"}}, dedup={"key": "has(event.subject) ? event.subject : event.id"}
    )
    await job.poll(4)
    await job.settle("done", "a")
    await job.settle("parked", "b")
    found = await job.settle("retried", "c", attempt=1, delay=60_000)
    counts = await job.deliveries.counts(job.uid)
    assert counts.model_dump() == found.counts
    assert found.counts == {
        **{"waiting": 1, "delayed": 1, "running": 1, "retrying": 1, "parked": 1},
        **{"done": 1, "filtered": 1, "duplicates": 1},
    }


async def test_an_event_job_that_was_never_polled_has_no_deliveries(job: PolledEventJob) -> None:
    assert await read(job, 5) == [[]]
    assert await job.deliveries.replay(job.uid, ["1-1"]) == 0
    assert (await job.deliveries.counts(job.uid)).waiting == 0
    await job.deliveries.remove(job.uid)
    assert await job.client.keys() == []


async def test_data_that_are_no_text_are_kept_in_base64(job: PolledEventJob) -> None:
    await job.client.xadd(
        job.intake, {b"specversion": "1.0", b"id": "1", b"source": "/s", b"type": "t", b"data": b"\xff\x00"}
    )
    await job.poll(1)
    [claim] = job.claims.values()
    assert '"data_base64":"/wA="' in (claim.item or "")
    assert await job.client.hget(KEYS.deliveries(job.uid).of("data"), await job.entry("1")) == b"b/wA="
    found = await job.deliveries.get(job.uid, claim.id)
    assert found is not None
    assert (found.data, found.is_base64) == ("/wA=", True)


async def test_a_delivery_that_waits_for_its_time_tells_it(job: PolledEventJob) -> None:
    await job.push("now", data="x")
    await job.push("later", notbefore=MUCH_LATER)
    await job.poll()
    now, later = [(await job.deliveries.of_event(job.uid, id))[0] for id in ("now", "later")]
    assert (now.due, now.is_base64) == (0, False)
    assert later.due == times.parse(MUCH_LATER).timestamp() * 1e6


async def test_entries_are_changed_in_the_order_of_their_numbers(job: PolledEventJob) -> None:
    accepted = beside(job.intake, "accepted")
    await job.poll()
    for number in (9, 10, 100):
        await job.client.xadd(accepted, dict(event_of(str(number))), id=f"1900000000000-{number}")  # type: ignore[arg-type]
    await job.poll(3)
    await job.settle("parked", "9", "10", "100")
    entries = [await job.entry(id) for id in ("100", "10", "9")]
    assert await job.deliveries.replay(job.uid, entries) == 3
    await job.poll(2)
    assert list(job.claims) == ["9", "10"]


@for_each("nonsense", "1-", "-1", "1-x", "x-1", "")
async def test_an_entry_that_is_none_is_not_changed(entry: str, job: PolledEventJob) -> None:
    await job.push("a")
    await job.poll()
    assert await job.deliveries.drop(job.uid, [entry, await job.entry("a")]) == 1


async def test_the_export_goes_on_behind_what_one_script_looks_at(
    job: PolledEventJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "LOOK", 2)
    await job.push(*"abcde")
    await job.poll()
    assert [each.attributes["id"] async for each in job.deliveries.export(job.uid)] == [*"edcba"]


async def test_a_broker_entry_that_is_no_text_names_nothing(job: PolledEventJob) -> None:
    await job.push("a")
    await job.poll()
    keys = KEYS.deliveries(job.uid)
    [index] = await job.client.hkeys(keys.of("ids"))  # type: ignore[misc]
    await job.client.hset(keys.of("ids"), index, b"\xff")  # type: ignore[misc]
    assert await job.deliveries.of_event(job.uid, "a") == ()
    await job.client.hset(keys.of("meta"), "intake", b"\xff")  # type: ignore[misc]
    assert await job.deliveries.drop(job.uid, ["1-1"]) == 0
