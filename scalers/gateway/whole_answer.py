"""An extension of ASGI that our HTTP servers have: a request is answered with one write, without messages."""

from collections.abc import Callable, Sequence

#: Its name in a scope's extensions.
WHOLE_ANSWER = "penstock.whole_answer"

#: Takes status, headers and body; returns false if the answer must be sent as messages. The headers are valid ones with
#: Content-Length and without Connection, and the request is not HEAD.
WholeAnswer = Callable[[int, Sequence[tuple[bytes, bytes]], bytes], bool]
