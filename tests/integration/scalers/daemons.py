"""Real servers for scalers to measure, each started on free loopback ports and stopped again."""

import asyncio
import os
import pwd
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.ports import free_port


def needs(program: str, package: str) -> str:
    """The program's path; the test is skipped, saying why, where it is not installed."""
    # Debian keeps each release of PostgreSQL in a folder of its own; the newest one serves.
    releases = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True
    )
    folders = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", *map(str, releases)]
    path = shutil.which(program, path=":".join(folders))
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: {package})")
    return path


@asynccontextmanager
async def running(
    command: Sequence[str],
    folder: Path,
    is_up: Callable[[], bool],
    *,
    stop: signal.Signals = signal.SIGTERM,
    within: float = 60.0,
    **more: Any,
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command as a process of its own session, once it is up; ended and waited for at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **more
    )
    try:
        async with asyncio.timeout(within):
            while not await asyncio.to_thread(is_up):
                if process.returncode is not None:
                    raise RuntimeError(f"{command[0]} ended: {(folder / 'log').read_text()[-2000:]}")
                await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(stop)
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        log.close()


def listens(port: int) -> Callable[[], bool]:
    """Whether somebody accepts connections there."""

    def is_up() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=0.5).close()
        except OSError:
            return False
        return True

    return is_up


@asynccontextmanager
async def postgres() -> AsyncIterator[int]:
    """A PostgreSQL server with the user and database `work`; yields its port. It refuses to run as root."""
    initdb, server = needs("initdb", "postgresql"), needs("postgres", "postgresql")
    account = pwd.getpwnam("postgres") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chown(folder, account.pw_uid, account.pw_gid)
        (folder / "password").write_text("hush")
        os.chown(folder / "password", account.pw_uid, account.pw_gid)
        login = {"user": account.pw_uid, "group": account.pw_gid} if os.geteuid() == 0 else {}
        data = ["-D", str(folder / "data")]
        made = await asyncio.create_subprocess_exec(
            *[initdb, *data, "-U", "work", "--pwfile", str(folder / "password"), "-A", "scram-sha-256", "-N"],
            cwd=folder,
            stdout=asyncio.subprocess.DEVNULL,
            **login,
        )
        assert await made.wait() == 0
        port = free_port()

        def accepts() -> bool:
            try:
                psycopg.connect(CONNINFO.format(port)).close()
            except psycopg.OperationalError:
                return False
            return True

        settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        command = [server, *data, "-p", str(port), *settings]
        async with running(command, folder, accepts, stop=signal.SIGINT, **login):
            yield port


CONNINFO = "host=127.0.0.1 port={} user=work password=hush dbname=postgres"


@asynccontextmanager
async def psql(port: int) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection to that server."""
    async with await psycopg.AsyncConnection.connect(CONNINFO.format(port), autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def mariadb(folder: Path, *more: str) -> AsyncIterator[int]:
    """A MariaDB server with the user `work` (password hush) and the database `work`; yields its port."""
    server, install = needs("mariadbd", "mariadb-server"), needs("mariadb-install-db", "mariadb-server")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "first.sql").write_text(
        "CREATE DATABASE work;\n"
        "CREATE USER work@'127.0.0.1' IDENTIFIED BY 'hush';\n"
        "GRANT ALL ON work.* TO work@'127.0.0.1';\n"
    )
    user = f"--user={pwd.getpwuid(os.geteuid()).pw_name}"
    data = f"--datadir={folder / 'data'}"
    options = ("--no-defaults", user, data, "--auth-root-authentication-method=normal")
    made = await asyncio.create_subprocess_exec(install, *options, stdout=asyncio.subprocess.DEVNULL)
    assert await made.wait() == 0
    port = free_port()
    command = [server, "--no-defaults", user, data, f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
    command += [
        f"--socket={folder / 's'}",
        f"--pid-file={folder / 'pid'}",
        f"--init-file={folder / 'first.sql'}",
        *more,
    ]
    async with running(command, folder, listens(port)):
        yield port


@asynccontextmanager
async def rabbitmq(folder: Path) -> AsyncIterator[tuple[int, int]]:
    """A RabbitMQ broker with its management plugin; yields the ports of AMQP and of HTTP (user and password guest)."""
    # Debian's own wrapper changes the user and its home; the script behind it does neither.
    needs("rabbitmq-server", "rabbitmq-server")
    folder.mkdir(parents=True, exist_ok=True)
    amqp, http, names, distribution = free_port(), free_port(), free_port(), free_port()
    (folder / "plugins").write_text("[rabbitmq_management].\n")
    (folder / "rabbitmq.conf").write_text(
        f"listeners.tcp.1 = 127.0.0.1:{amqp}\nmanagement.tcp.ip = 127.0.0.1\nmanagement.tcp.port = {http}\n"
        "collect_statistics_interval = 1000\ndisk_free_limit.absolute = 1MB\n"
    )
    environment = {
        **os.environ,
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"work{amqp}@localhost",
        "RABBITMQ_BASE": str(folder),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_SCHEMA_DIR": str(folder / "schema"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(folder / "config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
    }
    epmd = [needs("epmd", "erlang-base"), "-port", str(names), "-address", "127.0.0.1", "-relaxed_command_check"]
    server = "/usr/lib/rabbitmq/bin/rabbitmq-server"
    # The name server would otherwise be started by the broker, as a daemon that outlives it.
    async with running(epmd, folder / "epmd", listens(names), env=environment):
        both = lambda: listens(amqp)() and listens(http)()  # noqa: E731
        async with running([server], folder, both, env=environment):
            yield amqp, http
