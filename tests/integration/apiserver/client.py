"""A client that adds nothing: what is sent and what comes back, byte for byte."""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import urllib3
import yaml

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

#: Seconds anything may take on a busy machine.
PATIENCE = 60.0


def until(condition: Callable[[], Any], what: str) -> Any:
    """Waits for a condition and answers what it was."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {PATIENCE:g} s: {what}"
        time.sleep(0.02)
    return found


@dataclass(frozen=True)
class Answer:
    """What came back. Names of headers are in lower case: servers written in Go capitalise them."""

    code: int
    headers: dict[str, str]
    text: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


class Api:
    """One API server, and one namespace in it that the paths below use."""

    def __init__(self, kubeconfig: Path, namespace: str = "default") -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url = cluster["server"]
        self.token = config["users"][0]["user"]["token"]
        self.namespace = namespace
        self.jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        self.maps, self.pods = (f"/api/v1/namespaces/{namespace}/{plural}" for plural in ("configmaps", "pods"))
        if data := cluster.get("certificate-authority-data"):
            authority = base64.b64decode(data).decode()
        else:
            authority = Path(cluster["certificate-authority"]).read_text()
        self.pool = urllib3.PoolManager(ca_cert_data=authority)

    def headers(self, accept: str = "application/json") -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Accept": accept}

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type: str = "application/json",
        accept: str = "application/json",
        **query: Any,
    ) -> Answer:
        headers = self.headers(accept)
        data = None
        if body is not None:
            headers["Content-Type"] = type
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"{self.url}{path}" + (f"?{urlencode(query)}" if query else "")
        answer = self.pool.request(method, url, body=data, headers=headers, timeout=PATIENCE, retries=False)
        return Answer(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.data)

    def get(self, path: str, **query: Any) -> Answer:
        return self("GET", path, **query)

    def needs(self, version: str, what: str) -> None:
        """Skips the test on a server that is older than what is tested."""
        if not self.has(version):
            found = self.get("/version").body["gitVersion"]
            pytest.skip(f"{what} came with Kubernetes {version}: NOT tested against {found}")

    def has(self, version: str) -> bool:
        """True for a server of this version of Kubernetes or a newer one; a server without a version is older."""
        found = self.get("/version").body
        known = int(found["major"] or 0), int(found["minor"].rstrip("+") or 0)
        return known >= tuple(map(int, version.split(".")))

    def create(self, path: str, body: Any, **query: Any) -> dict[str, Any]:
        answer = self("POST", path, body, **query)
        assert answer.code == 201, answer.text
        return dict(answer.body)

    def patch(self, path: str, body: Any, type: str = MERGE) -> Answer:
        return self("PATCH", path, body, type=type)

    @contextmanager
    def watch(self, path: str, seconds: float = PATIENCE, **query: Any) -> Iterator[Iterator[dict[str, Any]]]:
        """The events of a watch; it ends by itself after so many seconds."""
        query = {"watch": "1", "timeoutSeconds": int(seconds), **query}
        answer = self.pool.request(
            "GET", f"{self.url}{path}?{urlencode(query)}", headers=self.headers(), preload_content=False, retries=False
        )
        assert answer.status == 200, answer.data
        try:
            yield (json.loads(line) for line in answer if line.strip())
        finally:
            answer.close()


def config_map(name: str = "one", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def job(name: str = "crunch", **metadata: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "none", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"template": template},
    }


def pod(name: str = "worker", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def custom(kind: str, name: str, *, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """An object of a kind of the group test.penstock.dev."""
    body = {"apiVersion": "test.penstock.dev/v1", "kind": kind, "metadata": {"name": name, **metadata}}
    return body if spec is None else {**body, "spec": spec}


def owned_by(owner: dict[str, Any], *, block: bool = False, controller: bool = True) -> dict[str, Any]:
    """The metadata of a dependent."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"]}
    reference |= {"uid": owner["metadata"]["uid"], "controller": controller, "blockOwnerDeletion": block}
    return {"ownerReferences": [reference]}


def definition(plural: str, schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
    """A CustomResourceDefinition of the group test.penstock.dev with a status subresource."""
    kind = plural.removesuffix("s").capitalize()
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    one = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.test.penstock.dev"},
        "spec": {
            "group": "test.penstock.dev",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "shortNames": [plural[:3]]},
            "versions": [{**one, "schema": {"openAPIV3Schema": schema or anything}, **version}],
        },
    }


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
