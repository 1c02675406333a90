"""The reason of a failure as it stands in a status: short, with the server, without secrets."""

from collections.abc import Iterator
from urllib.parse import unquote

from pydantic import SecretStr

from penstock.scaler import Scaler, SourceError

#: Longest text of a reason; it ends up in an object's status.
QUOTE = 300


def why(error: Exception, *scalers: Scaler) -> str:
    """Returns the error as a reason: short, naming the server, and without the secrets of these scalers.

    The text of an error may hold them, for libraries quote what they are given.
    """
    text = str(error) if isinstance(error, SourceError) else f"{type(error).__name__}: {error}"
    try:
        server = scalers[0].server
        hash(server)
    except Exception:
        # The failing property may be this very one.
        server = None
    # An error of a server with several addresses may name only the one that failed.
    if server is not None and not any(place in text for place in str(server).split(",")):
        text = f"{server}: {text}"
    for secret in {secret for scaler in scalers for secret in _secrets(scaler)}:
        text = text.replace(secret, "***")
    return text[:QUOTE]


def _secrets(scaler: Scaler) -> Iterator[str]:
    """Yields the secrets of a scaler; of a secret that is an address only one with a password, and that alone, too."""
    for _, value in scaler:
        if not isinstance(value, SecretStr) or not value.get_secret_value():
            continue
        text = value.get_secret_value()
        if "://" not in text:
            yield text
        elif ":" in (login := text.partition("://")[2].rpartition("@")[0]):
            password = login.partition(":")[2]
            yield from (text, password, unquote(password))
