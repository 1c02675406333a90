"""TLS of measured servers, with certificates as texts from Secrets."""

import ssl
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol, Self

from pydantic import SecretStr

from penstock.parameters import ParameterError


class Certificates(Protocol):
    """The fields of a trigger that has KEDA's parameters of TLS."""

    @property
    def ca(self) -> str | None: ...
    @property
    def cert(self) -> str | None: ...
    @property
    def key(self) -> SecretStr | None: ...
    @property
    def key_password(self) -> SecretStr | None: ...
    @property
    def unsafe_ssl(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class TLS:
    """The certificates that a client presents and trusts, as PEM texts. Without `ca` it trusts the system's.

    verify: False accepts any server. The key and its password are in no repr.
    """

    ca: str = ""
    cert: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    verify: bool = True

    @classmethod
    def of(cls, trigger: Certificates) -> Self:
        """Returns the TLS of a trigger."""
        return cls(
            ca=trigger.ca or "",
            cert=trigger.cert or "",
            key=trigger.key.get_secret_value() if trigger.key else "",
            key_password=trigger.key_password.get_secret_value() if trigger.key_password else "",
            verify=not trigger.unsafe_ssl,
        )

    def context(self) -> ssl.SSLContext:
        """Returns a context for clients. Raises ParameterError, of `ca` or `cert`, for texts that cannot be read."""
        return _context(self)


@lru_cache(maxsize=256)
def _context(tls: TLS) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=tls.ca or None)
    except ssl.SSLError as error:
        raise ParameterError("ca", f"is not a certificate in PEM form: {error.reason}") from None
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert or tls.key:
        _load(context, tls)
    return context


def _load(context: ssl.SSLContext, tls: TLS) -> None:
    """Loads the client's certificate from a private temporary file: the ssl module reads it from files only."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{tls.cert}\n{tls.key}\n")
        file.flush()
        try:
            # Without a password function OpenSSL would ask at the terminal.
            context.load_cert_chain(file.name, password=lambda: tls.key_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            why = getattr(error, "reason", None) or error
            raise ParameterError("cert", f"and key cannot be used: {why}") from None
