"""ProblemDetails details (RFC 9457): the answer to a request that is refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from penstock.errors import PenstockError

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:penstock:problem:"


@dataclass(frozen=True, slots=True)
class ProblemDetails:
    """Why a request is refused.

    status: of HTTP. name: the last part of the problem's type. detail: one sentence for people, without secrets.
    headers: further ones of the answer. members: further ones of the body. closes: the connection ends with the answer,
    because the rest of the request was not read.
    """

    status: int
    name: str
    detail: str
    headers: Mapping[str, str] = field(default_factory=dict)
    members: Mapping[str, Any] = field(default_factory=dict)
    closes: bool = False

    @property
    def body(self) -> bytes:
        """The problem as JSON."""
        title = HTTPStatus(self.status).phrase
        named = {"type": f"{_TYPE}{self.name}", "title": title, "status": self.status, "detail": self.detail}
        return orjson.dumps({**named, **self.members})


class RequestRefused(PenstockError):  # noqa: N818 - an answer
    """A request is answered with a problem."""

    def __init__(self, problem: ProblemDetails) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def refused(status: int, name: str, detail: str, **more: Any) -> RequestRefused:
    """Returns the exception of a problem; further arguments are fields of `ProblemDetails`."""
    return RequestRefused(ProblemDetails(status, name, detail, **more))
