"""Answers that no server gives: every trigger over HTTP or Redis has a value, or none with a reason."""

import asyncio
import math
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalers.sources.http import github_runner
from scalers.triggers.parse import SourceKey
from tests.integration.scalers.every_trigger import Example
from tests.integration.scalers.test_hostile_servers import CASES, OVER_HTTP, PATIENCE, scaler, sources
from tests.support.servers import Behaviour, behaving

FEW = settings(
    max_examples=(settings.default.max_examples if settings.default else 100) // 12,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
OVER_REDIS = [case for case in CASES if "redis" in str(case.id)]
#: Names that answers of measured servers have, so that odd values get further in.
NAMES = st.sampled_from(
    [
        *("v", "count", "data", "result", "resultType", "value", "status", "metric", "hits", "total", "kvs", "results"),
        *("series", "values", "workflow_runs", "jobs", "labels", "total_count", "datapoints", "target", "error", ""),
        *("account_info", "streams", "state", "messages", "last_seq", "consumer_detail", "items", "repositories"),
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from(["", "vector", "matrix", "success", "NaN", "1e999", "-1", "7", "queued", "x" * 9000, "ß\x00"]),
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=20
)
BODIES = st.one_of(
    JSON.map(orjson.dumps),
    JSON.map(lambda value: orjson.dumps(value).decode().encode("utf-16")),
    JSON.map(orjson.dumps).flatmap(lambda text: st.integers(0, len(text)).map(lambda end: text[:end])),
    st.binary(max_size=300),
    st.sampled_from([b"[" * 50_000, b"9" * 100_000, b"", b"a,b\r\n1,2\r\n\r\n", b"x" * 2_000_000]),
)
HEADERS = st.sampled_from(
    [
        *(b"", b"Content-Type: text/csv\r\n", b"Content-Type: application/json; charset=utf-7\r\n", b"X: \xff\xfe\r\n"),
        *(
            b"Content-Encoding: deflate\r\n",
            b"Content-Encoding: br\r\n",
            b"Retry-After: x\r\n",
            b"Link: <x>; rel=next\r\n",
        ),
        *(b"X-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 9e99\r\n", b"ETag: \x01\r\n", b"Set-Cookie: ;;=\r\n"),
    ]
)
STATUSES = st.sampled_from(
    [b"200 OK", b"200 OK", b"200 OK", b"204 None", b"206 ", b"304 X", b"403 No", b"429 Slow", b"999 x"]
)
REPLIES = st.recursive(
    st.sampled_from(
        [
            *(
                b"+OK\r\n",
                b":7\r\n",
                b":-1\r\n",
                b":99999999999999999999\r\n",
                b"$-1\r\n",
                b"*-1\r\n",
                b"_\r\n",
                b",nan\r\n",
            ),
            *(
                b"-ERR x\r\n",
                b"-WRONGTYPE x\r\n",
                b"-MOVED 5 :0\r\n",
                b"$3\r\nabc\r\n",
                b"$2\r\n\xff\xfe\r\n",
                b"#t\r\n",
            ),
            *(b":x\r\n", b"$-5\r\n", b"%1\r\n+a\r\n:1\r\n", b"\r\n", b"-LOADING\r\n", b"-NOAUTH x\r\n", b"(9999\r\n"),
        ]
    ),
    lambda inner: st.lists(inner, max_size=4).map(lambda parts: b"*%d\r\n" % len(parts) + b"".join(parts)),
    max_leaves=8,
)


def _over_http(status: bytes, headers: bytes, body: bytes) -> Behaviour:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1 << 16)
        writer.write(b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n" % (status, headers, len(body)) + body)
        await writer.drain()

    return answer


def _over_redis(replies: list[bytes]) -> Behaviour:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = 0
        while asked := await reader.read(1 << 16):
            for _ in range(max(1, asked.count(b"*"))):
                # What a client says before its question is answered as it wants.
                writer.write(b"+OK\r\n" if place < 2 and b"CLIENT" in asked.upper() else replies[place % len(replies)])
                place += 1
            await writer.drain()

    return answer


async def _measured(type_: str, example: Example, behaviour: Behaviour) -> str | None:
    """Returns what is wrong with the answer of a trigger, None if nothing is."""
    async with behaving(behaviour) as port, sources(port) as asking:
        probe = scaler(type_, example, port)
        try:
            [answer] = await asking.read(SourceKey.of(probe, 1), [probe], 1)
        except Exception as error:
            return f"{type_}: {type(error).__name__}: {error}"
        if isinstance(answer, str):
            return None if answer else f"{type_}: no reason"
        value = float(getattr(answer, "value", answer))
        return None if math.isfinite(value) else f"{type_}: {value}"


def _all(cases: list[Any], behaviour: Behaviour, caplog: pytest.LogCaptureFixture) -> None:
    async def every() -> list[str | None]:
        return await asyncio.gather(*(_measured(case.values[0], case.values[1], behaviour) for case in cases))

    caplog.clear()
    assert not [wrong for wrong in asyncio.run(every()) if wrong]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(github_runner, "PATIENCE", PATIENCE)


@FEW
@given(STATUSES, HEADERS, BODIES)
def test_any_answer_over_http_is_a_number_or_a_reason(
    caplog: pytest.LogCaptureFixture, status: bytes, headers: bytes, body: bytes
) -> None:
    _all(OVER_HTTP, _over_http(status, headers, body), caplog)


@FEW
@given(st.lists(REPLIES, min_size=1, max_size=5))
def test_any_reply_of_redis_is_a_number_or_a_reason(caplog: pytest.LogCaptureFixture, replies: list[bytes]) -> None:
    assert OVER_REDIS
    _all(OVER_REDIS, _over_redis(replies), caplog)
