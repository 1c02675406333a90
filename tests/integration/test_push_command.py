"""``penstock push`` with a real broker: what it sends and prints, and what it refuses."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.local import private_files
from deploy.local.home import Home
from penstock.cloudevents import wrong
from tests.support.tables import cases
from tests.unit.cli.conftest import Type, _clean_environment, cluster, penstock
from tests.unit.cli.fake import SCALED_JOB, FakeCluster
from workers.api.kinds import EVENT_JOB, SECRET, TRIGGER_AUTHENTICATION

__all__ = ["_clean_environment", "cluster", "penstock"]

STREAM = "{penstock}:events:default/orders"


@pytest.fixture
def server(redis_server: str, _clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """Penstock's own broker, empty; the command finds it in its settings."""
    monkeypatch.setenv("PENSTOCK_BROKER", redis_server)
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
        yield client
        client.flushall()


def orders(cluster: FakeCluster, *triggers: Any) -> None:
    """A ScaledJob with these triggers; with one of type push if none is given."""
    spec = {"triggers": list(triggers) or [{"type": "push", "metadata": {"maxEvents": "3"}}]}
    cluster.add(SCALED_JOB, "orders", spec=spec)


def pushed(server: redis.Redis, stream: str = STREAM) -> list[dict[str, str]]:
    return [{name.decode(): text.decode() for name, text in entry.items()} for _, entry in server.xrange(stream)]


def stdin(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_an_event_with_all_its_attributes(cluster: FakeCluster, penstock: Type, server: redis.Redis) -> None:
    orders(cluster)
    words = ["--type", "placed", "--source", "/shop", "--id", "7", "--subject", "s", "--time", "2026-03-01T08:00:00Z"]
    words += ["--data", '{"n": 1}', "--content-type", "application/json", "-a", "traceparent=00-1"]
    done = penstock("push", "orders", *words)
    assert (done.code, done.out, done.err) == (0, "7\n", "")
    assert pushed(server) == [
        {
            "specversion": "1.0",
            "type": "placed",
            "source": "/shop",
            "id": "7",
            "subject": "s",
            "time": "2026-03-01T08:00:00Z",
            "data": '{"n": 1}',
            "datacontenttype": "application/json",
            "traceparent": "00-1",
        }
    ]


def test_what_is_not_said(cluster: FakeCluster, penstock: Type, server: redis.Redis) -> None:
    orders(cluster)
    first, second = penstock("push", "orders"), penstock("push", "orders")
    events = pushed(server)
    assert [event["id"] for event in events] == [first.out.strip(), second.out.strip()]
    assert first.out != second.out
    assert [wrong(event) for event in events] == [None, None]
    assert {(event["source"], event["type"]) for event in events} == {("/penstock/push", "dev.penstock.push")}
    assert "data" not in events[0]


@cases(
    ("text", b"t\xc3\xa9xt\n", {"data": "téxt\n"}),
    ("binary", b"\xff", {"data_base64": "/w=="}),
)
@pytest.mark.parametrize("where", ["file", "standard input"])
def test_data_from_elsewhere(
    content: bytes,
    data: dict[str, str],
    cluster: FakeCluster,
    penstock: Type,
    server: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    where: str,
) -> None:
    orders(cluster)
    (tmp_path / "x").write_bytes(content)
    stdin(monkeypatch, content)
    assert penstock("push", "orders", "--data", "-" if where == "standard input" else f"@{tmp_path / 'x'}").code == 0
    assert pushed(server)[0].items() >= data.items()


def test_lines(cluster: FakeCluster, penstock: Type, server: redis.Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    orders(cluster)
    lines = [{"id": "1", "data": {"n": 1}}, {"id": "2", "type": "other"}]
    stdin(monkeypatch, "\n\r\n".join(map(json.dumps, lines)).encode("utf-8-sig"))
    done = penstock("push", "orders", "--lines", "--type", "placed")
    assert (done.code, done.out) == (0, "1\n2\n")
    first, second = pushed(server)
    assert (first["type"], first["data"], first["datacontenttype"]) == ("placed", '{"n":1}', "application/json")
    assert second["type"] == "other"


@cases(
    ("a JSON string", {"datacontenttype": "application/json", "data": "12"}, '"12"'),
    ("a JSON string of another type", {"datacontenttype": "application/x+JSON; charset=utf-8", "data": "ä"}, '"ä"'),
    ("a text", {"datacontenttype": "text/plain", "data": "12"}, "12"),
    ("a text without a type", {"data": '{"n": 1}'}, '{"n": 1}'),
)
def test_a_string_on_a_line_is_json_where_its_media_type_says_so(
    event: dict[str, str],
    data: str,
    cluster: FakeCluster,
    penstock: Type,
    server: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As the gateway reads it, and as an export writes it."""
    orders(cluster)
    stdin(monkeypatch, json.dumps(event).encode())
    assert penstock("push", "orders", "--lines").code == 0
    assert [one["data"] for one in pushed(server)] == [data]


@cases(
    ("no JSON", "{", "line 2: is not JSON"),
    ("no UTF-8", "\udcff", "line 2: is not UTF-8"),
    ("too deep", '{"data": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2: is nested too deeply"),
    ("no object", "[]", "line 2: is no JSON object"),
    ("no id", '{"id": ""}', "line 2: id is required"),
    ("no time", '{"time": "now"}', "line 2: time must be an RFC 3339 instant"),
    ("no text", '{"subject": {}}', "line 2: subject must be a text"),
    ("no name", '{"traceParent": "x"}', "line 2: 'traceParent': attribute names"),
)
def test_lines_that_are_no_events(
    line: str,
    complaint: str,
    cluster: FakeCluster,
    penstock: Type,
    server: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orders(cluster)
    stdin(monkeypatch, f'{{"id": "1"}}\n{line}\n{{"id": "3"}}'.encode(errors="surrogateescape"))
    done = penstock("push", "orders", "--lines")
    assert (done.code, done.out) == (1, "1\n")
    assert complaint in done.err
    assert "(1 pushed before it)" in done.err
    assert len(pushed(server)) == 1


def test_what_finds_no_room_is_refused(
    cluster: FakeCluster, penstock: Type, server: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders(cluster)
    stdin(monkeypatch, b"{}\n" * 5)
    done = penstock("push", "orders", "--lines")
    assert done.code == 1
    assert len(done.out.splitlines()) == 3
    assert "default/orders: line 4: 3 events are waiting or being worked on" in done.err
    assert "maxEvents" in done.err
    assert "(3 pushed before it)" in done.err
    assert "1 pushed" not in penstock("push", "orders").err
    assert len(pushed(server)) == 3


@cases(("no gateway is known", False), ("its address is in the home", True))
def test_an_eventjob_of_that_name_is_told(
    known: bool,
    cluster: FakeCluster,
    penstock: Type,
    server: redis.Redis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "elsewhere"))
    file = Home(tmp_path / "elsewhere").gateway_url
    if known:
        file.parent.mkdir(exist_ok=True)
        file.write_text("http://127.0.0.1:8080\n")
    cluster.add(EVENT_JOB, "orders")
    done = penstock("push", "orders")
    assert (done.code, done.out) == (1, "")
    assert "no ScaledJob called orders, but an EventJob: push to it with --gateway URL" in done.err
    assert (f"in {file}" in done.err) == known
    assert ("penstock up" in done.err) == known


@cases(
    ("no object", ["other"], 1, "namespace default has no ScaledJob called other"),
    ("no such trigger", ["orders", "--trigger", "x"], 1, "has no trigger of type push called x"),
    ("no id", ["orders", "--id", ""], 1, "the event: id is required"),
    ("no time", ["orders", "--time", "now"], 1, "the event: time must be"),
    ("no attribute", ["orders", "-a", "x"], 1, "--attribute: x: NAME=VALUE is needed"),
    ("no name", ["orders", "-a", "X=y"], 1, "'X': attribute names"),
    ("no file", ["orders", "--data", "@/none"], 1, "--data: /none: No such file"),
    ("data of lines", ["orders", "--lines", "--data", "x"], 2, "each of --lines brings its own"),
    ("no broker", ["orders", "--broker", "redis://127.0.0.1:1"], 1, "127.0.0.1:1/0: "),
    ("no name of an object", [], 2, "Missing argument 'NAME'"),
)
def test_what_cannot_be_done(
    words: list[str], code: int, complaint: str, cluster: FakeCluster, penstock: Type, server: redis.Redis
) -> None:
    orders(cluster)
    done = penstock("push", *words)
    assert (done.code, done.out) == (code, "")
    assert complaint in done.err
    assert not pushed(server)


def test_triggers_of_other_types_and_several(cluster: FakeCluster, penstock: Type, server: redis.Redis) -> None:
    cron = {
        "type": "cron",
        "metadata": {"timezone": "UTC", "start": "0 1 * * *", "end": "0 2 * * *", "desiredReplicas": "1"},
    }
    orders(cluster, cron)
    assert "default/orders has no trigger of type push" in penstock("push", "orders").err
    both = [{"type": "push", "name": name, "metadata": {"stream": name}} for name in ("a", "b")]
    orders(cluster, *both)
    assert "2 triggers of type push; --trigger tells which" in penstock("push", "orders").err
    assert penstock("push", "orders", "--trigger", "b", "--id", "1").code == 0
    assert [event["id"] for event in pushed(server, "b")] == ["1"]
    orders(cluster, {"type": "push", "metadata": {"maxEvents": "none"}})
    assert "trigger 0 (push): maxEvents: must be a whole number" in penstock("push", "orders").err


def test_another_server_with_a_login(
    cluster: FakeCluster, penstock: Type, server: redis.Redis, redis_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_BROKER")
    cluster.kinds += [SECRET, TRIGGER_AUTHENTICATION]
    cluster.add(SECRET, "login", data={"word": "czNjcmV0"})
    references = [{"parameter": "password", "name": "login", "key": "word"}]
    cluster.add(TRIGGER_AUTHENTICATION, "auth", spec={"secretTargetRef": references})
    address = redis_server.partition("//")[2].partition("/")[0].rpartition("@")[2]
    metadata = {"address": address, "username": "pusher", "stream": "in"}
    orders(cluster, {"type": "push", "metadata": metadata, "authenticationRef": {"name": "auth"}})
    server.execute_command("ACL", "SETUSER", "pusher", "on", ">other", "~*", "+@all")
    try:
        refused = penstock("push", "orders")
        assert (refused.code, refused.out) == (1, "")
        assert f"{address}/0: login refused" in refused.err
        assert "s3cret" not in refused.err
        server.execute_command("ACL", "SETUSER", "pusher", ">s3cret")
        assert penstock("push", "orders", "--id", "1").code == 0
    finally:
        server.execute_command("ACL", "DELUSER", "pusher")
    assert [event["id"] for event in pushed(server, "in")] == ["1"]


def test_the_embedded_broker_is_found(
    cluster: FakeCluster,
    penstock: Type,
    server: redis.Redis,
    redis_server: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.delenv("PENSTOCK_BROKER")
    orders(cluster)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    private_files.write(home / "broker.url", redis_server)
    private_files.write(home / "kubeconfig", "{}")
    assert penstock("push", "orders", "--home", str(home), "--id", "1").code == 0
    monkeypatch.setenv("PENSTOCK_HOME", str(home))
    assert penstock("push", "orders", "--id", "2").code == 0
    monkeypatch.delenv("PENSTOCK_HOME")
    monkeypatch.setenv("KUBECONFIG", str(home / "kubeconfig"))
    private_files.write(home / "kubeconfig", "{current-context: c, contexts: [{name: c, context: {}}]}")
    assert penstock("push", "orders", "--id", "3").code == 0
    assert [event["id"] for event in pushed(server)] == ["1", "2", "3"]


def test_nothing_is_pushed_to_a_broker_that_nobody_named(cluster: FakeCluster, penstock: Type) -> None:
    orders(cluster)
    done = penstock("push", "orders")
    assert (done.code, done.out) == (1, "")
    assert "no broker: --home .penstock has none, and neither --broker nor PENSTOCK_BROKER is set" in done.err
