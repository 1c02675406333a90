"""Holes in files: disk space that is given back while the file keeps its size (Linux, most file systems)."""

import ctypes
import sys

#: FALLOC_FL_KEEP_SIZE and FALLOC_FL_PUNCH_HOLE of linux/falloc.h.
_PUNCH = 1 | 2
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def punch(descriptor: int, length: int) -> None:
    """Gives back the space of a file's first bytes, which read as zeros from now on; without effect elsewhere."""
    if _libc is not None:
        _libc.fallocate(descriptor, _PUNCH, ctypes.c_long(0), ctypes.c_long(length))
