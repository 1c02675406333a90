"""``make demo``: real work on an embedded broker and an embedded cluster, with a report at the end.

Every file of the running Python's standard library (or the first N) is an item of a Redis list; one Job measures one
file. Exits with code 1 and the reason if a file was missed or measured twice, or too many Jobs were created.
"""

import sys
from pathlib import Path

import click
import redis.asyncio as redis
from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from deploy.demo import manifest, stage
from deploy.demo.report import DemoRun, faults, rows
from deploy.demo.run import run
from deploy.local import up
from deploy.local.parts import pods
from workers.api.kinds import SCALED_JOB
from workers.client.rest import Cluster
from workers.settings import Settings


class ProgressView:
    """Displays a run's progress; on a pipe it prints a line from time to time instead."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("files"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
        )
        self._task = self._progress.add_task("files", total=total)
        self._live = Live(self._progress, console=console, refresh_per_second=8) if console.is_terminal else None
        self._said = -1

    def __enter__(self) -> "ProgressView":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, run: DemoRun) -> None:
        """Updates the display."""
        done = len(run.results)
        line = (
            f"Jobs: {len(run.jobs)} created, {run.count(None)} at work, "
            f"{run.count('Complete')} succeeded, {run.count('Failed')} failed"
        )
        if self._live:
            self._progress.update(self._task, completed=done)
            self._live.update(Group(self._progress, Text(line)))
        elif (tenth := done * 10 // max(1, len(run.pushed))) != self._said:
            self._said = tenth
            self._console.print(f"files: {done} of {len(run.pushed)}.  {line}")


async def _demo(at: stage.DemoStage, files: int) -> DemoRun:
    paths = manifest.files(files)
    settings = Settings(home=at.folder)

    async def act(cluster: Cluster, _: up.RunningPart) -> DemoRun:
        async with redis.Redis.from_url(at.broker) as queue:
            address = at.broker.removeprefix("redis://").partition("/")[0]
            await cluster.create(SCALED_JOB, manifest.scaled_job(address))
            at.console.print(f"applied ScaledJob {manifest.NAMESPACE}/{manifest.NAME}; pushing {len(paths)} files")
            with ProgressView(at.console, len(paths)) as view:
                seen = await run(cluster, queue, paths, view.show)
        seen.places = pods(settings.pods, settings.nodes)
        return seen

    return await at.run(settings, "scaledjobs,jobs,pods", act)


@click.command()
@click.option("--files", default=200, show_default=True, type=click.IntRange(min=1), help="how many files to measure")
@click.option("--home", type=click.Path(path_type=Path), help="keep data and logs in this folder")
def main(files: int, home: Path | None) -> None:
    """Measure standard library files, one Job each, on an embedded broker and cluster."""
    console = Console()
    seen = stage.perform(console, home, lambda at: _demo(at, files))
    wrong = faults(seen)
    stage.report(console, rows(seen), wrong, "every file was done once, by one Job, with the right result")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
