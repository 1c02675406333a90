"""Notes of the running parts, by which the next run ends those that an earlier run left behind.

The guard ends them when their master dies. A master that is killed together with its guard leaves parts that hold the
home's locks and ports: the next run would never get them.
"""

import asyncio
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from deploy.local.supervisor.guard import end, stat_fields


class Notes:
    """A folder with one file for every part that runs: its process id, and when it was born.

    Only one run at a time may use it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, pid: int) -> None:
        """The part runs now, as the leader of a process group."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(f"{pid} {birth(pid)}\n", encoding="utf-8")

    def remove(self, name: str) -> None:
        """The part has ended."""
        (self._folder / name).unlink(missing_ok=True)

    async def end(self, grace: float) -> Sequence[str]:
        """End what an earlier run left behind: TERM first, KILL after so many seconds; the names of those parts."""
        found: dict[str, int] = {}
        for path in sorted(self._folder.glob("*")):
            with suppress(OSError, ValueError):
                pid, born = path.read_text(encoding="utf-8").strip().split(" ", 1)
                if born and birth(int(pid)) == born:
                    found[path.name] = int(pid)
        await asyncio.to_thread(end, set(found.values()), grace)
        for path in self._folder.glob("*"):
            path.unlink(missing_ok=True)
        return list(found)


def birth(pid: int) -> str:
    """Returns the start time of a process, which tells it from any other of the same number; empty when there is none.

    In the system's own terms, which change with every start of the machine.
    """
    boot, stat = Path("/proc/sys/kernel/random/boot_id"), Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        fields = stat_fields(stat)
        if len(fields) < 20 or fields[0] in ("Z", "X"):
            return ""
        try:
            return f"{fields[19]} {boot.read_text().strip() if boot.exists() else ''}".strip()
        except OSError:
            return ""
    listed = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()
