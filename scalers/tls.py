"""TLS of measured servers: certificates that come as text, from Secrets."""

import ssl
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class TLS:
    """What a client shows and trusts; certificates and keys are PEM texts. No certificate authority: the system's.

    verify: False accepts any server. The key and its password are in no repr.
    """

    ca: str = ""
    cert: str = ""
    key: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    verify: bool = True

    def context(self) -> ssl.SSLContext:
        """A context for clients; raises ValueError for a certificate or key that cannot be read."""
        return _context(self)


@lru_cache(maxsize=256)
def _context(tls: TLS) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=tls.ca or None)
    except ssl.SSLError as error:
        raise ValueError(f"ca: is not a certificate in PEM form: {error.reason}") from None
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert or tls.key:
        _show(context, tls)
    return context


def _show(context: ssl.SSLContext, tls: TLS) -> None:
    """The ssl module reads a client's certificate from a file only; this one is ours alone and gone at once."""
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{tls.cert}\n{tls.key}\n")
        file.flush()
        try:
            # Without a password function OpenSSL would ask at the terminal.
            context.load_cert_chain(file.name, password=lambda: tls.key_password)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ValueError(f"cert, key: cannot be used: {getattr(error, 'reason', None) or error}") from None
