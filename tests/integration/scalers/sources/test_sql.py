"""The `postgresql` and `mysql` triggers against real servers."""

import asyncio
from pathlib import Path
from typing import Any

import aiomysql
import pytest

from penstock.connections import Connections
from penstock.parameters import Trigger
from penstock.scaler import Measure, SourceError
from scalers.sources.databases.mysql import MySQL
from scalers.sources.databases.postgresql import PostgreSQL
from tests.integration.scalers.daemons import CONNINFO, mariadb, postgres, psql
from tests.integration.scalers.servers import ask, hanging, reading, refusing
from tests.support.certificates import certificates
from tests.support.servers import behaving
from tests.support.tables import for_each


def of_postgres(port: int, query: str, password: str = "hush", **metadata: str) -> PostgreSQL:
    where = {"host": "127.0.0.1", "port": str(port), "userName": "work", "dbName": "postgres", "sslmode": "prefer"}
    metadata = {**where, "query": query, "targetQueryValue": "5", **metadata}
    return PostgreSQL.parse(Trigger(0, "postgresql", metadata=metadata, authentication={"password": password}))


def of_mysql(port: int, query: str, password: str = "hush") -> MySQL:
    metadata = {"host": "127.0.0.1", "port": str(port), "username": "work", "dbName": "work"}
    metadata |= {"query": query, "queryValue": "5"}
    return MySQL.parse(Trigger(0, "mysql", metadata=metadata, authentication={"password": password}))


QUERIES = [
    ("SELECT count(*) FROM jobs", 3.0),
    ("SELECT 2.5", 2.5),
    ("SELECT '7'", 7.0),
    ("SELECT sum(n) FROM jobs WHERE n > 100", "NULL"),
    ("SELECT n FROM jobs WHERE n > 100", "no row"),
    ("SELECT 'many'", "no finite number"),
    ("SELECT missing FROM jobs", "missing"),
    ("SELECT FROM FROM", "syntax"),
    ("SELECT count(*) FROM jobs", 3.0),
]


def check(answers: list[Any]) -> None:
    for (query, expected), answer in zip(QUERIES, answers, strict=True):
        if isinstance(expected, float):
            assert answer == expected, query
        else:
            assert isinstance(answer, SourceError), query
            assert expected in str(answer)


async def test_a_real_postgresql(connections: Connections) -> None:
    async with postgres() as port, psql(port) as setup:
        await setup.execute("CREATE TABLE jobs (n int)")
        await setup.execute("INSERT INTO jobs VALUES (1), (2), (3)")
        check(list(await PostgreSQL.read([of_postgres(port, query) for query, _ in QUERIES], connections)))
        for whole in (CONNINFO.format(port), f"postgresql://work:hush@127.0.0.1:{port}/postgres"):
            metadata = {"query": "SELECT 4", "targetQueryValue": "1"}
            trigger = Trigger(0, "postgresql", metadata=metadata, authentication={"connection": whole})
            assert await PostgreSQL.read([PostgreSQL.parse(trigger)], connections) == [4.0]
        with pytest.raises(SourceError, match="password authentication failed") as refused:
            await PostgreSQL.read([of_postgres(port, "SELECT 1", password="wrong-one")], connections)
        assert "wrong-one" not in str(refused.value)
        # The server drops our connection; the second attempt of the same poll has a fresh one.
        probe = of_postgres(port, "SELECT count(*) FROM jobs")
        async with reading(5.0) as sources:
            assert await ask(sources, probe) == [Measure(3.0)]
            await setup.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            assert await ask(sources, probe) == [Measure(3.0)]


async def test_a_query_stays_one_that_any_connection_behind_a_pooler_takes(connections: Connections) -> None:
    async with postgres() as port, psql(port) as setup:
        await setup.execute("CREATE TABLE jobs (n int)")
        await setup.execute("INSERT INTO jobs VALUES (7)")
        rows = of_postgres(port, "SELECT n FROM jobs")
        for _ in range(8):
            assert await PostgreSQL.read([rows], connections) == [7.0]
        prepared = of_postgres(port, "SELECT count(*) FROM pg_prepared_statements")
        assert await PostgreSQL.read([prepared], connections) == [0.0]
        # The plan of a prepared statement would not survive this.
        await setup.execute("ALTER TABLE jobs ALTER COLUMN n TYPE bigint")
        assert await PostgreSQL.read([rows], connections) == [7.0]


async def test_a_real_mariadb(tmp_path: Path, connections: Connections) -> None:
    async with mariadb(tmp_path) as port:
        setup = await aiomysql.connect(
            host="127.0.0.1", port=port, user="work", password="hush", db="work", autocommit=True
        )
        async with setup.cursor() as cursor:
            await cursor.execute("CREATE TABLE jobs (n int)")
            await cursor.execute("INSERT INTO jobs VALUES (1), (2), (3)")
        setup.close()
        check(list(await MySQL.read([of_mysql(port, query) for query, _ in QUERIES], connections)))
        assert await MySQL.read([by_dsn(port, "?timeout=5s")], connections) == [4.0]
        with pytest.raises(SourceError, match="Access denied") as refused:
            await MySQL.read([of_mysql(port, "SELECT 1", password="wrong-one")], connections)
        assert "wrong-one" not in str(refused.value)


def by_dsn(port: int, options: str) -> MySQL:
    metadata = {"query": "SELECT 4", "queryValue": "1"}
    whole = {"connectionString": f"work:hush@tcp(127.0.0.1:{port})/work{options}"}
    return MySQL.parse(Trigger(0, "mysql", metadata=metadata, authentication=whole))


async def test_tls_of_a_connection_string(tmp_path: Path, connections: Connections) -> None:
    ours = certificates()
    for name, text in (("cert", ours.server), ("key", ours.server_key), ("ca", ours.authority)):
        (tmp_path / name).write_text(text)
    options = [f"--ssl-{name}={tmp_path / name}" for name in ("cert", "key", "ca")]
    async with mariadb(tmp_path / "db", *options, "--require-secure-transport=ON") as port:
        for word in ("skip-verify", "preferred"):
            assert await MySQL.read([by_dsn(port, f"?tls={word}")], connections) == [4.0]
        for word, reason in (("true", "CERTIFICATE_VERIFY_FAILED"), ("false", "Access denied")):
            with pytest.raises(SourceError, match=reason):
                await MySQL.read([by_dsn(port, f"?tls={word}")], connections)


def greeting(plugin: str) -> bytes:
    """A MySQL server's first packet: it speaks no TLS."""
    flags = (0x000FA20F & ~0x0800).to_bytes(4, "little")
    head = b"\x0a8.0.0\0" + bytes(4) + b"saltsalt\0" + flags[:2] + b"\x21\x02\0" + flags[2:] + b"\x15" + bytes(10)
    body = head + b"saltsaltsalt\0" + plugin.encode() + b"\0"
    return len(body).to_bytes(3, "little") + b"\0" + body


@for_each(
    ("?tls=true", "mysql_native_password", "the server speaks no TLS"),
    ("?tls=skip-verify", "mysql_native_password", "the server speaks no TLS"),
    ("", "mysql_clear_password", "asks for a login by mysql_clear_password"),
    ("?tls=preferred", "mysql_clear_password", "asks for a login by mysql_clear_password"),
    ("?tls=preferred", "mysql_native_password", None),
    ("?allowCleartextPasswords=true", "mysql_clear_password", None),
)
async def test_a_login_goes_no_less_protected_than_the_connection_string_says(
    options: str, plugin: str, said: str | None, connections: Connections
) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting(plugin))
        heard.append(await reader.read(1 << 16))

    async with behaving(serve) as port:
        with pytest.raises(SourceError, match=said or "Lost connection"):
            await MySQL.read([by_dsn(port, options)], connections)
        await connections.close()
    assert bool(b"".join(heard)) is (said is None), "not even the user's name"


@for_each(("", False), ("?allowCleartextPasswords=true", True))
async def test_a_server_that_asks_for_the_password_afterwards_gets_it_only_where_that_is_allowed(
    options: str, shown: bool, connections: Connections
) -> None:
    heard: list[bytes] = []
    switch = b"\xfemysql_clear_password\0"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting("mysql_native_password"))
        heard.append(await reader.read(1 << 16))
        writer.write(len(switch).to_bytes(3, "little") + b"\2" + switch)
        heard.append(await reader.read(1 << 16))

    async with behaving(serve) as port:
        with pytest.raises(SourceError, match="Lost connection" if shown else "by mysql_clear_password"):
            await MySQL.read([by_dsn(port, options)], connections)
        await connections.close()
    assert (b"hush" in b"".join(heard)) is shown


@for_each(of_postgres, of_mysql)
async def test_a_server_that_hangs_or_refuses_is_unknown_and_named(make) -> None:
    async with hanging() as hung:
        for port in (hung, refusing()):
            probe = make(port, "SELECT 1")
            async with reading(0.3) as sources:
                [answer] = await ask(sources, probe)
            assert isinstance(answer, str)
            assert str(port) in answer
            assert "hush" not in answer + repr(probe) + repr(probe.server)
