"""A small API server in memory, behind the methods of `Cluster` that the command uses.

It knows discovery, get, list with label selectors and paging, tables, create, merge patch, delete and scripted
watches: enough to test what the command sends and prints. What a real server answers is tested against real servers.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.support.merging import merged
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB, Kind, Ref
from workers.errors import AlreadyExists, Invalid, NotFound

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
POD = Kind("", "v1", "Pod", "pods")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
EVENT = Kind("", "v1", "Event", "events")
JOB = Kind("batch", "v1", "Job", "jobs")
SCALED_JOB = Kind("keda.sh", "v1alpha1", "ScaledJob", "scaledjobs")
VOLCANO_JOB = Kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
KINDS = (CONFIG_MAP, POD, NODE, EVENT, JOB, CRON_JOB, VOLCANO_JOB, SCALED_JOB, SCHEDULED_JOB)
SHORT = {
    "configmaps": ["cm"],
    "pods": ["po"],
    "nodes": ["no"],
    "scaledjobs": ["sj"],
    "cronjobs": ["cj"],
    "scheduledjobs": ["schj"],
}
CATEGORIES = {POD.id: ["all"], JOB.id: ["all"]}


class FakeCluster:
    """calls: every request as (method, path). page: how many items one page has. refused: errors by the path read."""

    def __init__(self, kinds: tuple[Kind, ...] = KINDS) -> None:
        self.kinds = list(kinds)
        self.objects: dict[str, dict[str, Any]] = {}
        self.streams: dict[str, list[bytes]] = {}
        self.queries: list[Mapping[str, str]] = []
        self.calls: list[tuple[str, str]] = []
        self.page = 500
        self.refused: dict[str, Exception] = {}
        self._version = 100

    async def close(self) -> None:
        """Nothing to close."""

    async def get(self, ref: Ref) -> Any:
        """The object as it is now."""
        return await self.request("GET", ref.kind.path(ref.namespace, ref.name))

    def add(self, kind: Kind, name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
        """Store an object as if it had always been there."""
        self._version += 1
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self._version)}
        if kind.namespaced:
            metadata["namespace"] = namespace
        metadata |= fields.pop("metadata", {})
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        self.objects[kind.path(namespace if kind.namespaced else "", name)] = body
        return body

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One call, as `Cluster.request` makes it."""
        self.calls.append((method, path))
        self.queries.append(query or {})
        if method == "GET" and (found := self._discovery(path)) is not None:
            return found
        table = "as=Table" in (headers or {}).get("Accept", "")
        if method == "GET":
            return self._get(path, query or {}, table)
        if method == "POST":
            return self._create(path, body, dry="dryRun" in (query or {}))
        if method == "PATCH":
            return self._patch(path, body, dry="dryRun" in (query or {}))
        return self.objects.pop(path) if path in self.objects else self._missing(path)

    async def stream_lines(
        self, path: str, query: Mapping[str, str] | None = None, *, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[bytes]:
        """The scripted lines of a path; a watch that has none left ends the test by KeyboardInterrupt."""
        self.calls.append(("STREAM", path))
        self.queries.append(query or {})
        lines = self.streams.pop(path, None)
        if lines is None:
            raise KeyboardInterrupt
        for line in lines:
            yield line

    def event(self, type_: str, body: Any) -> bytes:
        """A line of a watch."""
        return json.dumps({"type": type_, "object": body}).encode()

    def _discovery(self, path: str) -> Any:
        if path == "/apis":
            groups = dict.fromkeys((kind.group, kind.version) for kind in self.kinds if kind.group)
            return {
                "groups": [
                    {"name": group, "versions": [{"version": version}], "preferredVersion": {"version": version}}
                    for group, version in groups
                ]
            }
        found = [kind for kind in self.kinds if kind.path() == f"{path}/{kind.plural}"]
        if not found:
            return None
        return {
            "resources": [
                {
                    "name": kind.plural,
                    "singularName": kind.kind.lower(),
                    "kind": kind.kind,
                    "namespaced": kind.namespaced,
                    "shortNames": SHORT.get(kind.plural, []),
                    "categories": CATEGORIES.get(kind.id, []),
                    "verbs": ["get", "list"],
                }
                for kind in found
            ]
            + [{"name": f"{found[0].plural}/status", "kind": found[0].kind, "namespaced": True}]
        }

    def _get(self, path: str, query: Mapping[str, str], table: bool) -> Any:
        if path in self.refused:
            raise self.refused[path]
        if path in self.objects:
            body = self.objects[path]
            return self.table([body], whole="includeObject" in query) if table else body
        within = path.split("/namespaces/")[1].split("/")[0] if "/namespaces/" in path else None
        kind = next((kind for kind in self.kinds if path == kind.path(within or "")), None)
        if kind is None:
            return self._missing(path)
        wanted = [part.partition("=") for part in query.get("labelSelector", "").split(",") if part]
        fields = query.get("fieldSelector", "")
        items = [
            body
            for body in self.objects.values()
            if (body["apiVersion"], body["kind"]) == (kind.api_version, kind.kind)
            and within in (None, body["metadata"].get("namespace"))
            and all(_labelled(body, label, value if equals else None) for label, equals, value in wanted)
            and (not fields or fields == f"involvedObject.uid={body.get('involvedObject', {}).get('uid')}")
        ]
        start = int(query.get("continue") or 0)
        end = start + self.page
        metadata = {"resourceVersion": str(self._version), "continue": str(end) if end < len(items) else ""}
        if table:
            return self.table(items[start:end], metadata, whole="includeObject" in query)
        plain = [{key: item[key] for key in item if key not in ("apiVersion", "kind")} for item in items[start:end]]
        return {"kind": f"{kind.kind}List", "apiVersion": kind.api_version, "metadata": metadata, "items": plain}

    def table(self, items: list[Any], metadata: Any = None, *, whole: bool = False) -> Any:
        """A Table with one column that only -o wide shows."""
        return {
            "kind": "Table",
            "metadata": metadata or {"resourceVersion": str(self._version)},
            "columnDefinitions": [
                {"name": "Name", "priority": 0},
                {"name": "Status", "priority": 0},
                {"name": "UID", "priority": 1},
            ],
            "rows": [
                {
                    "cells": [
                        item["metadata"]["name"],
                        (item.get("status") or {}).get("phase", "Running"),
                        item["metadata"].get("uid"),
                    ],
                    "object": item if whole else {"metadata": item["metadata"]},
                }
                for item in items
            ],
        }

    def _create(self, path: str, body: Any, *, dry: bool) -> Any:
        self._version += 1
        metadata = body["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{self._version}"
        body = {**body, "metadata": {**metadata, "name": name}}
        if f"{path}/{name}" in self.objects:
            raise AlreadyExists(f"{name} already exists", status=409)
        if name != name.lower():
            message = f'{body["kind"]} "{name}" is invalid: metadata.name: Invalid value: "{name}"'
            raise Invalid(f"POST {path}: 422: {message}", status=422, body={"kind": "Status", "message": message})
        stored = {**body, "metadata": {"uid": f"uid-{name}", **body["metadata"], "resourceVersion": str(self._version)}}
        if not dry:
            self.objects[f"{path}/{name}"] = stored
        return stored

    def _patch(self, path: str, body: Any, *, dry: bool) -> Any:
        if path not in self.objects:
            self._missing(path)
        changed = merged(self.objects[path], body)
        if not dry:
            self._version += 1
            changed["metadata"]["resourceVersion"] = str(self._version)
            self.objects[path] = changed
        return changed

    def _missing(self, path: str) -> Any:
        plural, name = path.rsplit("/", 2)[-2:]
        message = f'{plural} "{name}" not found'
        raise NotFound(f"GET {path}: 404: {message}", status=404, body={"kind": "Status", "message": message})

    async def list(self, kind: Kind, namespace: str = "") -> tuple[Any, str]:
        """All objects of a kind; last here, because its name is that of the type."""
        return (await self.request("GET", kind.path(namespace)))["items"], "1"


def _labelled(body: Any, label: str, value: str | None) -> bool:
    """Returns True if an object has a label, with this value if one is given."""
    labels = body["metadata"].get("labels") or {}
    return label in labels and value in (None, labels[label])
