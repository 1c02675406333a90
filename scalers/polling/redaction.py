"""Why a value is unknown, as it may be told: short, with the server, without secrets."""

from collections.abc import Iterator
from urllib.parse import unquote

from pydantic import SecretStr

from penstock.scaler import Scaler, SourceError

#: Longest text of a reason; it ends up in an object's status.
QUOTE = 300


def why(error: Exception, *scalers: Scaler) -> str:
    """The error as a reason in a status: short, naming the server, and without the secrets of those who asked.

    A library may quote them.
    """
    text = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
    try:
        server = scalers[0].server
        hash(server)
    except Exception:
        # It may be this very property that failed.
        server = None
    # Of a server that is several, the one that is meant may be named alone.
    if server is not None and not any(place in text for place in str(server).split(",")):
        text = f"{server}: {text}"
    for secret in {secret for scaler in scalers for secret in _secrets(scaler)}:
        text = text.replace(secret, "***")
    return text[:QUOTE]


def _secrets(scaler: Scaler) -> Iterator[str]:
    """What must not be told of a scaler: its secrets; of one that is an address the password alone."""
    for _, value in scaler:
        if not isinstance(value, SecretStr) or not value.get_secret_value():
            continue
        text = value.get_secret_value()
        if "://" not in text:
            yield text
        elif ":" in (login := text.partition("://")[2].rpartition("@")[0]):
            password = login.partition(":")[2]
            yield from (text, password, unquote(password))
