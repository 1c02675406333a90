"""Frames of SPDY/3.1, as far as kubectl's port-forward uses them: it tunnels them through a WebSocket connection.

A frame has eight bytes and its payload. A control frame begins with version and type, a data frame with the number of
its stream; flags and length follow. Headers are compressed with a dictionary, over all frames of a direction.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

DATA, SYN_STREAM, SYN_REPLY, RST_STREAM, PING, HEADERS = 0, 1, 2, 3, 6, 8
#: The flag of the last frame that its side sends on a stream.
FIN = 0x01
_CONTROL, _VERSION = 0x8000, 3
_REFUSED_STREAM = 3
#: Bytes before the headers of each type.
_BEFORE_HEADERS = {SYN_STREAM: 10, SYN_REPLY: 4, HEADERS: 4}
#: The most bytes of one frame's headers.
_LONGEST_HEADERS = 64 * 1024

#: What the standard expects in headers: words that follow their length, and then texts.
_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TEXTS = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug "
    "Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age=gzip,deflate,sdch"
    "charset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _counted(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


_DICTIONARY = b"".join(_counted(word.replace("_", " ").encode()) for word in _WORDS.split()) + _TEXTS.encode()


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. stream: number of its stream, 0 for a frame of the connection. headers: those of a new stream."""

    type: int
    flags: int
    stream: int
    payload: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


class Connection:
    """One end of a connection: reads frames from bytes, and writes them in the order in which they are sent."""

    def __init__(self) -> None:
        self._rest = b""
        self._inflate = zlib.decompressobj(zdict=_DICTIONARY)
        self._deflate = zlib.compressobj(zdict=_DICTIONARY)

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yields the frames that are complete with these bytes. Raises ValueError for what is not SPDY."""
        self._rest += data
        while len(self._rest) >= 8:
            first, second = struct.unpack_from(">II", self._rest)
            end = 8 + (second & 0xFFFFFF)
            if len(self._rest) < end:
                return
            payload, self._rest = self._rest[8:end], self._rest[end:]
            yield self._frame(first, second >> 24, payload)

    def _frame(self, first: int, flags: int, payload: bytes) -> Frame:
        if not first >> 31:
            return Frame(DATA, flags, first, payload)
        if first >> 16 != _CONTROL | _VERSION:
            raise ValueError("a frame of an unknown version of SPDY")
        kind = first & 0xFFFF
        if kind not in _BEFORE_HEADERS:
            stream = struct.unpack_from(">I", payload)[0] if kind == RST_STREAM and len(payload) >= 4 else 0
            return Frame(kind, flags, stream, payload)
        before = _BEFORE_HEADERS[kind]
        if len(payload) < before:
            raise ValueError("a frame of SPDY that is too short")
        return Frame(kind, flags, struct.unpack_from(">I", payload)[0], b"", self._headers(payload[before:]))

    def _headers(self, block: bytes) -> dict[str, str]:
        """The headers of a block; each has to be read, for the next ones build on it."""
        try:
            texts = self._inflate.decompress(block, _LONGEST_HEADERS)
        except zlib.error as error:
            raise ValueError(f"headers of SPDY: {error}") from error
        if self._inflate.unconsumed_tail:
            raise ValueError("headers of SPDY that are too long")
        found: list[str] = []
        place = 4
        while len(texts) - place >= 4:
            (size,) = struct.unpack_from(">I", texts, place)
            found.append(texts[place + 4 : place + 4 + size].decode("latin-1"))
            place += 4 + size
        return dict(zip(found[::2], found[1::2], strict=False))

    def accept(self, stream: int) -> bytes:
        """Accepts a stream of the other side."""
        return self._control(SYN_REPLY, struct.pack(">I", stream) + self._block({}))

    def _block(self, headers: Mapping[str, str]) -> bytes:
        texts = b"".join(_counted(text.encode("latin-1")) for pair in headers.items() for text in pair)
        block = self._deflate.compress(struct.pack(">I", len(headers)) + texts)
        return block + self._deflate.flush(zlib.Z_SYNC_FLUSH)

    @classmethod
    def refuse(cls, stream: int) -> bytes:
        """Ends a stream of the other side at once."""
        return cls._control(RST_STREAM, struct.pack(">II", stream, _REFUSED_STREAM))

    @classmethod
    def echo(cls, ping: Frame) -> bytes:
        """Answers a ping."""
        return cls._control(PING, ping.payload)

    @staticmethod
    def data(stream: int, data: bytes, *, last: bool = False) -> bytes:
        """Sends data on a stream. last: nothing more will be sent on it from this side."""
        return struct.pack(">II", stream, (FIN if last else 0) << 24 | len(data)) + data

    @staticmethod
    def _control(kind: int, payload: bytes) -> bytes:
        return struct.pack(">HHI", _CONTROL | _VERSION, kind, len(payload)) + payload
