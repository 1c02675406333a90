"""Watching processes from outside."""

from pathlib import Path

import psutil


def alive(pid: int) -> bool:
    """Returns True if the process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def peak_memory(pid: int) -> float:
    """Returns the most resident memory that the process has had so far, in MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [kilobytes] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(kilobytes) / 1000
