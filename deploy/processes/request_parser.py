"""httptools' parser of requests, for servers that speak HTTP/1.1 alone to clients that offer another protocol as well.

A client may offer one in any request (`Upgrade: h2c`), and a server may ignore the offer (RFC 9110, 7.8). The library
takes all that follows such a head for the other protocol: the body would be lost, or read as the next request.
"""

from typing import Any, Protocol

import httptools


class ParsedRequests(Protocol):
    """The part of uvicorn's protocol that follows a parser."""

    headers: list[tuple[bytes, bytes]]

    def on_message_begin(self) -> None:
        """A request begins."""
        ...

    def on_url(self, url: bytes) -> None:
        """A piece of the path has been read."""
        ...

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has been read."""
        ...

    def on_headers_complete(self) -> None:
        """The head has been read."""
        ...

    def on_body(self, body: bytes) -> None:
        """A piece of the body has been read."""
        ...

    def on_message_complete(self) -> None:
        """The body has been read."""
        ...

    def accepts_upgrade(self) -> bool:
        """Returns true if the protocol that the head offers is taken."""
        ...


class RequestParser:
    """A parser that reads the body of a request whose offer is ignored, and the requests after it.

    While `should_upgrade` is true, the library tells of the end of a body that it has not read.
    """

    def __init__(self, requests: ParsedRequests, parser: Any) -> None:
        self._requests = requests
        self._repeated = False
        self.on_body = requests.on_body
        self.on_message_complete = requests.on_message_complete
        self._use(parser)

    def feed_data(self, data: bytes) -> None:
        """Reads bytes. Raises httptools' HttpParserUpgrade for an offer that is taken, and HttpParserError."""
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                if self._requests.accepts_upgrade():
                    raise
                data = data[offer.args[0] :]
                self._read_on()
                if data:
                    continue
            return

    def _read_on(self) -> None:
        """Goes on with a parser that has read the same head without the offer."""
        framing = [
            name + b": " + value + b"\r\n"
            for name, value in self._requests.headers
            if name in (b"content-length", b"transfer-encoding")
        ]
        # It tells this object of the head, which the first parser has told the server of.
        self._use(httptools.HttpRequestParser(self))
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._repeated = True
        try:
            self._parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(framing) + b"\r\n")
        finally:
            self._repeated = False

    def _use(self, parser: Any) -> None:
        self._parser = parser
        # What uvicorn asks of each request.
        self.get_http_version, self.get_method = parser.get_http_version, parser.get_method
        self.should_keep_alive, self.should_upgrade = parser.should_keep_alive, parser.should_upgrade

    def on_message_begin(self) -> None:
        """Passes the beginning of a request on."""
        if not self._repeated:
            self._requests.on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Passes a piece of the path on."""
        if not self._repeated:
            self._requests.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Passes a header on."""
        if not self._repeated:
            self._requests.on_header(name, value)

    def on_headers_complete(self) -> None:
        """Passes the end of a head on."""
        if not self._repeated:
            self._requests.on_headers_complete()
