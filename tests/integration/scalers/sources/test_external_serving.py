"""Triggers measured for an existing KEDA: asked as KEDA asks, and by our own `external` trigger (a round trip)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from redis.asyncio import Redis

from deploy.processes import external_scaler
from deploy.processes.external_scaler import serving
from penstock.connections import Connections
from penstock.scaler import Measure, SourceError
from scalers.sources.external.messages import GET_METRIC_SPEC, GET_METRICS, IS_ACTIVE, message
from scalers.sources.external.trigger import External
from scalers.wakeups.stream_listener import PushListener
from tests.integration.scalers.external_server import asking as external_trigger
from tests.integration.scalers.servers import port_of, refusing
from tests.integration.scalers.test_wakeups import until
from tests.support.certificates import certificates
from tests.support.external_calls import call, reference, streaming
from tests.support.tables import cases
from workers.errors import UserError
from workers.settings import Settings

MARKER = "hunter2-and-more"


@asynccontextmanager
async def served(broker: str, **options: Any) -> AsyncIterator[str]:
    """The address of a server that has everything on loopback."""
    settings = Settings.model_validate({"broker": broker, "external_listen": "127.0.0.1:0", **options})
    async with serving(settings) as port:
        yield f"127.0.0.1:{port}"


async def test_what_keda_asks(real_redis: Redis, redis_url: str) -> None:
    await real_redis.rpush("a.list", *range(7))
    asked = reference(
        trigger="redis", address=f"127.0.0.1:{port_of(redis_url)}", listName="a.list", listLength="2",
        activationListLength="6", scalerAddress="here", enableTLS="true", trigger__enableTLS="false",
    )  # fmt: skip
    async with served(redis_url) as address:
        [spec] = (await call(address, GET_METRIC_SPEC, asked)).metricSpecs
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("redis-a-list", 2, 2.0)
        request = message("GetMetricsRequest")(scaledObjectRef=asked, metricName=spec.metricName)
        [value] = (await call(address, GET_METRICS, request)).metricValues
        assert (value.metricName, value.metricValue, value.metricValueFloat) == ("redis-a-list", 7, 7.0)
        assert (await call(address, IS_ACTIVE, asked)).result
        asked.scalerMetadata["activationListLength"] = "7"
        assert not (await call(address, IS_ACTIVE, asked)).result


async def test_pushed_events_by_our_own_external_trigger(
    real_redis: Redis, redis_url: str, connections: Connections
) -> None:
    async with served(redis_url) as address:
        asking = external_trigger(address, trigger="push", eventsPerJob="3")
        assert await External.read([asking], connections) == [Measure(0.0, False, target=3.0)]
        for number in range(4):
            event = {"specversion": "1.0", "id": str(number), "source": "/tests", "type": "t"}
            await real_redis.xadd("{penstock}:events:team/work", event)  # type: ignore[arg-type]

        async def told() -> bool:
            return await External.read([asking], connections) == [Measure(4.0, True, target=3.0)]

        await until(told)


async def test_a_push_is_streamed_at_once(real_redis: Redis, redis_url: str) -> None:
    where = f"127.0.0.1:{port_of(redis_url)}"
    async with served(redis_url, polling=0.2) as server:
        request = external_trigger(server, trigger="redis", address=where, listName="l")._reference.message()
        async with streaming(server, request) as stream:
            assert not (await stream.read()).result, "at once, and nothing waits"
            await real_redis.rpush("l", 1)
            assert (await stream.read()).result
            await real_redis.rpush("l", 2)
            assert (await stream.read()).result, "told again although it was active already"
            await real_redis.delete("l")
            # By the next look: deletion is no growth. A push between two looks may have been told twice.
            while (await stream.read()).result:
                pass


async def test_our_own_external_push_trigger_hears_it(real_redis: Redis, redis_url: str) -> None:
    heard: list[str] = []
    async with served(redis_url) as server:
        asking = external_trigger(server, trigger="redis", address=f"127.0.0.1:{port_of(redis_url)}", listName="l")
        listener = PushListener(asking.server, lambda woken: heard.extend(one.name for one in woken))
        listener.follow([asking._reference])
        task = asyncio.create_task(listener.run())
        try:
            await until(lambda: asyncio.sleep(0, listener.status().connected))
            before = len(heard)
            await real_redis.rpush("l", 1)
            await until(lambda: asyncio.sleep(0, len(heard) > before))
            assert set(heard) == {"work"}
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_what_the_environment_supplied_is_used_and_never_told(redis_url: str, connections: Connections) -> None:
    async with served(redis_url) as address:
        where = f"127.0.0.1:{port_of(redis_url)}"
        asking = external_trigger(
            address, {"PW": MARKER}, trigger="redis", address=where, listName="l", passwordFromEnv="PW"
        )
        [answer] = await External.read([asking], connections)
        assert isinstance(answer, SourceError), "the server has no password"
        assert MARKER not in str(answer)
        wrong = reference(trigger="redis", addressFromEnv=MARKER, listName="l")
        with pytest.raises(aio.AioRpcError) as refused:
            await call(address, GET_METRIC_SPEC, wrong)
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert MARKER not in (refused.value.details() or "")


@cases(
    ("no trigger", {}, "metadata trigger must say which"),
    ("unknown trigger", {"trigger": "nonsense"}, "there is no trigger type nonsense"),
    ("somebody else's again", {"trigger": "external"}, "external is not served here"),
    ("a type that is not offered", {"trigger": "cron"}, "cron is not served here"),
    ("wrong metadata", {"trigger": "redis"}, "listName: is required"),
    ("unknown", {"trigger": "redis", "listName": "l", "colour": "r"}, "colour: is not a parameter"),
)
async def test_what_is_wrong_is_said(metadata: dict[str, str], said: str, redis_url: str) -> None:
    async with served(redis_url, external_triggers="redis,external,nonsense") as address:
        with pytest.raises(aio.AioRpcError) as refused:
            await call(address, GET_METRIC_SPEC, reference(**metadata))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert said in (refused.value.details() or "")


def test_a_type_of_trigger_that_there_is_not_ends_the_start() -> None:
    settings = Settings.model_validate({"external_triggers": "redis,celary"})
    with pytest.raises(UserError, match="--external-triggers: there is no trigger type celary"):
        external_scaler.main(settings)


async def test_kedas_way_is_that_of_the_setting(redis_url: str) -> None:
    asked = reference(trigger="cron", timezone="UTC", start="0 0 30 2 *", end="0 0 1 1 *", desiredReplicas="2")
    async with served(redis_url, keda_quirks="cron-next-ticks") as address:
        assert (await call(address, IS_ACTIVE, asked)).result, "its start never comes"
    async with served(redis_url) as address:
        with pytest.raises(aio.AioRpcError) as refused:
            await call(address, IS_ACTIVE, asked)
        assert "never fires" in (refused.value.details() or "")


async def test_a_source_that_is_away_is_an_error_and_never_nothing(redis_url: str) -> None:
    asked = reference(trigger="redis", address=f"127.0.0.1:{refusing()}", listName="l")
    async with served(redis_url) as address:
        for method, request in (
            (IS_ACTIVE, asked),
            (GET_METRICS, message("GetMetricsRequest")(scaledObjectRef=asked, metricName="m")),
        ):
            with pytest.raises(aio.AioRpcError) as refused:
                await call(address, method, request)
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION, (
                "we are there: others' sources may be, too"
            )
            assert asked.scalerMetadata["address"] in (refused.value.details() or "")
        assert (await call(address, GET_METRIC_SPEC, asked)).metricSpecs, "its target is known all the same"


async def test_tls_both_ways(redis_url: str, tmp_path: Path, connections: Connections) -> None:
    ours = certificates()
    files = {"cert": ours.server, "key": ours.server_key, "clients": ours.authority}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = {f"external_{name}": tmp_path / name for name in files}
    async with served(redis_url, **options) as address:
        shown = {"caCert": ours.authority, "tlsClientCert": ours.client, "tlsClientKey": ours.client_key}
        good = external_trigger(address, trigger="push", **shown)
        assert await External.read([good], connections) == [Measure(0.0, False, target=1.0)]
        with pytest.raises(SourceError, match="UNAVAILABLE"):
            await External.read([external_trigger(address, trigger="push", caCert=ours.authority)], connections)


async def test_it_says_where_it_listens_and_whom_it_serves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    ours = certificates()
    secured: dict[str, Any] = {"external_triggers": ("push", "celery")}
    for name, text in {"cert": ours.server, "key": ours.server_key, "clients": ours.authority}.items():
        (tmp_path / name).write_text(text)
        secured[f"external_{name}"] = tmp_path / name
    told = []
    choices: list[dict[str, Any]] = [{}, secured]
    for options in choices:
        async with served(f"redis://:{MARKER}@127.0.0.1:1/0", **options) as address:
            [record] = [vars(each) for each in caplog.records if each.name == "deploy.processes.external_scaler"]
            told.append((record["address"] == address, record["tls"], record["clients"], record["triggers"]))
            assert MARKER not in str(record)
        caplog.clear()
    assert told == [
        (True, "off", "any", "all"),
        (True, "on", "with a certificate of --external-clients", "push, celery"),
    ]


@cases(
    ("no key", {"external_cert": "/none"}, "must come together"),
    ("clients without TLS", {"external_clients": "/none"}, "needs --external-cert"),
    ("no file", {"external_cert": "/none", "external_key": "/none"}, "/none: No such file"),
    ("no address", {"external_listen": "256.0.0.1:1"}, "256.0.0.1:1 cannot be listened on"),
)
async def test_a_server_that_cannot_listen_says_so(options: dict[str, str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        async with served("redis://127.0.0.1:1/0", **options):
            pass
