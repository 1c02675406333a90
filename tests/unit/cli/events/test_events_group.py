"""``penstock events`` on a fake cluster and a real broker."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
import redis.asyncio as redis

from deploy.cli.events import delivery_rows, delivery_selection
from penstock import cloudevents
from penstock._broker_format import FORMAT, RESTORING
from scalers.deliveries.delivery import Delivery, DeliveryAttempt, DeliveryFilter
from scheduler.keys import Keys
from tests.support.event_jobs import PolledEventJob
from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from workers.api.kinds import EVENT_JOB
from workers.controllers.eventjob import jobs
from workers.errors import UserError

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
Using = Callable[[Callable[[PolledEventJob], Awaitable[Any]]], None]


@pytest.fixture
def using(redis_server: str, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> Using:
    """Runs what a test does with the EventJob `orders`, on an empty broker at first."""
    monkeypatch.setenv("PENSTOCK_BROKER", redis_server)
    cluster.kinds.append(EVENT_JOB)
    cluster.add(EVENT_JOB, "orders", metadata={"uid": "u1"})

    def run(work: Callable[[PolledEventJob], Awaitable[Any]]) -> None:
        async def session() -> None:
            async with redis.Redis.from_url(redis_server) as client:
                await work(PolledEventJob(client))

        asyncio.run(session())

    run(lambda job: job.client.flushall())
    return run


async def some(job: PolledEventJob) -> None:
    """One event is done, one parked, one waits."""
    await job.push("1", data='{"total": 12345678901234567890}', datacontenttype="application/json")
    await job.push("2", type="paid")
    await job.push("3")
    await job.poll(2)
    await job.settle("done", "1")
    await job.settle("parked", "2", reason="Job job-2 failed: BackoffLimitExceeded")


def test_a_broker_that_nobody_named_has_no_events(
    using: Using, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_BROKER")
    for verb in ("list", "export"):
        printed = penstock("events", verb, "orders")
        assert (printed.code, printed.out) == (1, "")
        assert "no broker: --home .penstock has none" in printed.err


def test_the_list_has_the_newest_first(using: Using, penstock: Type) -> None:
    using(some)
    printed = penstock("events", "list", "orders")
    assert [line.split()[:3] for line in printed.lines] == [
        ["ID", "TYPE", "STATE"],
        ["3", "placed", "waiting"],
        ["2", "paid", "parked"],
        ["1", "placed", "done"],
    ]
    assert "BackoffLimitExceeded" in printed.out


@for_each(
    (("--state", "parked"), ["2"]),
    (("--state", "parked", "--state", "done"), ["2", "1"]),
    (("--type", "placed"), ["3", "1"]),
    (("--since", "1h"), ["3", "2", "1"]),
    (("--until", "1h"), []),
    (("--limit", "1"), ["3"]),
)
def test_flags_select(flags: tuple[str, ...], ids: list[str], using: Using, penstock: Type) -> None:
    using(some)
    found = json.loads(penstock("events", "list", "orders", "-o", "json", *flags).out)
    assert [each["id"] for each in found["deliveries"]] == ids


def test_one_event_is_shown_with_data_and_attempts(using: Using, penstock: Type) -> None:
    using(some)
    shown = json.loads(penstock("events", "show", "orders", "1", "-o", "json").out)
    assert shown["event"]["data"] == {"total": 12345678901234567890}
    assert [(each["job"], each["outcome"]) for each in shown["attempts"]] == [("job-1", "done")]
    by_entry = penstock("events", "show", "orders", shown["entry"], "-o", "json")
    assert json.loads(by_entry.out) == shown


def test_a_running_event_is_shown_with_its_job(using: Using, penstock: Type) -> None:
    async def running(job: PolledEventJob) -> None:
        await job.push("1")
        await job.poll(1)
        names.append(jobs.name({"name": "orders", "uid": job.uid}, job.claims["1"]))

    names: list[str] = []
    using(running)
    shown = json.loads(penstock("events", "show", "orders", "1", "-o", "json").out)
    assert [shown["job"]] == names
    assert names[0] in penstock("events", "list", "orders", "-o", "wide").out


def test_parked_events_are_replayed(using: Using, penstock: Type) -> None:
    using(some)
    assert penstock("events", "replay", "orders", "--all").out == "1 event replayed\n"
    assert penstock("events", "replay", "orders", "--all").out == "0 events replayed\n"
    refused = penstock("events", "replay", "orders", "2", "1")
    assert (refused.code, refused.out) == (1, "1 event replayed\n")
    assert "could not be replayed: their state is done, waiting" in refused.err


def test_events_are_dropped_by_id_and_by_state(using: Using, penstock: Type) -> None:
    using(some)
    assert penstock("events", "drop", "orders", "3").out == "1 event dropped\n"
    assert penstock("events", "drop", "orders", "--all", "--state", "parked").out == "1 event dropped\n"
    assert penstock("events", "drop", "orders", "--all").code == 2


def test_an_export_is_what_a_push_reads(using: Using, penstock: Type) -> None:
    using(some)
    lines = penstock("events", "export", "orders", "--state", "done").out.splitlines()
    assert [cloudevents.wrong(cloudevents.from_json(orjson.loads(line))) for line in lines] == [None]
    assert "12345678901234567890" in lines[0]


@for_each(
    (("list", "other"), "namespace default has no EventJob called other"),
    (("show", "orders", "9"), "EventJob orders has no event 9"),
    (("list", "orders", "--since", "yesterday"), "--since: "),
)
def test_errors_name_what_is_wrong(words: tuple[str, ...], said: str, using: Using, penstock: Type) -> None:
    using(some)
    printed = penstock("events", *words)
    assert printed.code == 1
    assert said in printed.err


@for_each(
    (RESTORING, "half of a backup"),
    (str(FORMAT + 1), f"the broker's data has format {FORMAT + 1}"),
)
@pytest.mark.parametrize("words", [("list", "orders"), ("replay", "orders", "--all")])
def test_data_that_must_not_be_touched_are_left_alone(
    words: tuple[str, ...], format: str, said: str, using: Using, penstock: Type
) -> None:
    async def marked(job: PolledEventJob) -> None:
        await some(job)
        await job.client.set(Keys().format, format)

    async def unchanged(job: PolledEventJob) -> None:
        found = (await job.deliveries.page(job.uid, DeliveryFilter(), None, 10)).deliveries
        assert [each.state for each in found] == ["waiting", "parked", "done"]

    using(marked)
    printed = penstock("events", *words)
    assert printed.code == 1
    assert said in printed.err
    using(unchanged)


@pytest.mark.parametrize("words", [(), ("1", "--all"), ("1", "--state", "parked")])
def test_a_change_says_clearly_what_it_changes(penstock: Type, words: tuple[str, ...]) -> None:
    assert penstock("events", "replay", "orders", *words).code == 2


@for_each(
    ("30s", NOW - timedelta(seconds=30)),
    ("2d", NOW - timedelta(days=2)),
    ("2026-03-01T08:00:00+01:00", NOW - timedelta(hours=5)),
)
def test_times_are_instants_or_durations(text: str, instant: datetime) -> None:
    assert delivery_selection.micros(text, "--since", NOW) == instant.timestamp() * 1_000_000


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(UserError, match=r"--until: .*a time looks like"):
        delivery_selection.micros("2026-03-01T08:00:00", "--until", NOW)


def test_a_wide_row_has_everything() -> None:
    micros = round(NOW.timestamp() * 1_000_000)
    event = {"id": "1", "type": "t", "source": "/s"}
    attempt = DeliveryAttempt("job-1", micros, "failed", "exit 1")
    delivery = Delivery(
        "17-0", event, "retrying", micros - 60_000_000, due=micros + 5_000_000, key="k", attempts=(attempt,)
    )
    assert delivery_rows.row(delivery, NOW, wide=True) == (
        *("1", "t", "retrying", "1", "60s", "exit 1"),
        *("/s", "k", "5s", "0", "job-1", "17-0"),
    )


@for_each(
    ("application/json", "[1]", False, {"data": [1]}),
    ("application/vnd.x+json; charset=utf-8", "[1]", False, {"data": [1]}),
    ("application/json", '{"n": 12345678901234567890123}', False, {"data": {"n": 12345678901234567890123}}),
    ("application/json", "{", False, {"data": "{"}),
    ("text/plain", "[1]", False, {"data": "[1]"}),
    ("image/png", "AAEC", True, {"data_base64": "AAEC"}),
    ("image/png", None, False, {}),
)
def test_data_are_json_where_the_media_type_says_so(
    media: str, data: str | None, is_base64: bool, expected: dict[str, Any]
) -> None:
    attributes = {"datacontenttype": media}
    delivery = Delivery("1-0", attributes, "done", 1, data=data, is_base64=is_base64)
    assert delivery_rows.cloud_event(delivery) == {**attributes, **expected}
    assert json.loads(delivery_rows.json_line(delivery)) == {**attributes, **expected}


@for_each("{\n}", "{\r\n}", "{\r}", '{"a": "\\r\\n"}')
def test_an_exported_event_is_one_line_for_every_reader(data: str) -> None:
    line = delivery_rows.json_line(Delivery("1-0", {"datacontenttype": "application/json"}, "done", 1, data=data))
    assert io.StringIO(line, newline=None).readlines() == [line]
    assert orjson.loads(line)["data"] == orjson.loads(data)
