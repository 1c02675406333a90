"""Why something could not be measured."""

from workers.errors import PenstockError


class SourceError(PenstockError):
    """A source could not be measured; the message says why and holds no secret."""


class Unreached(SourceError):  # noqa: N818 - what happened
    """The server itself does not answer, refuses the login, or broke the connection off."""


class TooSlow(SourceError):  # noqa: N818 - what happened
    """One question was not answered in time; what else its server was asked may have been."""
