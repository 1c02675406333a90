"""The file of a backup: compressed lines of JSON, the first of them the header, the last a checksum of the others.

It holds values, not what DUMP returns: that depends on the version of the server, and can be neither read nor mended.
"""

import base64
import binascii
import codecs
import fcntl
import gzip
import hashlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from workers.errors import UserError

#: Of the file's format; files of a later one are refused.
VERSION = 1
#: Bytes of a value that are written at once, a multiple of three: pieces of base64 without padding follow each other.
PIECE = 3 * 2**18
#: Entries of a list that are written at once.
TOGETHER = 1000


@dataclass(frozen=True, slots=True)
class BackupHeader:
    """prefix: of the keys. taken: when the backup began, RFC 3339. server: name and version of the broker.

    data_format: of the broker's data, empty if it has none.
    """

    prefix: str
    taken: str
    server: str
    data_format: str = ""


@dataclass(frozen=True, slots=True)
class SavedKey:
    """One key. expires: milliseconds since the epoch, None if it stays. value: as the server
    answers it, of a stream entries, last id and groups with their pending entries."""

    type: str
    expires: int | None
    value: Any


@dataclass(frozen=True, slots=True)
class VerifiedBackup:
    """A file that is whole. id: its checksum."""

    path: Path
    header: BackupHeader
    id: str


class BackupWriter:
    """Writes a backup beside its path; `finish` makes it whole and gives it its name."""

    def __init__(self, path: Path, header: BackupHeader) -> None:
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial")
        self._sum = hashlib.sha256()
        self._objects = 0
        self._raw = os.fdopen(_opened(self._partial), "wb")
        self._file = gzip.GzipFile(fileobj=self._raw, mode="wb", compresslevel=6, mtime=0)
        fields = {"prefix": header.prefix, "taken": header.taken, "server": header.server}
        self._line({"penstock-backup": VERSION, **fields, "format": header.data_format})

    def add(self, name: str, keys: Mapping[str, SavedKey]) -> None:
        """Writes one object, piece by piece: a value may have half a gigabyte."""
        self._write(b'{"object":' + orjson.dumps(name) + b',"keys":{')
        for place, (key, each) in enumerate(keys.items()):
            facts = orjson.dumps({"type": each.type, "expires": each.expires})
            self._write((b"," if place else b"") + orjson.dumps(key) + b":" + facts[:-1] + b',"value":')
            for piece in _pieces(each.value):
                self._write(piece)
            self._write(b"}")
        self._write(b"}}\n")
        self._objects += 1

    def finish(self) -> None:
        """Writes the checksum, waits for the disk, and gives the file its name."""
        self._file.write(orjson.dumps({"objects": self._objects, "sha256": self._sum.hexdigest()}) + b"\n")
        self._file.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()
        self._partial.replace(self._path)
        # Some file systems cannot do this for a folder.
        with suppress(OSError):
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def abandon(self) -> None:
        """Removes what was written."""
        self._raw.close()
        self._partial.unlink(missing_ok=True)

    def _line(self, value: Any) -> None:
        self._write(orjson.dumps(value) + b"\n")

    def _write(self, piece: bytes) -> None:
        self._sum.update(piece)
        self._file.write(piece)


def _opened(path: Path) -> int:
    """Returns the descriptor of an empty file that its owner alone may read: events may be confidential.

    Raises UserError if another process writes it, and OSError.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The other one may have given it its name since it was opened.
        if not os.path.samestat(os.fstat(descriptor), path.lstat()):
            raise BlockingIOError
        os.fchmod(descriptor, 0o600)
        os.ftruncate(descriptor, 0)
    except (BlockingIOError, FileNotFoundError):
        os.close(descriptor)
        raise UserError(f"{path}: another backup writes it") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def verify(path: Path) -> VerifiedBackup:
    """Reads the whole file. Raises UserError that says what is wrong with it, and how much of it can be read."""
    digest, objects, header, ended = hashlib.sha256(), -1, None, None
    try:
        for line in _lines(path):
            if ended is not None:
                raise UserError(f"{path}: something follows its end")
            value = _json(path, line)
            if header is None:
                header = _header(path, value)
            if "sha256" in value:
                ended = value
                continue
            digest.update(line)
            objects += 1
    except _UnreadableError as error:
        raise UserError(f"{error} after {max(objects, 0)} objects") from None
    if header is None or ended is None:
        raise UserError(f"{path}: is truncated: its end is missing")
    if ended["sha256"] != digest.hexdigest() or ended.get("objects") != objects:
        raise UserError(f"{path}: is damaged: its checksum is wrong")
    return VerifiedBackup(path, header, digest.hexdigest())


def read(backup: VerifiedBackup) -> Iterator[tuple[str, dict[str, SavedKey]]]:
    """Yields the objects of a verified file, each by its name."""
    for line in _lines(backup.path):
        value = _json(backup.path, line)
        # A value may have half a gigabyte: its line and its JSON go before the next copy comes.
        del line
        if "object" in value:
            saved = {}
            for key, each in value["keys"].items():
                saved[key] = SavedKey(each["type"], each["expires"], decoded(each.pop("value")))
            yield value["object"], saved
            saved = value = {}


def names(backup: VerifiedBackup) -> Iterator[tuple[str, ...]]:
    """Yields the names of the keys of each object of a verified file."""
    for line in _lines(backup.path):
        value = _json(backup.path, line)
        if "object" in value:
            yield tuple(value["keys"])


class _UnreadableError(UserError):
    """The file cannot be read further."""


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path, "rb") as file:
            yield from file
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except EOFError:
        raise _UnreadableError(f"{path}: is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _UnreadableError(f"{path}: is no backup, or damaged ({error})") from None
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}") from None


def _json(path: Path, line: bytes) -> dict[str, Any]:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        raise UserError(f"{path}: is no backup, or damaged") from None
    if not isinstance(value, dict):
        raise UserError(f"{path}: is no backup, or damaged")
    return value


def _header(path: Path, value: Mapping[str, Any]) -> BackupHeader:
    version = value.get("penstock-backup")
    if not isinstance(version, int):
        raise UserError(f"{path}: is no backup of Penstock")
    if version > VERSION:
        raise UserError(f"{path}: has format {version}, and this Penstock reads up to {VERSION}: use a newer one")
    names = ("prefix", "taken", "server", "format")
    texts = [text for name in names if isinstance(text := value.get(name), str)]
    if len(texts) < len(names):
        raise UserError(f"{path}: is no backup, or damaged")
    return BackupHeader(*texts)


def _pieces(value: Any) -> Iterator[bytes]:
    """Yields the JSON of `_encoded`, a long value in pieces: its text and its JSON would be a copy each."""
    if isinstance(value, list):
        for start in range(0, len(value), TOGETHER):
            yield b"," if start else b"["
            some = value[start : start + TOGETHER]
            if not _is_long(some):
                yield orjson.dumps(_encoded(some))[1:-1]
                continue
            for place, each in enumerate(some):
                if place:
                    yield b","
                yield from _pieces(each)
        yield b"]" if value else b"[]"
    elif _is_long(value):
        yield from _long(value)
    else:
        yield orjson.dumps(_encoded(value))


def _is_long(value: Any) -> bool:
    return any(map(_is_long, value)) if isinstance(value, list) else isinstance(value, bytes) and len(value) > PIECE


def _long(value: bytes) -> Iterator[bytes]:
    view = memoryview(value)
    parts = [view[start : start + PIECE] for start in range(0, len(value), PIECE)]
    try:
        for _ in _texts(parts):
            pass
    except UnicodeDecodeError:
        yield b'{"base64":"'
        yield from (base64.b64encode(part) for part in parts)
        yield b'"}'
        return
    yield b'"'
    yield from (orjson.dumps(text)[1:-1] for text in _texts(parts))
    yield b'"'


def _texts(parts: Iterable[memoryview]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    for part in parts:
        yield decoder.decode(part)
    yield decoder.decode(b"", final=True)


def _encoded(value: Any) -> Any:
    """Returns what JSON can hold: bytes that are no UTF-8 become ``{"base64": …}``."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_encoded(each) for each in value]
    return value


def decoded(value: Any) -> Any:
    """Returns what the broker answered: bytes, numbers and lists of them. Raises UserError."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [decoded(each) for each in value]
    if isinstance(value, dict):
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (KeyError, binascii.Error):
            raise UserError("the backup has a value that cannot be read") from None
    return value
