"""TLS of measured servers, with certificates as texts from Secrets."""

import re
import ssl
import tempfile
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl

from pydantic import SecretStr

from penstock._trust import client_context
from penstock.parameters import IGNORED_TRUST, ParameterError
from penstock.scaler import Scaler, Source, parameter

#: Options of a URL that change how its server is trusted, in the spellings of Redis, RabbitMQ, MySQL and others.
_URL_OPTION = re.compile(r"(?i)ssl|tls|(?:ca)?certfile$|keyfile$|verify$|server_name_indication$|auth_mechanism$")


def trust_options(query: str) -> list[str]:
    """Returns the names of the options in a URL's query that change how the server is trusted."""
    return [name for name, _ in parse_qsl(query, keep_blank_values=True) if _URL_OPTION.match(name)]


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

    def context(self) -> ssl.SSLContext:
        """Returns a context for clients. Raises ParameterError, of `ca` or `cert`, for texts that cannot be read."""
        return _context(self)


class Certificates(Scaler):
    """KEDA's parameters of TLS, for triggers to inherit."""

    unsafe_ssl: bool = parameter(False, sources=(Source.METADATA,), description="accept any certificate of the server")
    ca: str | None = parameter(
        None, sources=(Source.AUTHENTICATION,), description="PEM of the authority to trust instead of the system's"
    )
    cert: str | None = parameter(None, sources=(Source.AUTHENTICATION,), description="PEM of a client certificate")
    key: SecretStr | None = parameter(
        None, sources=(Source.AUTHENTICATION,), description="PEM of the client certificate's private key"
    )

    def certificates(self) -> TLS:
        """Returns the TLS of these parameters. Raises ParameterError for a certificate without its key."""
        if (self.cert is None) != (self.key is None):
            raise ParameterError("cert" if self.key else "key", "cert and key must come together")
        return TLS(self.ca or "", self.cert or "", _text(self.key), self._password(), verify=not self.unsafe_ssl)

    def refuse_unused(self, without: str) -> None:
        """Raises ParameterError for an option about TLS that is given although none is spoken. without: what would.

        Who gives one expects TLS: credentials must not go in the clear because a switch was forgotten.
        """
        for name, value in (("ca", self.ca), ("cert", self.cert), ("unsafeSsl", self.unsafe_ssl)):
            if value and IGNORED_TRUST not in self.quirks:
                raise ParameterError(name, f"is of no use without {without}")

    def _password(self) -> str:
        return ""


class ProtectedCertificates(Certificates):
    """The same with a private key that may be encrypted."""

    key_password: SecretStr | None = parameter(
        None, sources=(Source.AUTHENTICATION,), description="password of the private key"
    )

    def _password(self) -> str:
        return _text(self.key_password)


def _text(secret: SecretStr | None) -> str:
    return secret.get_secret_value() if secret else ""


@lru_cache(maxsize=256)
def _context(tls: TLS) -> ssl.SSLContext:
    try:
        context = client_context(cadata=tls.ca or None)
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
