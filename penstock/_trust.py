"""The trust of TLS clients: as that of Go's, and so of KEDA and kubectl, on every version of Python."""

import ssl
from collections.abc import Sequence

#: Every certificate of an authority is trusted by itself, an intermediate one as well.
INCLUDED: Sequence[ssl.VerifyFlags] = (ssl.VERIFY_X509_PARTIAL_CHAIN,)
#: Python sets it from 3.13 on, and then refuses authorities without a key usage, which many clusters have.
EXCLUDED: Sequence[ssl.VerifyFlags] = (ssl.VERIFY_X509_STRICT,)


def client_context(*, cafile: str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Returns a context that trusts the authorities in a file and in PEM texts, or without either the system's.

    Raises OSError or ValueError for authorities that cannot be read.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    for flag in INCLUDED:
        context.verify_flags |= flag
    for flag in EXCLUDED:
        context.verify_flags &= ~flag
    return context
