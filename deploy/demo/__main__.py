"""``make demo``: real work on an embedded broker and an embedded cluster, with a report at the end.

Every file of the running Python's standard library (or the first N) is an item of a Redis list; one Job measures one
file. Exits with code 1 and the reason if a file was missed or measured twice, or too many Jobs were created.
"""

import sys
from pathlib import Path

import click
import redis.asyncio as redis
from rich.console import Console

from deploy.demo import manifest, progress, stage
from deploy.demo.report import DemoRun, faults
from deploy.demo.run import run
from workers.api.kinds import SCALED_JOB
from workers.client.rest import Cluster
from workers.settings import Settings


async def _demo(console: Console, home: Path, files: int, queue_url: str) -> DemoRun:
    paths = manifest.files(files)

    async def act(cluster: Cluster) -> DemoRun:
        async with redis.Redis.from_url(queue_url) as queue:
            address = queue_url.removeprefix("redis://").partition("/")[0]
            await cluster.create(SCALED_JOB, manifest.scaled_job(address))
            console.print(f"applied ScaledJob {manifest.NAMESPACE}/{manifest.NAME}; pushing {len(paths)} files")
            with progress.ProgressView(console, len(paths)) as view:
                return await run(cluster, queue, paths, view.show)

    return await stage.running(console, Settings(home=home), "scaledjobs,jobs,pods", act)


@click.command()
@click.option("--files", default=200, show_default=True, type=click.IntRange(min=1), help="how many files to measure")
@click.option("--home", type=click.Path(path_type=Path), help="keep data and logs in this folder")
def main(files: int, home: Path | None) -> None:
    """Measure standard library files, one Job each, on an embedded broker and cluster."""
    console = Console()
    seen = stage.perform(console, home, lambda folder, broker: _demo(console, folder, files, broker))
    wrong = faults(seen)
    progress.report(console, seen, wrong)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
