"""The OpenAPI documents over HTTP: an index, and one document per group and version."""

from collections.abc import Sequence

from deploy.local.apiserver.request import Request, Response
from deploy.local.apiserver.resources import Registry


def answer(registry: Registry, request: Request, parts: Sequence[str]) -> Response | None:
    """The answer to a path below ``/openapi``; None when there is no such document."""
    return None
