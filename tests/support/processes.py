"""Watching processes from outside."""

import psutil


def alive(pid: int) -> bool:
    """Returns True if the process runs (a zombie does not)."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
