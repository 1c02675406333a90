"""Polling on a real broker and real (or really broken) measured servers."""

import asyncio
import re
from itertools import count
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import AsyncMock

import pytest
from prometheus_client import REGISTRY
from pydantic import SecretStr
from redis.asyncio import Redis
from redis.exceptions import ConnectionError

from penstock.connections import Connections
from penstock.scaler import Scaler, TooSlow, parameter
from scalers.auth.lookups import Lookups
from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreakers
from scalers.polling.object_poll import common_moment
from scalers.polling.poller import Poller
from scalers.scaler_registry import ScalerRegistry
from scalers.triggers.parse import Parsed
from scheduler.queue import Done
from tests.integration.scalers.servers import commands, hanging, kill_measuring, refusing
from tests.integration.scalers.world import KEYS, World, build, from_config_map, key, redis_trigger, scaled_job
from tests.support.stored_readings import store_readings
from tests.support.tables import cases, for_each
from workers.api.kinds import Object, Ref
from workers.decision.snapshot import Reading, TriggerSample
from workers.errors import NotFound
from workers.runtime.leases import LeaseKeeper
from workers.settings import Settings

#: Where polls are booked.
LATER = KEYS.lane("poll").all()[3]


async def samples(world: World, name: str) -> tuple[TriggerSample, ...]:
    return (await world.reading(name)).samples


async def test_a_poll_stores_a_reading_and_asks_for_a_decision(world: World, port: int) -> None:
    await world.client.rpush("queue", 1, 2, 3)
    await world.apply(scaled_job("work", redis_trigger(port, "queue", listLength="2"), generation=4))
    await world.deciding()
    world.notified.clear()
    async with world.polling() as polling:
        claim = await polling.once()
    assert await world.reading("work") == Reading(
        id=claim.now,
        started=claim.now,
        generation=4,
        samples=(TriggerSample("s0-redis-queue", "redis", 3.0, 2.0, True, claimable=True),),
        uid="uid-work",
        interval=30.0,
    )
    assert await world.deciding() == {"work"}
    assert world.notified["reconcile"] == 1


@cases(
    ("by default", {}, 30),
    ("as the object says", {"pollingInterval": 7}, 7),
    ("in milliseconds", {"pollingInterval": 7, "pollingIntervalMilliseconds": 250}, 0.25),
)
async def test_the_next_poll_is_booked_at_the_common_moment_an_interval_from_the_start_of_this_one(
    spec: dict[str, Any], seconds: float, world: World, port: int
) -> None:
    await world.apply(scaled_job("work", redis_trigger(port, "queue"), **spec))
    async with world.polling() as polling:
        claim = await polling.once()
    # Not by a sweep: what is due by then is booked no more.
    due = common_moment(claim.now / 1e6 + seconds, seconds)
    assert await world.client.zscore(LATER, key("work")) == round(due * 1e6)


async def test_an_idle_object_asks_for_a_decision_only_when_something_changes(world: World, port: int) -> None:
    trigger = redis_trigger(port, "queue", activationListLength="2")
    await world.apply(scaled_job("work", trigger))
    async with world.polling() as polling:
        await polling.once()
        assert await world.deciding() == {"work"}, "the first reading"
        await polling.again("work")
        assert await world.deciding() == set(), "nothing new"
        await world.client.rpush("queue", 1)
        await polling.again("work")
        assert await world.deciding() == {"work"}, "another value"
        await polling.again("work")
        assert await world.deciding() == set(), "a value, but not an active one"
        await world.apply(scaled_job("work", trigger, version=2, generation=2))
        await world.deciding()
        await polling.once()
        assert await world.deciding() == {"work"}, "another generation"


async def test_waiting_work_asks_for_a_decision_every_time(world: World, port: int) -> None:
    await world.client.rpush("queue", 1)
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))
    async with world.polling() as polling:
        await polling.once()
        for _ in range(3):
            await world.deciding()
            await polling.again("work")
            assert await world.deciding() == {"work"}


async def test_ids_increase_also_when_the_last_one_lies_in_the_future(world: World, port: int) -> None:
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))
    async with world.polling() as polling:
        first = await polling.once()
        ahead = Reading(id=first.now + 10**9, started=first.now, generation=1)
        await store_readings(world.readings, {key("work"): ahead}, world.reconcile)
        second = await polling.again("work")
    reading = await world.reading("work")
    assert (reading.id, reading.started) == (ahead.id + 1, second.now)


async def test_ids_increase_also_when_the_broker_was_emptied(world: World, port: int) -> None:
    body = scaled_job("work", redis_trigger(port, "queue"))
    await world.apply(body)
    async with world.polling() as polling:
        await polling.once()
        before = await world.reading("work")
        await world.client.flushall()
        await world.poll.open()
        await world.apply(body)
        await polling.once()
        after = await world.reading("work")
    assert after.id > before.id


async def test_a_namesake_of_a_deleted_object_is_news(world: World, port: int) -> None:
    old = scaled_job("work", redis_trigger(port, "queue"))
    await world.apply(old)
    async with world.polling() as polling:
        await polling.once()
        await world.delete(old)
        await world.apply(scaled_job("work", redis_trigger(port, "queue"), version=9, uid="another"))
        await world.deciding()
        await polling.once()
    assert await world.deciding() == {"work"}
    assert (await world.reading("work")).uid == "another"


async def test_an_object_that_raises_when_it_is_parsed_has_a_reading_that_says_so(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = world.triggers.parse

    async def parsed(of: Ref, body: Object) -> Parsed:
        if of.name == "odd":
            raise KeyError("hunter2")
        return await parse(of, body)

    monkeypatch.setattr(world.triggers, "parse", parsed)
    await world.apply(*(scaled_job(name, redis_trigger(port, "queue")) for name in ("odd", "work")))
    async with world.polling() as polling:
        await polling.once()
    problem = (await world.reading("odd")).problem
    assert problem == "ScaledJob team/odd: its triggers cannot be read: KeyError; the log of the scaler says where"
    assert (await world.reading("work")).problem is None
    assert await world.deciding() == {"odd", "work"}


async def test_a_broker_that_fails_while_an_object_is_parsed_is_no_problem_of_the_object(
    world: World, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.triggers, "parse", AsyncMock(side_effect=ConnectionError("away")))
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))
    async with world.polling() as polling:
        await polling.once()
    assert not await world.has_reading("work")


@cases(
    ("being deleted", {"deleted": "2026-01-01T00:00:00Z"}),
    ("paused", {"annotations": {"autoscaling.keda.sh/paused": "true"}}),
    ("paused by an empty text", {"annotations": {"autoscaling.keda.sh/paused": ""}}),
    ("paused by any other text", {"annotations": {"autoscaling.keda.sh/paused": "please"}}),
)
async def test_an_object_that_is_not_to_be_measured_loses_its_reading_and_its_booking(
    changes: dict[str, Any], world: World, port: int
) -> None:
    trigger = redis_trigger(port, "queue")
    await world.apply(scaled_job("work", trigger))
    async with world.polling() as polling:
        await polling.once()
        await world.apply(scaled_job("work", trigger, version=2, **changes))
        await polling.again("work")
    assert not await world.has_reading("work")
    stats = await world.poll.stats()
    assert (stats.ready, stats.later, stats.leased) == (0, 0, 0)


@for_each("false", "0", "F")
async def test_an_annotation_that_says_no_pauses_nothing(text: str, world: World, port: int) -> None:
    annotations = {"autoscaling.keda.sh/paused": text}
    await world.apply(scaled_job("work", redis_trigger(port, "queue"), annotations=annotations))
    async with world.polling() as polling:
        await polling.once()
    assert await world.has_reading("work")


async def test_an_object_that_is_gone_loses_its_reading(world: World, port: int) -> None:
    body = scaled_job("work", redis_trigger(port, "queue"))
    await world.apply(body)
    async with world.polling() as polling:
        await polling.once()
        await world.delete(body)
        await polling.again("work")
        await polling.again("never-was")
    assert not await world.has_reading("work")
    assert (await world.poll.stats()).later == 0


async def test_a_key_that_names_no_object_is_dropped(world: World) -> None:
    await world.poll.mark(["nonsense", "widgets.example/team/x"])
    async with world.polling() as polling:
        await polling.once()
    stats = await world.poll.stats()
    assert (stats.ready, stats.later, stats.leased, stats.failing) == (0, 0, 0, 0)


@cases(
    ("no trigger", (), "spec.triggers: there is no trigger"),
    ("no type", ({"type": "", "metadata": {}},), r"trigger 0 \(no type\): type: is required"),
    ("a type of KEDA's", ({"type": "pulsar", "metadata": {}},), "pulsar is not supported yet"),
    ("a type of nobody's", ({"type": "redsi", "metadata": {}},), "no trigger type redsi"),
    ("unquoted number", (redis_trigger(1, "q", listLength=5),), "listLength: must be a text; .* need quotes"),
    (
        "authenticationRef to nothing",
        ({**redis_trigger(1, "q"), "authenticationRef": {"name": "login"}},),
        r"trigger 0 \(redis\): authenticationRef: TriggerAuthentication team/login does not exist",
    ),
    ("metric", ({**redis_trigger(1, "q"), "metricType": "Value"},), "metricType: has no meaning on a ScaledJob"),
    (
        "names not unique",
        ({**redis_trigger(1, "q"), "name": "a"}, {**redis_trigger(1, "r"), "name": "a"}),
        "several triggers are named a",
    ),
    (
        "several problems",
        (redis_trigger(1, "q"), redis_trigger(1, "q", listLength="x"), redis_trigger(1, "")),
        r"trigger 1 \(redis\): listLength: .*; trigger 2 \(redis\): listName: is required",
    ),
)
async def test_a_spec_that_cannot_be_measured_is_a_problem(
    triggers: tuple[Any, ...], problem: str, real_redis: Redis
) -> None:
    async def nothing(ref: Ref) -> Object:
        raise NotFound(str(ref), status=404)

    world = await build(real_redis, lookups=Lookups(nothing))
    await world.apply(scaled_job("work", *triggers))
    await world.deciding()
    async with world.polling() as polling:
        await polling.once()
        reading = await world.reading("work")
        assert reading.samples == ()
        assert re.search(problem, reading.problem or "")
        assert await world.deciding() == {"work"}
        await polling.again("work")
        assert await world.deciding() == set(), "the same problem again is no news"
    assert (await world.poll.stats()).later == 1, "it is looked at again"


async def test_one_trigger_that_fails_does_not_hide_the_others(world: World, port: int) -> None:
    await world.client.set("text", "x")
    await world.client.rpush("queue", 1)
    await world.apply(scaled_job("work", redis_trigger(port, "text"), redis_trigger(port, "queue")))
    async with world.polling() as polling:
        await polling.once()
    failed, measured = await samples(world, "work")
    assert (failed.name, failed.value, failed.active) == ("s0-redis-text", 0.0, False)
    assert failed.error is not None
    assert "text: WRONGTYPE" in failed.error
    assert measured == TriggerSample("s1-redis-queue", "redis", 1.0, 5.0, True, claimable=True)


@for_each(1, 1000)
async def test_objects_of_one_server_are_measured_in_one_round_trip(objects: int, world: World, port: int) -> None:
    await world.apply(*(scaled_job(f"work{n}", redis_trigger(port, f"queue{n}")) for n in range(objects)))
    async with world.polling() as polling:
        before = await commands(world.client)
        await polling.once()
        after = await commands(world.client)
    # The lists are on our own broker: its scripts are counted, too, each perhaps twice because it was not known.
    scripts = [sum(counts.get(name, 0) for name in ("eval", "evalsha")) for counts in (before, after)]
    assert scripts[1] - scripts[0] <= 10, "500 lists a call"
    assert after["type"] - before.get("type", 0) == objects
    assert (await world.poll.stats()).later == objects


async def test_a_server_that_hangs_delays_only_its_own_objects(world: World, port: int) -> None:
    async with hanging() as dead, world.polling(timeout=60.0) as polling:
        await world.apply(
            scaled_job("slow", redis_trigger(dead, "queue")),
            scaled_job("both", redis_trigger(port, "queue"), redis_trigger(dead, "queue")),
            scaled_job("fast", redis_trigger(port, "queue")),
        )
        await world.deciding()
        poll = asyncio.create_task(polling.once())
        async with asyncio.timeout(50):
            while not await world.has_reading("fast") or (await world.poll.stats()).later == 0:
                await asyncio.sleep(0.01)
        assert await world.deciding() == {"fast"}
        assert (await world.poll.stats()).leased == 2
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
    assert not await world.has_reading("slow")
    assert not await world.has_reading("both")


async def test_a_server_that_hangs_is_unknown_and_not_zero(world: World) -> None:
    async with hanging() as dead, world.polling(timeout=0.05) as polling:
        await world.apply(scaled_job("work", redis_trigger(dead, "queue")))
        await polling.once()
        [sample] = await samples(world, "work")
    assert sample.error == f"127.0.0.1:{dead}/0: no answer within 0.05 s"


async def test_a_tls_handshake_without_an_answer_has_the_same_deadline(world: World, port: int) -> None:
    async with world.polling(timeout=0.05) as polling:
        await world.apply(scaled_job("work", redis_trigger(port, "queue", enableTLS="true")))
        await polling.once()
        [sample] = await samples(world, "work")
    assert sample.error is not None
    assert "no answer within" in sample.error


async def test_a_server_that_went_on_failing_is_left_alone_with_the_same_reason(world: World) -> None:
    port = refusing()
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))
    attempts = 0

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    async with world.polling(threshold=2) as polling:
        await polling.once()
        first = await samples(world, "work")
        await polling.again("work")
        opened = await samples(world, "work")
        assert await world.deciding() == {"work"}, "that it is left alone is news"
        server = await asyncio.start_server(accept, "127.0.0.1", port)
        await polling.again("work")
        server.close()
        await server.wait_closed()
    assert attempts == 0
    assert await samples(world, "work") == opened
    assert first[0].error is not None
    assert (first[0].alone_since, opened[0].error) == (0, first[0].error)
    assert 0 < opened[0].alone_since < opened[0].next_attempt
    assert await world.deciding() == set(), "the same reason is no news"


async def test_a_failing_server_is_tried_again_once_on_a_fresh_connection(world: World, port: int) -> None:
    await world.client.rpush("queue", 1)
    await world.apply(scaled_job("work", redis_trigger(port, "queue", databaseIndex="0")))
    async with world.polling() as polling:
        await polling.once()
        assert await kill_measuring(world.client) == 1
        await polling.again("work")
    [sample] = await samples(world, "work")
    assert (sample.error, sample.value) == (None, 1.0)


async def test_what_an_environment_holds_is_looked_up_again_after_a_failure(real_redis: Redis, port: int) -> None:
    stored = {"port": "1"}

    async def get(_: Ref) -> Object:
        return {"data": dict(stored)}

    # Two seconds go by between any two looks at the clock.
    world = await build(real_redis, lookups=Lookups(get, clock=count(step=2).__next__))
    await world.client.rpush("queue", 1, 2)
    await world.apply(from_config_map("work"))
    async with world.polling() as polling:
        stored["port"] = str(refusing())
        await polling.once()
        [failed] = await samples(world, "work")
        stored["port"] = str(port)
        await polling.again("work")
        [measured] = await samples(world, "work")
    assert failed.error is not None
    assert (measured.error, measured.value) == (None, 2.0)


async def test_an_environment_that_cannot_be_resolved_is_a_problem_for_as_long(real_redis: Redis, port: int) -> None:
    stored: dict[str, str] = {}

    async def get(ref: Ref) -> Object:
        if not stored:
            raise NotFound(str(ref), status=404)
        return {"data": stored}

    world = await build(real_redis, lookups=Lookups(get))
    await world.apply(from_config_map("work"))
    async with world.polling() as polling:
        await polling.once()
        before = await world.reading("work")
        stored["port"] = str(port)
        await polling.again("work")
        after = await world.reading("work")
    assert before.problem == "container main: env PORT: ConfigMap team/work does not exist"
    assert after.problem is None


async def test_an_object_is_measured_at_the_instant_at_which_its_credentials_arrive(
    real_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, waits = 5000.0, asyncio.Event()

    def monotonic() -> float:
        waits.set()
        return seconds

    async def get(_: Ref) -> Object:
        nonlocal seconds
        await waits.wait()
        seconds += 1000
        return {"data": {"port": str(refusing())}}

    monkeypatch.setattr("scalers.polling.poller.PARSING", 0)
    monkeypatch.setattr("scalers.polling.poller.time", SimpleNamespace(monotonic=monotonic))
    world = await build(real_redis, lookups=Lookups(get))
    await world.apply(from_config_map("work"))
    async with world.polling(threshold=1, base=0.0) as polling:
        claim = await polling.once()
    [failed] = await samples(world, "work")
    # The instant of the failure: what it took comes on top, which is little beside a thousand seconds.
    assert 1000 <= (failed.next_attempt - claim.now) / 1e6 < 2000


async def test_a_scaler_of_somebody_else_that_breaks_is_a_reason_without_its_secret(real_redis: Redis) -> None:
    registry = ScalerRegistry()

    @registry.register("broken")
    class Broken(Scaler):
        """Quotes its own password when it fails, as some libraries do."""

        token: SecretStr = parameter()

        metric: ClassVar[str] = "broken"
        target: ClassVar[float] = 1.0

        async def measure(self) -> float:
            raise RuntimeError(f"cannot log in with {self.token.get_secret_value()}")

    world = await build(real_redis, registry=registry)
    await world.apply(scaled_job("work", {"type": "broken", "metadata": {"token": "hunter2"}}))
    async with world.polling() as polling:
        await polling.once()
    [sample] = await samples(world, "work")
    assert sample.error == "RuntimeError: cannot log in with ***"


async def test_a_failure_of_our_own_brings_the_keys_back(world: World, port: int, caplog: Any) -> None:
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))

    async def faulty(*_: Any, **__: Any) -> None:
        raise KeyError("a fault")

    async with world.polling() as polling:
        world.readings.hand_over = faulty  # type: ignore[method-assign]
        await polling.once()
    stats = await world.poll.stats()
    assert (stats.leased, stats.failing, stats.later) == (0, 1, 1)
    assert "failed unexpectedly" in caplog.text


async def test_a_poll_that_lost_its_lease_changes_nothing(world: World, port: int) -> None:
    await world.apply(scaled_job("work", redis_trigger(port, "queue")))
    late = await world.poll.claim(10)
    async with world.polling() as polling:
        later = Reading(id=late.now + 5, started=late.now + 5, generation=1, uid="uid-work")
        original = world.readings.hand_over

        async def overtaken(*args: Any, **more: Any) -> Any:
            world.readings.hand_over = original  # type: ignore[method-assign]
            await store_readings(world.readings, {key("work"): later}, world.reconcile)
            await world.deciding()
            return await original(*args, **more)

        world.readings.hand_over = overtaken  # type: ignore[method-assign]
        polling.keeper.take(late.leases)
        await polling.poller.handle(late, polling.keeper)
    assert await world.reading("work") == later
    assert await world.deciding() == set()


async def test_what_is_measured_after_the_lease_was_lost_is_told_to_nobody(real_redis: Redis) -> None:
    registry, asked, go_on = ScalerRegistry(), asyncio.Event(), asyncio.Event()

    @registry.register("slow")
    class Slow(Scaler):
        """Answers when it is told to."""

        metric: ClassVar[str] = "slow"
        target: ClassVar[float] = 1.0

        async def measure(self) -> float:
            asked.set()
            await go_on.wait()
            return 3.0

    world = await build(real_redis, registry=registry)
    body = scaled_job("work", {"type": "slow", "metadata": {}})
    await world.apply(body)
    await world.deciding()
    async with world.polling() as lost, world.polling() as another:
        polling = asyncio.create_task(lost.once())
        await asked.wait()
        # As when the broker was away for longer than the lease: another process finds the object gone.
        [lease] = lost.keeper._held
        lost.keeper.drop([lease])
        await world.poll.finish([(lease, Done())])
        await world.delete(body)
        await another.once()
        await world.deciding()
        go_on.set()
        await polling
    assert not await world.has_reading("work")
    assert await world.deciding() == set()
    stats = await world.poll.stats()
    assert (stats.ready, stats.later, stats.leased) == (0, 0, 0)


async def test_the_breaker_of_one_question_is_told_of_its_own_trigger_alone(real_redis: Redis) -> None:
    registry = ScalerRegistry()

    @registry.register("asked")
    class Asked(Scaler):
        """One of the server's questions takes too long."""

        name: str = parameter()

        metric: ClassVar[str] = "asked"
        target: ClassVar[float] = 1.0
        server: ClassVar[str] = "the server"

        async def measure(self) -> float:
            if self.name == "slow":
                raise TooSlow("no answer in time")
            return 5.0

    world = await build(real_redis, registry=registry)
    bodies = [scaled_job(name, {"type": "asked", "metadata": {"name": name}}) for name in ("quick", "slow")]
    async with world.polling(threshold=1) as polling:
        for body in bodies:
            await world.apply(body)
            await polling.once()
        began = polling.world.claims[-1].now
    [quick], [slow] = await samples(world, "quick"), await samples(world, "slow")
    assert (quick.error, quick.source, quick.next_attempt) == (None, "", 0)
    assert slow.error is not None
    assert (slow.source, slow.alone_since) == ("the server", began)
    assert slow.next_attempt > began
    taken = REGISTRY.get_sample_value(
        "keda_scaler_metrics_latency_seconds",
        {
            **{"namespace": "team", "scaledObject": "quick", "scaler": "asked"},
            **{"metric": quick.name, "triggerIndex": "0", "type": "scaledjob"},
        },
    )
    assert taken is not None
    assert 0 <= taken < 60, "what the answer took, and no instant of some clock"


async def test_a_poller_measures_as_the_settings_say(real_redis: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, cluster = ScalerRegistry(), object()
    client: Any = cluster
    policies: list[BreakerPolicy] = []

    def breakers(policy: BreakerPolicy) -> CircuitBreakers:
        policies.append(policy)
        return CircuitBreakers(policy)

    monkeypatch.setattr("scalers.polling.poller.CircuitBreakers", breakers)

    @registry.register("cluster")
    class OfTheCluster(Scaler):
        """Says whether it may read the cluster, and is as patient as a quarter of the timeout."""

        metric: ClassVar[str] = "cluster"
        target: ClassVar[float] = 1.0

        async def answer(self, connections: Connections) -> float:
            return 7.0 if (connections.cluster, connections.patience) == (cluster, 0.05 / 4) else 0.0

    @registry.register("silent")
    class Silent(Scaler):
        """Never answers."""

        metric: ClassVar[str] = "silent"
        target: ClassVar[float] = 1.0

        async def measure(self) -> float:
            await asyncio.Event().wait()
            return 1.0

    world = await build(real_redis, registry=registry)
    await world.apply(scaled_job("work", {"type": "cluster", "metadata": {}}, {"type": "silent", "metadata": {}}))
    poller = Poller(
        **{name: getattr(world, name) for name in ("store", "readings", "orders", "reconcile", "notify", "triggers")},
        settings=Settings(polling=20.0, source_timeout=0.05),
        cluster=client,
    )
    keeper = LeaseKeeper(world.poll, world.notify, lease=world.poll.lease)
    await world.poll_once(poller, keeper)
    await keeper.close()
    await poller.close()
    found, silent = await samples(world, "work")
    assert (found.value, silent.error) == (7.0, "the source: no answer within 0.05 s")
    assert policies == [BreakerPolicy(cap=20.0, probe=0.05)]
