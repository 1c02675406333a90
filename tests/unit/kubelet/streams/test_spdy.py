"""Frames of SPDY: what one end writes the other one reads, and what is not SPDY is refused."""

import struct
import zlib
from collections.abc import Mapping

import pytest

from deploy.local.kubelet.streams import spdy
from deploy.local.kubelet.streams.spdy import Connection, Frame
from tests.support.tables import cases, for_each

#: Of the stream for the error of a connection.
HEADERS = {"streamtype": "error", "port": "80", "requestid": "0"}


def opened(client: Connection, stream: int, headers: Mapping[str, str]) -> bytes:
    """The frame with which a client opens a stream."""
    return client._control(spdy.SYN_STREAM, struct.pack(">IIH", stream, 0, 0) + client._block(headers))


def test_the_dictionary_is_the_standards() -> None:
    assert zlib.adler32(spdy._DICTIONARY) == 0xE3C6A7C2


@for_each(1, 7, 10_000)
def test_frames_are_read_in_whatever_pieces_they_come(size: int) -> None:
    client, kubelet = Connection(), Connection()
    ping = struct.pack(">HHII", 0x8003, spdy.PING, 4, 7)
    sent = opened(client, 1, HEADERS) + opened(client, 3, {**HEADERS, "streamtype": "data"})
    sent += client.data(3, b"hello") + ping + client.refuse(1) + client.data(3, b"", last=True)
    frames = [frame for at in range(0, len(sent), size) for frame in kubelet.read(sent[at : at + size])]
    assert frames == [
        Frame(spdy.SYN_STREAM, 0, 1, b"", HEADERS),
        Frame(spdy.SYN_STREAM, 0, 3, b"", {**HEADERS, "streamtype": "data"}),
        Frame(spdy.DATA, 0, 3, b"hello"),
        Frame(spdy.PING, 0, 0, b"\0\0\0\7"),
        Frame(spdy.RST_STREAM, 0, 1, b"\0\0\0\1\0\0\0\3"),
        Frame(spdy.DATA, spdy.FIN, 3),
    ]
    assert kubelet.echo(frames[3]) == ping
    assert list(client.read(kubelet.accept(3))) == [Frame(spdy.SYN_REPLY, 0, 3)]


def bomb() -> bytes:
    """A stream whose headers are long once they are read."""
    return opened(Connection(), 1, {"x": "x" * 100_000})


@cases(
    ("another version", struct.pack(">HHI", 0x8002, spdy.PING, 0)),
    ("no compression", struct.pack(">HHI", 0x8003, spdy.HEADERS, 8) + b"\0\0\0\1head"),
    ("too short", struct.pack(">HHI", 0x8003, spdy.SYN_STREAM, 4) + b"\0\0\0\1"),
    ("too long", bomb()),
)
def test_what_is_not_spdy_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match="SPDY"):
        list(Connection().read(sent))
