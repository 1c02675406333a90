"""Errors, named by what to do next.

The libraries' own exceptions do not leave the module that calls them: workers/client/rest.py translates every answer of
the API server into one of these, keeps the original as the cause, and trims what it quotes.

    PenstockError
    ├── UserError             the input is wrong: say so, do not retry by ourselves
    ├── Stale                 the store is behind, or a reading is missing: decide later
    └── ClusterError          the API server refused or could not be reached
        ├── NotFound            404
        ├── AlreadyExists       409, reason AlreadyExists
        ├── Conflict            409: the object changed in between; decide afresh
        ├── Gone                410: the resourceVersion is too old; list again
        ├── Invalid             400, 422: the object is wrong; retrying does not help, a change of it does
        ├── Forbidden           401, 403: not allowed, or the namespace is terminating
        └── Unavailable         429, 5xx, time-outs, no connection: try again later
            ├── Silent            a watch without a byte for too long: open it again
            └── Throttled         not sent at all: the server asked for a pause, or too many requests wait for it
"""

from typing import Any

from penstock.errors import PenstockError, UserError

__all__ = [
    "AlreadyExists",
    "ClusterError",
    "Conflict",
    "Forbidden",
    "Gone",
    "Invalid",
    "NotFound",
    "PenstockError",
    "Silent",
    "Stale",
    "Throttled",
    "Unavailable",
    "UserError",
]


class Stale(PenstockError):  # noqa: N818 - the field's word for it
    """The observed state is too old or incomplete to decide on."""


class ClusterError(PenstockError):
    """The API server refused, or could not be reached.

    status: the HTTP code, 0 when there was no answer. body: the server's `Status` object, if it sent one.
    retry_after: seconds the server asked us to wait, or None. within: seconds after which it is tried again at the
    latest, or None: of a refusal that others need not wait for. held: it was not sent, and others like it are not
    either. uncertain: it may have taken effect, and whether it did could not be found out.
    """

    def __init__(
        self, message: str, *, status: int = 0, body: dict[str, Any] | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.within: float | None = None
        self.held = False
        self.uncertain = False

    @property
    def concerns_all(self) -> bool:
        """True if a request for another object would fail alike: the user is unknown, or there was no answer."""
        return self.status == 401


class NotFound(ClusterError):  # noqa: N818
    """404."""


class AlreadyExists(ClusterError):  # noqa: N818
    """409 with reason AlreadyExists: the name is taken."""


class Conflict(ClusterError):  # noqa: N818
    """409: the object changed since it was read."""


class Gone(ClusterError):  # noqa: N818
    """410: the resourceVersion or continue token is older than the server remembers."""


class Invalid(ClusterError):  # noqa: N818
    """400 or 422: the object is not acceptable as it is."""


class Forbidden(ClusterError):  # noqa: N818
    """401 or 403."""

    @property
    def namespace_terminating(self) -> bool:
        """Refused because the namespace is being deleted: nothing can be created in it any more."""
        causes = ((self.body or {}).get("details") or {}).get("causes") or ()
        return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


class Unavailable(ClusterError):  # noqa: N818
    """429, 5xx, a time-out or no connection at all."""

    @property
    def concerns_all(self) -> bool:
        """True: the next request meets the same server."""
        return True


class Silent(Unavailable):
    """A watch without a byte for too long: nothing happened, or the peer has vanished."""


class Throttled(Unavailable):
    """Not sent: the API server asked for a pause, or too many requests of this process wait for it already."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message, status=429, retry_after=retry_after)
        self.held = True
