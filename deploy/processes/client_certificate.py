"""The client's certificate in the ASGI scope of a request, as ASGI's TLS extension has it; uvicorn leaves it out."""

import asyncio
import ssl
from pathlib import Path

from deploy.processes.https import BoundedHttp
from workers.errors import UserError


class CertificateHttp(BoundedHttp):
    """The HTTP protocol that hands on the certificate of its connection, which the TLS handshake has verified."""

    _chain: tuple[str, ...] = ()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # The handshake is over: a certificate that is expired or of a foreign authority has ended the connection.
        connection = transport.get_extra_info("ssl_object")
        certificate = connection.getpeercert(binary_form=True) if connection is not None else None
        if certificate:
            self._chain = (ssl.DER_cert_to_PEM_cert(certificate),)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {"tls": {"client_cert_chain": self._chain}}


def ask_for(context: ssl.SSLContext, authority: Path) -> None:
    """Makes a server's context ask clients for certificates of this authority; a client may come without one.

    authority: PEM. Raises UserError if it cannot be read.
    """
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"--client-ca: {authority}: {error}") from error
    context.verify_mode = ssl.CERT_OPTIONAL
