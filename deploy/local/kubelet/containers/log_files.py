"""Log files of containers, in the form of the container runtimes: ``<time> stdout|stderr F|P <text>``.

Containers write to plain files of their own, so that a crash of the kubelet loses no output; it follows these files.
F is a whole line; P a piece of one: of a line longer than 16 KiB, or the end of an output without a line end. Bytes
are never changed: the texts of a log, with a line end after each F, are exactly what was printed. That is how a
kubelet that starts again knows how far it had come.

A log that has grown large goes on in a new file (`log_parts`), and a few of its parts are kept. What is copied is taken
out of the file of the container, which keeps its length. Of a command that prints faster than its output is copied, the
oldest output is left out, as it is in a log that has gone on.

A command can empty its own file: ``> /dev/stdout`` does. What was copied stays in the log, what follows is copied from
the beginning of the file, and a file beside it (``out.cut``, ``err.cut``) has the number of bytes copied before.
"""

import asyncio
import contextlib
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path

from deploy.local import log_parts
from deploy.local.kubelet.containers import holes

log = logging.getLogger(__name__)

#: The longest text of one log line (bytes), as in the container runtimes.
LONGEST = 16 * 1024
#: Bytes read at once from one stream: bounds the delay that one container's output causes for the others.
CHUNK = 1024 * 1024
#: The size (bytes) at which a log goes on in a new file, and the most files of one log, as a kubelet has them.
LARGEST, MOST_PARTS = 10 * 1024 * 1024, 5
#: Space on disk comes in blocks of at most this size (bytes).
_DISK_BLOCK = 64 * 1024

#: More bytes than the time, the stream and the kind of a line have.
_LONGEST_HEAD = 64

#: Bytes before the offset by which a file is known again.
_REMEMBERED = 64

_STREAMS = (("stdout", "out"), ("stderr", "err"))


@dataclass(slots=True)
class _Source:
    """The file of one stream, and how far it is copied.

    copied: bytes of the stream in the log; cut: how many of them were in the file before it was emptied. size, changed:
    of the file after the last read, -1 before it, and in nanoseconds since the epoch. end: the last bytes copied.
    freed: bytes of the file whose space was given back. skipped: True if the last read has left something out.
    """

    path: Path
    copied: int = 0
    cut: int = 0
    size: int = -1
    changed: int = -1
    end: bytes = b""
    freed: int = 0
    skipped: bool = False

    @property
    def _note(self) -> Path:
        return self.path.with_suffix(".cut")

    def resume(self, copied: int) -> None:
        """Goes on after so many bytes in the log."""
        self.copied = copied
        with contextlib.suppress(FileNotFoundError, ValueError):
            self.cut = min(int(self._note.read_text()), copied)

    def read(self) -> bytes:
        """Returns what was not copied yet, at most a chunk."""
        offset = self.copied - self.cut
        self.skipped = False
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return b""
        emptied = found.st_size < offset or (found.st_size <= self.size and found.st_mtime_ns != self.changed)
        if not emptied and found.st_size == offset:
            return b""
        with self.path.open("rb", buffering=0) as file:
            before = os.pread(file.fileno(), len(self.end), offset - len(self.end)) if self.end else b""
            if emptied or before != self.end:
                # Noted first: after a crash in between nothing is copied twice.
                self._note.write_text(str(self.copied))
                self.cut, self.end, offset, self.freed = self.copied, b"", 0, 0
            if (behind := found.st_size - offset) > LARGEST * MOST_PARTS:
                left_out = behind - LARGEST * MOST_PARTS // 2
                self.copied, self.end, offset, self.skipped = self.copied + left_out, b"", offset + left_out, True
            data = os.pread(file.fileno(), CHUNK, offset)
            # After the read: what is appended meanwhile makes the file longer than this.
            found = os.fstat(file.fileno())
        self.size, self.changed = found.st_size, found.st_mtime_ns
        return data

    def advance(self, copied: bytes) -> None:
        """Counts these bytes as copied."""
        self.copied += len(copied)
        self.end = (self.end + copied)[-_REMEMBERED:]

    def free(self) -> None:
        """Gives back the space of what is copied, once it is worth it."""
        length = (self.copied - self.cut - _REMEMBERED) // _DISK_BLOCK * _DISK_BLOCK
        if length - self.freed < CHUNK:
            return
        with self.path.open("r+b", buffering=0) as file:
            holes.punch(file.fileno(), length)
            self.changed = os.fstat(file.fileno()).st_mtime_ns
        self.freed = length


class Log:
    """The log of one attempt. folder: the attempt's; path: the log file, continued if it exists."""

    def __init__(self, folder: Path, path: Path) -> None:
        self._path = path
        self._sources = {stream: _Source(folder / name) for stream, name in _STREAMS}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and any(part.samefile(path) for part in log_parts.earlier(path)):
            # A crash came in between.
            self._begin_part()
        path.touch()
        self._size = path.stat().st_size
        found = _resume(path)
        for (stream, source), before in zip(self._sources.items(), log_parts.end(path), strict=True):
            source.resume(before + found[stream])

    def pump(self, *, final: bool = False) -> bool:
        """Copies what is new, at most a chunk per stream; whether there may be more.

        final: nothing more will be printed; an end without a line end is written too. Raises OSError when the disk is
        full; nothing is copied then.
        """
        lines: list[bytes] = []
        copied: list[tuple[_Source, bytes]] = []
        more = False
        for stream, source in self._sources.items():
            data = source.read()
            whole = len(data) == CHUNK
            more = more or whole
            used, formatted = _format(data, stream, rest=final and not whole)
            copied.append((source, data[:used]))
            lines += formatted
        if any(source.skipped for source in self._sources.values()):
            self._rotate()
        if lines:
            self._write(b"".join(lines))
        for source, data in copied:
            source.advance(data)
            source.free()
        if self._size >= LARGEST:
            self._rotate()
        return more

    def _rotate(self) -> None:
        """Goes on in a new file, and drops the oldest one. A reader finds the file of the log at every moment."""
        out, err = (source.copied for source in self._sources.values())
        os.link(self._path, log_parts.named(self._path, out, err))
        self._begin_part()
        for part in log_parts.earlier(self._path)[: 1 - MOST_PARTS]:
            part.unlink(missing_ok=True)

    def _begin_part(self) -> None:
        empty = self._path.with_name(f"{self._path.name}.new")
        empty.touch()
        empty.replace(self._path)
        self._size = 0

    def _write(self, lines: bytes) -> None:
        with self._path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                written = 0
                while written < len(lines):
                    written += file.write(lines[written:]) or 0
            except OSError:
                # A torn line would hide the one after it.
                file.truncate(size)
                raise
            self._size = file.tell()

    async def finish(self) -> None:
        """Copies all that is left, giving way to others in between. What cannot be written is lost."""
        try:
            while self.pump(final=True):  # noqa: ASYNC110 - gives way, waits for nothing
                await asyncio.sleep(0)
        except OSError as error:
            # The end of the container matters more.
            shown = {"file": str(self._path), "error": str(error)}
            log.warning("the last output could not be copied", extra=shown)


def last(path: Path, lines: int, longest: int) -> bytes:
    """Returns the end of what was printed into a log, of both streams: at most so many lines and bytes."""
    enough = LONGEST + longest + lines * _LONGEST_HEAD
    found, start = b"", 0
    for part in (path, *reversed(log_parts.earlier(path))):
        if part.exists() and len(found) < enough:
            with part.open("rb") as file:
                start = max(0, file.seek(0, os.SEEK_END) - enough)
                file.seek(start)
                found = file.read() + found
    # What is read may begin in the middle of a line.
    pieces = (line.split(b" ", 3) for line in found.split(b"\n")[bool(start) : -1])
    printed = b"".join(text + (b"\n" if kind == b"F" else b"") for _, _, kind, text in pieces)
    return b"".join(printed.splitlines(keepends=True)[-lines:])[-longest:]


def _format(data: bytes, stream: str, *, rest: bool) -> tuple[int, list[bytes]]:
    """Bytes used up and log lines. rest: also use an end without a line end."""
    if not data:
        return 0, []
    head = f"{_now()} {stream} ".encode()
    lines, start = [], 0
    while start < len(data):
        end = data.find(b"\n", start, start + LONGEST)
        if end >= 0:
            lines.append(head + b"F " + data[start:end] + b"\n")
            start = end + 1
        elif len(data) - start >= LONGEST or rest:
            piece = data[start : start + LONGEST]
            lines.append(head + b"P " + piece + b"\n")
            start += len(piece)
        else:
            break
    return start, lines


def _resume(path: Path) -> dict[str, int]:
    """Returns the number of bytes of each stream in the log; a last line torn by a crash is cut off."""
    offsets = {stream: 0 for stream, _ in _STREAMS}
    intact = 0
    with path.open("r+b") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            intact += len(line)
            _, stream, kind, text = line.split(b" ", 3)
            offsets[stream.decode()] += len(text) - (kind == b"P")
        file.truncate(intact)
    return offsets


def _now() -> str:
    seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{nanoseconds:09d}Z"
