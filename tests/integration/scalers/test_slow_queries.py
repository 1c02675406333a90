"""Queries that take too long on real servers: they are stopped there, and nobody else notices."""

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiomysql
import pytest

from penstock.parameters import Trigger
from penstock.scaler import Measure, Scaler
from scalers.polling.batched import BatchedReader
from scalers.polling.single import AT_ONCE
from scalers.sources.messaging.rabbitmq import RabbitMQ
from tests.integration.scalers import servers
from tests.integration.scalers.daemons import mariadb, postgres, psql, rabbitmq
from tests.integration.scalers.servers import reading
from tests.integration.scalers.sources.test_sql import of_mysql, of_postgres
from tests.support.conditions import eventually
from tests.support.servers import relayed

#: Seconds that one answer may take here.
PATIENCE = 1.0
TOO_SLOW = "no answer within 1 s"


@pytest.fixture
async def sources() -> AsyncIterator[BatchedReader]:
    async with reading(PATIENCE, threshold=99) as made:
        yield made


async def ask(sources: BatchedReader, *probes: Scaler) -> list[Any]:
    """One value or reason for each."""
    return [answer.value if isinstance(answer, Measure) else answer for answer in await servers.ask(sources, *probes)]


async def check(
    sources: BatchedReader, make: Callable[[str], Scaler], sleep: str, under_way: Callable[[], Awaitable[int]]
):
    """Ten slow queries between ten quick ones, and ten quick ones after them."""
    probes = [make(sleep if place % 2 else f"SELECT {place}") for place in range(20)]
    answers = await ask(sources, *probes)
    assert answers[::2] == [float(place) for place in range(0, 20, 2)]
    assert all(TOO_SLOW in answer for answer in answers[1::2])
    await eventually(async_is(under_way, 0))
    assert await ask(sources, *probes[::2]) == [float(place) for place in range(0, 20, 2)]


def async_is(number: Callable[[], Awaitable[int]], wanted: int) -> Callable[[], Awaitable[bool]]:
    async def same() -> bool:
        return await number() == wanted

    return same


async def test_postgresql_ends_queries_that_are_given_up(sources: BatchedReader) -> None:
    async with postgres() as port, psql(port) as looking:

        async def count(condition: str) -> int:
            cursor = await looking.execute(
                "SELECT count(*) FROM pg_stat_activity"
                f" WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND {condition}"
            )
            row = await cursor.fetchone()
            return int(row[0]) if row else 0

        await check(
            sources,
            lambda query: of_postgres(port, query),
            "SELECT pg_sleep(600)",
            lambda: count("query LIKE '%pg_sleep%' AND state = 'active'"),
        )
        assert 0 < await count("true") <= AT_ONCE
        await sources.close()
        await eventually(async_is(lambda: count("true"), 0))


async def test_mysql_ends_queries_that_are_given_up(sources: BatchedReader, tmp_path: Path) -> None:
    async with mariadb(tmp_path) as port:
        looking = await aiomysql.connect(host="127.0.0.1", port=port, user="work", password="hush", autocommit=True)

        async def count(condition: str) -> int:
            async with looking.cursor() as cursor:
                await cursor.execute(
                    "SELECT count(*) FROM information_schema.processlist"
                    f" WHERE user = 'work' AND id <> connection_id() AND {condition}"
                )
                return int((await cursor.fetchone())[0])

        await check(
            sources, lambda query: of_mysql(port, query), "SELECT SLEEP(600)", lambda: count("info LIKE '%SLEEP%'")
        )
        await eventually(lambda: at_most(count("true"), AT_ONCE))
        await sources.close()
        await eventually(async_is(lambda: count("true"), 0))
        looking.close()


async def at_most(number: Awaitable[int], most: int) -> bool:
    return await number <= most


async def test_a_postgresql_that_stands_still_is_given_up_in_time_and_found_again(sources: BatchedReader) -> None:
    async with postgres() as port, psql(port) as looking:
        probe = of_postgres(port, "SELECT 7")
        assert await ask(sources, probe) == [7.0]
        cursor = await looking.execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'")
        backends = [int(row[0]) for row in await cursor.fetchall()]
        postmaster = int(Path(f"/proc/{backends[0]}/stat").read_text().rpartition(")")[2].split()[1])
        stopped = [postmaster, *backends]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            # A test that waited for the server here would never end.
            [said] = await ask(sources, probe)
            assert TOO_SLOW in said
            assert f"127.0.0.1:{port}" in said
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert await ask(sources, probe) == [7.0]


async def test_an_amqp_broker_that_stands_still_is_given_up_in_time_and_found_again(
    sources: BatchedReader, tmp_path: Path
) -> None:
    def queue(port: int, name: str) -> RabbitMQ:
        metadata = {"host": f"amqp://guest:guest@127.0.0.1:{port}/", "queueName": name}
        return RabbitMQ.parse(Trigger(0, "rabbitmq", metadata=metadata))

    async with rabbitmq(tmp_path) as (amqp, _), relayed(amqp) as relay:
        probes = [queue(relay.port, f"none-{number}") for number in range(20)]
        assert all("none" in said for said in await ask(sources, *probes))
        assert relay.connections == 1, "a channel for each, and one connection"
        relay.going.clear()
        assert all(TOO_SLOW in said for said in await ask(sources, *probes))
        relay.going.set()
        assert all("NOT_FOUND" in said for said in await ask(sources, *probes))
