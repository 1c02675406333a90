"""The OpenAPI documents over HTTP: an index and a document per group and version, and version 2 in one piece.

A document is built on its first request, and cached until a CustomResourceDefinition changes the served resources.
"""

from collections.abc import Callable, Sequence

import orjson

from deploy.local.apiserver.codec import protobuf_openapi
from deploy.local.apiserver.discovery import openapi
from deploy.local.apiserver.discovery.api_resources import ResourceRegistry, ServedResource
from deploy.local.apiserver.http.request import ApiRequest, Response
from workers.api.kinds import Kind, Object

#: The media type under which the version 2 document is known, up to what follows an at sign in its full name.
V2_PROTOBUF = openapi.V2_MEDIA_TYPE.partition("@")[0]
#: Its name in responses: an at sign is not allowed in a media type, and Go's clients refuse it.
V2_ANSWER = openapi.V2_MEDIA_TYPE.replace("@", ".")


class Documents:
    """The documents of what a registry serves."""

    def __init__(self, registry: ResourceRegistry) -> None:
        self._registry = registry
        self._made: dict[str, bytes] = {}
        self._made_for: frozenset[ServedResource] | None = None

    def answer(self, request: ApiRequest, parts: Sequence[str]) -> Response | None:
        """The answer to a path below ``/openapi``; None when there is no such document."""
        match parts:
            case ["v2"]:
                if V2_PROTOBUF in request.headers.get("accept", ""):
                    return Response(200, self._kept("v2.pb", lambda: protobuf_openapi.document(self._v2())), V2_ANSWER)
                return Response(200, self._kept("v2", lambda: orjson.dumps(self._v2())))
            case ["v3"]:
                return Response(200, self._kept("v3", self._index))
            case ["v3", "api" | "apis", *rest] if "/".join(rest) in self._versions():
                version = "/".join(rest)
                return Response(200, self._kept(version, lambda: orjson.dumps(self._v3(version))))
        return None

    def _kept(self, name: str, make: Callable[[], bytes]) -> bytes:
        served = frozenset(self._registry)
        if served != self._made_for:
            self._made, self._made_for = {}, served
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def _versions(self) -> list[str]:
        return list(dict.fromkeys(resource.kind.api_version for resource in self._registry))

    def _v3(self, version: str) -> Object:
        served = [resource for resource in self._registry if resource.kind.api_version == version]
        return openapi.v3_document(version, [resource.kind for resource in served], _schemas(served))

    def _index(self) -> bytes:
        return orjson.dumps(openapi.v3_index({version: self._v3(version) for version in self._versions()}))

    def _v2(self) -> Object:
        served = list(self._registry)
        return openapi.v2_document([resource.kind for resource in served], _schemas(served))


def _schemas(resources: Sequence[ServedResource]) -> dict[Kind, Object]:
    """The schemas of the custom resources among these."""
    found: dict[Kind, Object] = {}
    for resource in resources:
        if resource.definition is not None:
            versions = {version["name"]: version for version in resource.definition["spec"]["versions"]}
            schema = versions[resource.kind.version].get("schema") or {}
            found[resource.kind] = schema.get("openAPIV3Schema") or {"type": "object"}
    return found
