"""The demo's progress display: one bar for the files, one line for the Jobs."""

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from deploy.demo.report import DemoRun, rows


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


def report(console: Console, run: DemoRun, faults: list[str]) -> None:
    """Prints the figures and the verdict."""
    table = Table(show_header=False, title="report")
    for name, figure in rows(run):
        table.add_row(name, figure)
    console.print(table)
    for fault in faults:
        console.print(f"[red]wrong:[/red] {fault}")
    if not faults:
        console.print("[green]right:[/green] every file was done once, by one Job, with the right result")
