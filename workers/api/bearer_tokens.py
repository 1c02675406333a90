"""Bearer tokens in the headers of HTTP requests."""

from collections.abc import Mapping


def bearer_token(headers: Mapping[str, str]) -> str:
    """Returns the token in `Authorization: Bearer`, empty without one. headers: by lower-case name. Pure."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
