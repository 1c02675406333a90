"""`penstock.client` on a real server, against the trigger that takes events in; and the page that describes it."""

import asyncio
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
import redis
import redis.asyncio

from penstock.client import (
    AsyncEventStream,
    AsyncItemList,
    AsyncItemStream,
    Event,
    EventStream,
    Full,
    InvalidEvent,
    InvalidItem,
    ItemList,
    ItemStream,
    Pushed,
)
from penstock.connections import Connections
from penstock.errors import UserError
from penstock.parameters import Trigger
from penstock.scaler import Measure
from scalers.sources.events.push import Push
from tests.support.paths import ROOT
from tests.support.tables import for_each

STREAM = "{penstock}:events:team/orders"


@pytest.fixture(params=["texts", "bytes"])
def broker(request: pytest.FixtureRequest, redis_url: str):
    with redis.Redis.from_url(redis_url, decode_responses=request.param == "texts") as client:
        yield client


@pytest.fixture(params=["sync", "async"])
def push(request: pytest.FixtureRequest, redis_url: str) -> Callable[..., list[Pushed]]:
    """Pushes to the intake of team/orders, or another, by either client."""

    def run(*events: Event, name: str = "orders", **more: Any) -> list[Pushed]:
        if request.param == "sync":
            with redis.Redis.from_url(redis_url) as client:
                return EventStream(client, name, namespace="team", **more).push(*events)

        async def pushed() -> list[Pushed]:
            async with redis.asyncio.Redis.from_url(redis_url) as client:
                return await AsyncEventStream(client, name, namespace="team", **more).push(*events)

        return asyncio.run(pushed())

    return run


def event(id: int, **more: Any) -> Event:
    return Event(type="order.placed", source="/shop", id=str(id), **more)


def take_in(url: str, **metadata: str) -> float:
    """Has the trigger measure; how many events wait."""

    async def measured() -> float:
        connections = Connections()
        given = {"namespace": "team", "owner": "orders", "broker": url, "prefix": "penstock"}
        [answer] = await Push.read([Push.parse(Trigger(0, "push", metadata=metadata, **given))], connections)
        await connections.close()
        assert isinstance(answer, Measure), answer
        return answer.value

    return asyncio.run(measured())


def test_pushed_events_are_taken_in(push: Callable[..., list[Pushed]], redis_url: str) -> None:
    data = [{"total": 12}, "text", b"text", b"\xff", None]
    pushed = push(*(event(id, data=one) for id, one in enumerate(data)))
    assert [(one.id, one.duplicate) for one in pushed] == [(str(id), False) for id in range(5)]
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        assert [entry for entry, _ in client.xrange(STREAM)] == [one.entry for one in pushed]
        assert take_in(redis_url) == 5
        assert client.xlen(f"{STREAM}:parked") == 0
        found = [fields for _, fields in client.xrange(f"{STREAM}:accepted")]
    texts = [one.get("data") or one.get("data_base64") for one in found]
    assert texts == ['{"total":12}', "text", "text", "/w==", None]
    assert found[0]["datacontenttype"] == "application/json"


def test_duplicates_are_told(push: Callable[..., list[Pushed]], redis_url: str) -> None:
    assert [one.duplicate for one in push(event(1), event(2), event(1))] == [False, False, True]
    assert not push(event(1))[0].duplicate, "not taken in yet"
    assert take_in(redis_url) == 2
    assert [one.duplicate for one in push(event(1), event(3))] == [True, False]
    assert [one.duplicate for one in push(event(1), window=0)] == [False], "outside the window"
    assert take_in(redis_url) == 3


def test_very_many_events_keep_their_order(push: Callable[..., list[Pushed]], redis_url: str) -> None:
    pushed = push(*(event(id) for id in range(1001)))
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        found = [(fields["id"], entry) for entry, fields in client.xrange(STREAM)]
    assert found == [(one.id, one.entry) for one in pushed]


def test_events_without_room_are_refused(push: Callable[..., list[Pushed]], redis_url: str) -> None:
    push(event(1), max_events=2)
    assert take_in(redis_url) == 1
    with pytest.raises(Full):
        push(event(2), event(3), max_events=2)
    assert take_in(redis_url) == 1
    assert [one.duplicate for one in push(event(1), event(2), max_events=2)] == [True, False]
    with pytest.raises(Full):
        push(event(3), max_events=2)
    with pytest.raises(UserError, match="max_events must be at least 1"):
        push(event(3), max_events=0)


def test_a_stream_of_its_own_is_pushed_to(push: Callable[..., list[Pushed]], redis_url: str) -> None:
    push(event(1), stream="orders")
    push(event(1), prefix="other")
    with redis.Redis.from_url(redis_url) as client:
        assert client.xlen("orders") == client.xlen("{other}:events:team/orders") == 1


def _nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


@for_each(
    (Event(type="", source="/a"), "type is required"),
    (Event(type="t", source="a b"), "source must be a URI reference"),
    (Event(type="t", source="/a", id=""), "id is required"),
    (Event(type="t", source="/a", subject=""), "subject must not be empty"),
    (Event(type="t", source="/a", subject=5), "subject must be a text"),  # type: ignore[arg-type]
    (Event(type="t", source="/a", time=datetime(2026, 3, 1)), "time must have a time zone"),  # noqa: DTZ001
    (Event(type="t", source="/a", data=object()), "data cannot be pushed as JSON"),
    (Event(type="t", source="/a", data={"rate": float("nan")}), "data cannot be pushed as JSON"),
    (Event(type="t", source="/a", data=[float("inf")]), "data cannot be pushed as JSON"),
    (Event(type="t", source="/a", data=_nested(100_000)), "data cannot be pushed as JSON"),
    (Event(type="t", source="/a", data="\ud800"), "an attribute or the data has half of a surrogate pair"),
    (Event(type="t", source="/a", id="\ud800"), "an attribute or the data has half of a surrogate pair"),
    (Event(type="t", source="/a", attributes={"Trace": "1"}), "'Trace': attribute names"),
    (Event(type="t", source="/a", attributes={"id": "1"}), "id is no further attribute"),
    (Event(type="t", source="/a", data="x" * (1 << 20)), "is larger than 1048576 bytes"),
)
def test_a_wrong_event_is_refused_by_its_attribute(
    wrong: Event, problem: str, push: Callable[..., list[Pushed]], redis_url: str
) -> None:
    with pytest.raises(InvalidEvent, match=rf"^event 1: {re.escape(problem)}") as caught:
        push(event(1), wrong)
    assert caught.value.index == 1
    with redis.Redis.from_url(redis_url) as client:
        assert not client.exists(STREAM)


def test_a_user_with_the_rights_on_the_page_may_push_to_its_channel_alone(broker: redis.Redis, redis_url: str) -> None:
    page = (ROOT / "docs" / "brokers.md").read_text()
    words = page[page.index("Somebody who only pushes") :].partition("\n\n")[0].replace("NAMESPACE/NAME", "team/orders")
    broker.acl_setuser("pusher", enabled=True, reset=True, passwords=["+pw"])
    broker.execute_command("ACL", "SETUSER", "pusher", *re.findall(r"[+~][^\s`]+", words))
    try:
        with redis.Redis.from_url(redis_url, username="pusher", password="pw") as client:
            [pushed] = EventStream(client, "orders", namespace="team", max_events=2).push(event(1))
            assert pushed.entry
            assert client.xadd(STREAM, {"specversion": "1.0"})
            with pytest.raises(redis.exceptions.NoPermissionError):
                EventStream(client, "others", namespace="team").push(event(1))
    finally:
        broker.acl_deluser("pusher")


def test_nothing_pushed_is_nothing(push: Callable[..., list[Pushed]]) -> None:
    assert push() == []


def test_items_are_put(broker: redis.Redis) -> None:
    work, scans = ItemList(broker, "work"), ItemStream(broker, "scans")
    assert (work.put("one", "two"), work.put(), work.put("three")) == (2, 2, 3)
    entries = scans.put({"page": "1"}, {"page": "2"})
    assert scans.put() == []
    texts = broker.get_encoder().decode_responses
    assert broker.lpop("work") == ("one" if texts else b"one")
    assert [entry if texts else entry.decode() for entry, _ in broker.xrange("scans")] == entries


async def test_items_are_put_by_asyncio(real_redis: redis.asyncio.Redis) -> None:
    assert await AsyncItemList(real_redis, "work").put("one", b"\x00two") == 2
    entries = await AsyncItemStream(real_redis, "scans").put({"page": "1"}, {"page": b"\xff"})
    assert [entry.decode() for entry, _ in await real_redis.xrange("scans")] == entries
    assert await real_redis.lrange("work", 0, -1) == [b"one", b"\x00two"]


@for_each(
    (("a", 5), "item 1: must be a text or bytes, not int"),
    (("a" * 180_001,), "item 0: has 180001 bytes, and a Job can carry 180000"),
    ((b"\xff" * 135_001,), "item 0: has 180004 bytes"),
    ((b"\x00" * 135_001,), "item 0: has 180004 bytes"),
    (("a", "\ud800"), "item 1: has half of a surrogate pair"),
)
def test_an_item_no_job_can_carry_is_refused(items: Any, problem: str, broker: redis.Redis) -> None:
    with pytest.raises(InvalidItem, match=problem):
        ItemList(broker, "work").put(*items)
    assert not broker.exists("work")


@for_each(
    (({"a": "b"}, {}), "item 1: must have a field"),
    (({"a": 5},), "item 0: field 'a' must be a text or bytes"),
    (({"a": "b" * 180_000},), "item 0: has 180008 bytes"),
    (({"a": "b"}, {"a": "\ud800"}), "item 1: has half of a surrogate pair"),
    (({"\ud800": "b"},), "item 0: has half of a surrogate pair"),
)
def test_an_entry_no_job_can_carry_is_refused(items: Any, problem: str, broker: redis.Redis) -> None:
    with pytest.raises(InvalidItem, match=problem):
        ItemStream(broker, "scans").put(*items)
    assert not broker.exists("scans")


def test_the_pages_examples_run(redis_url: str) -> None:
    page = (ROOT / "docs" / "python-api.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={"BROKER": redis_url},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[2] == "4711 duplicate"
    assert "as many events" in lines[3]
    # The comment behind an example's `print` is what it prints.
    assert [line for line in lines if line in re.findall(r"# (event 1: .*|item 1: .*)", page)] == [lines[4], lines[6]]
    assert lines[5] == "3 2"
    assert lines[7].endswith(" 1")
