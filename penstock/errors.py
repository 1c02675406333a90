"""Errors that a scaler raises and that a caller of this package meets.

PenstockError
├── UserError     the input is wrong: the message names the object and the field
└── SourceError   a source could not be measured: the value is unknown
    ├── Unreached   the server itself does not answer
    └── TooSlow     one question was not answered in time
"""


class PenstockError(Exception):
    """The root of all our errors."""


class UserError(PenstockError):
    """The input is wrong; the message names the object and the field."""


class SourceError(PenstockError):
    """A source could not be measured; the message says why and holds no secret."""


class Unreached(SourceError):  # noqa: N818 - what happened
    """The server itself does not answer, refuses the login, or broke the connection off."""


class TooSlow(SourceError):  # noqa: N818 - what happened
    """One question was not answered in time; what else its server was asked may have been."""
