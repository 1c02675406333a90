"""Real servers for scalers to measure, each started on free loopback ports and stopped again."""

import asyncio
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def needs(program: str, package: str) -> str:
    """The program's path; the test is skipped, saying why, where it is not installed."""
    path = shutil.which(program, path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/postgresql/15/bin")
    if path is None:
        pytest.skip(f"{program} is not installed (Debian: {package})")
    return path


@asynccontextmanager
async def running(
    command: Sequence[str], folder: Path, is_up: Callable[[], bool], *, within: float = 60.0
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The command as a process of its own session, once it is up; ended and waited for at the end."""
    folder.mkdir(parents=True, exist_ok=True)
    log = (folder / "log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
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
            process.send_signal(signal.SIGTERM)
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
