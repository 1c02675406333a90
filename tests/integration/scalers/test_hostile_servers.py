"""Every type of trigger against servers that misbehave: the value is unknown with a reason, and no secret is told."""

import asyncio
import base64
import logging
import math
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis

from penstock.connections import Connections
from penstock.scaler import Scaler
from scalers.polling.batched import BatchedReader
from scalers.scaler_registry import REGISTRY, ScalerRegistry
from scalers.sources.databases import mongodb
from scalers.sources.http import github_runner
from scalers.sources.http.web import WebSource
from scalers.triggers.parse import SourceKey, Triggers
from tests.integration.scalers.every_trigger import ALONE, EXAMPLES, MARKER, OTHERS, USER, Example
from tests.integration.scalers.servers import reading, refusing
from tests.integration.scalers.test_wakeups import wakeups_of
from tests.integration.scalers.world import build, scaled_job
from tests.support.servers import Behaviour, behaving, hang
from tests.unit.scalers.cluster import Cluster as ClusterInMemory
from workers.api.kinds import Object
from workers.client.kubeconfig import ApiAccess
from workers.client.rest import Cluster

pytestmark = pytest.mark.usefixtures("sockets_of_pymongo")

#: Seconds that one measurement may take here.
PATIENCE = 0.4


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1 << 16)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Not even a question is read."""


def _saying(answer: bytes, *, then_hang: bool = False) -> Behaviour:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(0.05 if b"first" in answer else None):
            with suppress(TimeoutError):
                await reader.read(1 << 16)
        writer.write(answer)
        await writer.drain()
        if then_hang:
            await hang(reader, writer)

    return say


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that shows what it was sent, as development servers do."""
    asked = await reader.read(1 << 16)
    writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n" % len(asked) + asked)
    await writer.drain()


async def _echo_value(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The credentials alone, which come first and stand in for a message."""
    asked = await reader.read(1 << 16)
    [line] = [line for line in asked.split(b"\r\n") if line.lower().startswith(b"authorization")] or [b"none"]
    said = line.partition(b":")[2].strip() or asked[:80]
    writer.write(b"HTTP/1.1 401 No\r\nContent-Length: %d\r\n\r\n" % len(said) + said)
    await writer.drain()


async def _endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"7" * 65536)
        await writer.drain()


HOSTILE: dict[str, Behaviour] = {
    "hangs": hang,
    "resets": _reset,
    "closes": _close,
    "answers garbage": _saying(b"\x00\xff\x00\x00nonsense\r\n\r\n\x01\x02"),
    "answers zeros": _saying(bytes(4096), then_hang=True),
    "answers half": _saying(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"data":{"v":', then_hang=False),
    "answers half and hangs": _saying(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"v":', then_hang=True),
    "answers 500": _saying(b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops"),
    "answers nothing": _saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    "answers null": _saying(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnull"),
    "answers a list": _saying(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n[[[1]]]"),
    "answers a word": _saying(b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"v":[]}'),
    "redis: half a bulk": _saying(b"$1000\r\nhalf"),
    "redis: a huge bulk": _saying(b"$99999999999999\r\n"),
    "redis: OK for ever": _saying(b"+OK\r\n" * 50),
    "redis: an error": _saying(b"-ERR no such thing\r\n" * 50),
    "shows what was sent": _echo,
    "shows the credentials": _echo_value,
    "never ends": _endless,
}


def _http(body: bytes, headers: bytes = b"", status: bytes = b"200 OK") -> Behaviour:
    return _saying(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, headers, len(body)) + body)


def _vector(value: bytes) -> bytes:
    return b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,%s]}]}}' % value


#: Answers of HTTP servers that are well-formed up to what they say.
ODD: dict[str, Behaviour] = {
    "lists in lists": _http(b"[" * 100_000),
    "objects in objects": _http(b'{"v":' * 900 + b"1" + b"}" * 900),
    "a number beyond all": _http(b'{"v":1e999,"count":1e999}'),
    "more digits than a number has": _http(b'{"v":"%s","count":%s}' % (b"9" * 5000, b"9" * 5000)),
    "no number": _http(b'{"v":"NaN","count":NaN}'),
    "a vector of no number": _http(_vector(b'"Infinity"')),
    "a vector of an object": _http(_vector(b"{}")),
    "a vector of null": _http(_vector(b"null")),
    "no vector": _http(b'{"status":"success","data":{"resultType":"vector","result":{"value":7}}}'),
    "half a character": _http(b'{"v":"\\ud800","count":"\\udfff"}'),
    "no UTF-8": _http(b'{"v":"\xff\xfe"}'),
    "an unknown charset": _http(b'{"v":"x"}', b"Content-Type: application/json; charset=nonsense\r\n"),
    "no gzip": _http(b"\x1f\x8b\x08nonsense", b"Content-Encoding: gzip\r\n"),
    "no chunks": _saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
    "to itself": _http(b"", b"Location: /\r\n", b"302 Found"),
    "headers without an end": _saying(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000),
}


@asynccontextmanager
async def sources(port: int, timeout: float = PATIENCE) -> AsyncIterator[BatchedReader]:
    """Sources whose cluster is that server, too."""
    access = ApiAccess(f"http://127.0.0.1:{port}")
    async with (
        Cluster(access, timeout=PATIENCE, in_flight=4) as cluster,
        reading(timeout, Connections(patience=timeout / 4, cluster=cluster), threshold=99) as made,
    ):
        yield made


def scaler(type_: str, example: Example, port: int) -> Scaler:
    return REGISTRY.find(type_).parse(example.trigger(type_, port))


CASES = [
    *(pytest.param(type_, example, id=type_) for type_, example in EXAMPLES.items()),
    *(pytest.param(type_, example, id=name) for name, (type_, example) in OTHERS.items()),
]
OVER_HTTP = [case for case in CASES if issubclass(REGISTRY.find(str(case.values[0])), WebSource)]


def test_every_type_is_here() -> None:
    known = set(ScalerRegistry().known())
    lacking, gone = known - EXAMPLES.keys() - ALONE, (EXAMPLES.keys() | ALONE) - known
    assert not lacking, f"give tests/integration/scalers/every_trigger.py an example of {sorted(lacking)}"
    assert not gone, f"no scaler is installed for {sorted(gone)}: pip install -e '.[dev]' reads pyproject.toml anew"


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triggers that wait for longer than others by themselves wait as long."""
    monkeypatch.setattr(mongodb, "PATIENCE", PATIENCE)
    monkeypatch.setattr(github_runner, "PATIENCE", PATIENCE)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("type_", "example"), CASES)
async def test_a_server_that_misbehaves_is_unknown_and_named(
    type_: str, example: Example, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong: dict[str, object] = {}

    async def measured(name: str, behaviour: Behaviour) -> None:
        async with behaving(behaviour) as port, sources(port) as asking:
            probe = scaler(type_, example, port)
            [answer] = await asking.read(SourceKey.of(probe, 1), [probe], 1)
            told = f"{answer} {probe!r} {probe} {probe.server!r} {probe.server} {probe.metric}"
            if not isinstance(answer, str) or (f"127.0.0.1:{port}" not in answer and "the API server" not in answer):
                wrong[name] = answer
            elif tells(told):
                wrong[name] = f"SECRET: {told}"

    await asyncio.gather(*(measured(name, behaviour) for name, behaviour in HOSTILE.items()))
    assert not wrong, "\n".join(f"{name}: {said}" for name, said in wrong.items())
    assert not tells(caplog.text)
    assert not [record.__dict__ for record in caplog.records if tells(str(record.__dict__))]


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize(("type_", "example"), OVER_HTTP)
async def test_an_odd_answer_over_http_is_unknown_or_a_number(
    type_: str, example: Example, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: dict[str, object] = {}

    async def measured(name: str, behaviour: Behaviour) -> None:
        async with behaving(behaviour) as port, sources(port) as asking:
            probe = scaler(type_, example, port)
            [answer] = await asking.read(SourceKey.of(probe, 1), [probe], 1)
            known = answer if isinstance(answer, str) else float(getattr(answer, "value", answer))
            if not (f"127.0.0.1:{port}" in known if isinstance(known, str) else math.isfinite(known)):
                wrong[name] = answer

    await asyncio.gather(*(measured(name, behaviour) for name, behaviour in ODD.items()))
    assert not wrong
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(("type_", "example"), CASES)
async def test_a_process_that_ends_while_a_server_hangs_waits_for_nothing_and_leaves_nothing(
    type_: str, example: Example
) -> None:
    asked = asyncio.Event()

    async def tells(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Who speaks to MySQL waits for it to begin.
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await reader.read(1)
        asked.set()
        await hang(reader, writer)

    before = asyncio.all_tasks()
    async with behaving(tells) as port:
        async with asyncio.timeout(10), sources(port, 3600) as asking:
            probe = scaler(type_, example, port)
            reading = asyncio.create_task(asking.read(SourceKey.of(probe, 1), [probe], 1))
            await asked.wait()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        theirs = {task for task in asyncio.all_tasks() - before if "behaving" not in repr(task.get_coro())}
        assert not theirs


def tells(text: str) -> bool:
    """Whether a secret stands in a text, in the clear or as HTTP's basic authentication has it."""
    hidden = base64.b64encode(f"{USER}:{MARKER}-pw".encode()).decode()
    return MARKER in text or hidden in text


def test_how_secrets_are_found() -> None:
    assert tells(f"x {MARKER} y")
    assert tells(base64.b64encode(f"{USER}:{MARKER}-pw".encode()).decode())
    assert not tells("nothing")


@pytest.mark.usefixtures("_impatient")
async def test_no_secret_of_any_trigger_leaves_the_process(real_redis: Redis, caplog: pytest.LogCaptureFixture) -> None:
    """What others see of a poll (decisions, events, status, `penstock explain`) goes by what is in the broker."""
    caplog.set_level(logging.DEBUG)
    secrets, port = Secrets(), refusing()
    examples = {**{type_: (type_, example) for type_, example in EXAMPLES.items()}, **OTHERS}
    bodies = [secrets.object(name, *which, port) for name, which in sorted(examples.items())]
    world = await build(real_redis)
    world.triggers = Triggers(lookups=secrets.lookups(), broker=f"redis://:{MARKER}@127.0.0.1:{port}/0")
    await world.apply(*bodies)
    async with world.polling(timeout=PATIENCE, wakeups=wakeups_of(world)) as polling:
        await polling.once()
        for body in bodies:
            reading = await world.reading(body["metadata"]["name"])
            assert reading.problem is None
            assert [sample.error is not None for sample in reading.samples] == [True], body["metadata"]["name"]
            assert not tells(f"{reading}")
    [compressed] = (await real_redis.config_get("rdbcompression")).values()
    await real_redis.config_set("rdbcompression", "no")
    try:
        stored = {key: await real_redis.dump(key) async for key in real_redis.scan_iter()}
    finally:
        await real_redis.config_set("rdbcompression", compressed)
    assert any(b"rabbitmq-over-amqp" in dumped for dumped in stored.values() if dumped), "they can be read"
    assert not [key for key, dumped in stored.items() if tells((dumped or b"").decode("latin-1"))]
    assert not [record.__dict__ for record in caplog.records if tells(str(record.__dict__))]


class Secrets(ClusterInMemory):
    """A cluster in memory whose Secrets hold what examples need."""

    def object(self, name: str, type_: str, example: Example, port: int) -> Object:
        """A ScaledJob with that trigger, authenticated by a Secret of its own."""
        name = name.lower().replace(" ", "-")
        trigger = example.trigger(type_, port)
        self.secret(name, **trigger.authentication)
        entries = [{"parameter": key, "name": name, "key": key} for key in trigger.authentication]
        self.authentication(name, secretTargetRef=entries)
        self.secret("variables", **trigger.environment)
        env = [
            {"name": variable, "valueFrom": {"secretKeyRef": {"name": "variables", "key": variable}}}
            for variable in trigger.environment
        ]
        spec = {"type": type_, "metadata": dict(trigger.metadata), "authenticationRef": {"name": name}}
        return scaled_job(name, spec, env=env)
