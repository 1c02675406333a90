"""Random operations on two API servers, and what both must answer alike."""

import copy
import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.integration.apiserver.client import JSON_PATCH, MERGE, STRATEGIC, Answer, Api
from tests.unit.apiserver.odd import ODD, mutated, places

Body = dict[str, Any]
_numbers = itertools.count(1)

_CONTAINER = {"name": "main", "image": "none", "command": ["true"]}
_POD = {"restartPolicy": "Never", "containers": [_CONTAINER]}


@dataclass(frozen=True)
class OnBoth:
    """A kind that both servers have. spec: what is in an object beside its metadata. subresources: with a path each."""

    api_version: str
    kind: str
    plural: str
    spec: Body
    status: Body | None = None
    scale: bool = False

    def path(self, namespace: str) -> str:
        root = "/apis/" if "/" in self.api_version else "/api/"
        return f"{root}{self.api_version}/namespaces/{namespace}/{self.plural}"


#: The controllers of the real server leave these alone: paused, of no pods, or without a node.
KINDS = (
    OnBoth("v1", "ConfigMap", "configmaps", {"data": {"a": "1", "b": "2"}, "binaryData": {"c": "eA=="}}),
    OnBoth("v1", "Secret", "secrets", {"type": "Opaque", "data": {"a": "eA=="}, "stringData": {"b": "x"}}),
    OnBoth(
        "batch/v1",
        "Job",
        "jobs",
        {"spec": {"parallelism": 0, "completions": 2, "template": {"metadata": {"labels": {"l": "1"}}, "spec": _POD}}},
        {"active": 1, "failed": 2},
    ),
    OnBoth(
        "apps/v1",
        "Deployment",
        "deployments",
        {
            "spec": {
                "paused": True,
                "replicas": 0,
                "selector": {"matchLabels": {"l": "1"}},
                "template": {"metadata": {"labels": {"l": "1"}}, "spec": {"containers": [_CONTAINER]}},
            }
        },
        scale=True,
    ),
    OnBoth(
        "test.penstock.dev/v1",
        "Shrub",
        "shrubs",
        {"spec": {"replicas": 1, "text": "a", "list": [{"id": "i", "n": 1}], "kept": {"any": ["thing"]}}},
        {"replicas": 1, "text": "a"},
        scale=True,
    ),
)
_TEXT, _NUMBER = {"type": "string", "maxLength": 5}, {"type": "integer", "minimum": 0, "maximum": 9}
#: The schema of the kind of the test's own: with defaults, bounds, unknown fields that vanish and some that stay.
SHRUB: Body = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["text"],
            "properties": {
                "replicas": {**_NUMBER, "default": 2},
                "text": {**_TEXT, "enum": ["a", "b", "c"]},
                "list": {
                    "type": "array",
                    "maxItems": 2,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {"type": "object", "required": ["id"], "properties": {"id": _TEXT, "n": _NUMBER}},
                },
                "kept": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {"type": "object", "properties": {"replicas": _NUMBER, "text": _TEXT}},
    },
}
SUBRESOURCES: Body = {
    "status": {},
    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
}


@dataclass(frozen=True)
class Operation:
    """One request, as both servers get it. verb: what it does. arguments: its choices."""

    verb: str
    name: str = "a"
    arguments: Mapping[str, Any] = field(default_factory=dict)


LABELS = st.dictionaries(st.sampled_from(("x", "y")), st.sampled_from(("1", "2")), max_size=2)
METADATA = st.fixed_dictionaries(
    {}, optional={"labels": LABELS, "annotations": LABELS, "finalizers": st.sampled_from((["x.io/a"], []))}
)
NAMES = st.sampled_from(("a", "b"))
VERSION = st.sampled_from(("none", "none", "current", "stale"))
DRY = st.sampled_from(({}, {}, {}, {"dryRun": "All"}, {"dryRun": "Some"}))


def changes(body: Body) -> st.SearchStrategy[list[tuple[tuple[Any, ...], Any]]]:
    """Mostly nothing; sometimes an odd value at some place."""
    one = st.tuples(st.sampled_from(list(places(body))), st.sampled_from(ODD))
    return st.just([]) | st.just([]) | st.lists(one, min_size=1, max_size=2)


def operations(kind: OnBoth) -> st.SearchStrategy[list[Operation]]:
    """Sequences of requests; they begin with an object."""
    bodies = st.fixed_dictionaries({"metadata": METADATA, "changes": changes(kind.spec), "dry": DRY})
    patches = st.sampled_from((MERGE, STRATEGIC, JSON_PATCH))
    pieces = st.sampled_from(sorted(places(kind.spec), key=str)).filter(lambda at: all(isinstance(k, str) for k in at))
    create = st.builds(Operation, st.just("create"), NAMES, bodies)
    replace = st.builds(
        lambda name, body, version: Operation("replace", name, {**body, "version": version}), NAMES, bodies, VERSION
    )
    patch = st.builds(
        Operation,
        st.just("patch"),
        NAMES,
        st.fixed_dictionaries(
            {
                "type": patches,
                "at": pieces | st.sampled_from((("metadata", "labels", "x"), ("metadata", "annotations"), ("more",))),
                "value": st.sampled_from(ODD) | st.sampled_from(("1", 3, {"x": "1"}, ["x"])),
                "op": st.sampled_from(("add", "replace", "remove", "test", "copy", "move", "odd")),
                "version": VERSION,
                "dry": DRY,
            }
        ),
    )
    delete = st.builds(
        Operation,
        st.just("delete"),
        NAMES,
        st.fixed_dictionaries(
            {},
            optional={
                "uid": st.sampled_from(("current", "stale")),
                "version": st.sampled_from(("current", "stale")),
                # With Foreground and Orphan the collector of the real server ends the deletion in its own time.
                "propagation": st.sampled_from(("Background", "Sometimes")),
                "dry": DRY,
            },
        ),
    )
    read = st.builds(
        Operation,
        st.just("list"),
        st.just(""),
        st.sampled_from(
            (
                *(
                    {"labelSelector": text}
                    for text in ("x", "!x", "x=1", "x!=1", "x in (1,2)", "x notin (1)", "x=", "=")
                ),
                *({"labelSelector": text} for text in ("x=1,y=2", "x in 1", "x>0", "x,", "a/b/c=1", "x=1 2", "")),
                *(
                    {"fieldSelector": text}
                    for text in ("metadata.name={a}", "metadata.name!={a}", "metadata.nam=a", "a")
                ),
                *({"limit": value} for value in ("1", "0", "-1", "x")),
                *({"resourceVersion": value} for value in ("0", "x", "1")),
                {"continue": "x"},
                {"limit": "1", "continue": "x"},
            )
        ),
    )
    get = st.builds(Operation, st.just("get"), NAMES)
    status = st.builds(
        Operation,
        st.just("status"),
        NAMES,
        st.fixed_dictionaries(
            {"changes": changes(kind.status or {"x": "1"}), "verb": st.sampled_from(("PUT", "PATCH"))}
        ),
    )
    scale = st.builds(
        Operation,
        st.just("scale"),
        NAMES,
        st.fixed_dictionaries(
            {
                "verb": st.sampled_from(("GET", "PUT", "PATCH")),
                "replicas": st.sampled_from((0, 0, 1, 5, -1, None, "1", 0.5, 2**31)),
                "version": VERSION,
            }
        ),
    )
    more = (create, replace, patch, patch, delete, read, get)
    more += (status,) if kind.status is not None else ()
    more += (scale,) if kind.scale else ()
    first = Operation("create", "a", {"metadata": {"labels": {"x": "1"}}, "changes": [], "dry": {}})
    return st.lists(st.one_of(*more), min_size=2, max_size=7).map(lambda rest: [first, *rest])


class Side:
    """One of the two servers, with the versions and uids of the objects that it has been asked for.

    name: of the objects of one sequence, which differ from those of others by it.
    """

    def __init__(self, api: Api, kind: OnBoth, name: str) -> None:
        self._api, self._kind, self._name = api, kind, name
        self._path = kind.path(api.namespace)
        self._stale: dict[str, tuple[str, str]] = {}

    def carry_out(self, operation: Operation) -> Answer:
        """Sends one request."""
        name, said = f"{self._name}-{operation.name}", dict(operation.arguments)
        do: Callable[..., Answer] = getattr(self, f"_{operation.verb}")
        return do(name, said)

    def _body(self, name: str, said: Body) -> Body:
        metadata = {"name": name, **said.get("metadata", {})}
        metadata["labels"] = {**metadata.get("labels", {}), "run": self._name}
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
        return {**head, **mutated(self._kind.spec, said.get("changes", []))}

    def _identity(self, name: str, which: str) -> tuple[str, str]:
        """The uid and version of an object: as they are now, or as those of nothing."""
        found = self._api.get(f"{self._path}/{name}")
        if found.code != 200 or which == "stale":
            return "00000000-0000-0000-0000-000000000000", "1"
        return found.body["metadata"]["uid"], found.version

    def _create(self, name: str, said: Body) -> Answer:
        return self._api("POST", self._path, self._body(name, said), **said["dry"])

    def _replace(self, name: str, said: Body) -> Answer:
        body = self._body(name, said)
        if said["version"] != "none":
            body["metadata"]["resourceVersion"] = self._identity(name, said["version"])[1]
        return self._api("PUT", f"{self._path}/{name}", body, **said["dry"])

    def _patch(self, name: str, said: Body) -> Answer:
        if said["type"] == JSON_PATCH:
            pointer = "/" + "/".join(said["at"])
            step = {"op": said["op"], "path": pointer, "value": said["value"]}
            if said["op"] in ("copy", "move"):
                step = {"op": said["op"], "from": "/metadata/labels/run", "path": pointer}
            patch: Any = [step]
        else:
            patch = copy.deepcopy(said["value"])
            for key in reversed(said["at"]):
                patch = {key: patch}
            if said["version"] != "none" and isinstance(patch, dict):
                version = self._identity(name, said["version"])[1]
                patch.setdefault("metadata", {})
                if isinstance(patch["metadata"], dict):
                    patch["metadata"]["resourceVersion"] = version
        return self._api("PATCH", f"{self._path}/{name}", patch, type=said["type"], **said["dry"])

    def _delete(self, name: str, said: Body) -> Answer:
        options: Body = {"kind": "DeleteOptions", "apiVersion": "v1"}
        conditions = {}
        if "uid" in said:
            conditions["uid"] = self._identity(name, said["uid"])[0]
        if "version" in said:
            conditions["resourceVersion"] = self._identity(name, said["version"])[1]
        if conditions:
            options["preconditions"] = conditions
        options["propagationPolicy"] = said.get("propagation", "Background")
        if dry := said.get("dry"):
            options["dryRun"] = [dry["dryRun"]]
        # The query of a request with a body says nothing.
        return self._api("DELETE", f"{self._path}/{name}", options, gracePeriodSeconds="x")

    def _list(self, _name: str, said: Body) -> Answer:
        query = {key: value.replace("{a}", f"{self._name}-a") for key, value in said.items()}
        if "labelSelector" not in query:
            query["labelSelector"] = f"run={self._name}"
        elif query["labelSelector"]:
            query["labelSelector"] += f",run={self._name}"
        else:
            query["fieldSelector"] = f"metadata.name={self._name}-a"
        return self._api.get(self._path, **query)

    def _get(self, name: str, _said: Body) -> Answer:
        return self._api.get(f"{self._path}/{name}")

    def _status(self, name: str, said: Body) -> Answer:
        path, status = f"{self._path}/{name}/status", mutated(self._kind.status or {}, said["changes"])
        if said["verb"] == "PATCH":
            return self._api("PATCH", path, {"status": status}, type=MERGE)
        return self._api("PUT", path, {**self._body(name, {}), "status": status})

    def _scale(self, name: str, said: Body) -> Answer:
        path = f"{self._path}/{name}/scale"
        if said["verb"] == "GET":
            return self._api.get(path)
        spec = {} if said["replicas"] is None else {"replicas": said["replicas"]}
        if said["verb"] == "PATCH":
            return self._api("PATCH", path, {"spec": spec}, type=MERGE)
        metadata: Body = {"name": name, "namespace": self._api.namespace}
        if said["version"] != "none":
            metadata["resourceVersion"] = self._identity(name, said["version"])[1]
        return self._api(
            "PUT", path, {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": spec}
        )


#: Of metadata what both keep; times, uids and versions are each server's own.
_KEPT = ("name", "labels", "annotations", "finalizers", "generation", "deletionGracePeriodSeconds", "ownerReferences")
#: Defaults and labels that Kubernetes has given since 1.20, and what it gave only then.
_NEWER = {
    *("completionMode", "suspend", "podReplacementPolicy", "manualSelector"),
    *("batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"),
}
#: Kinds whose status the controllers of the real server write, and that had no generation in 1.20.
_CONTROLLED, _UNCOUNTED = ("Deployment", "Job"), ("Job",)


def comparable(answer: Answer) -> Any:
    """Returns what both servers must agree on."""
    try:
        body = answer.body
    except json.JSONDecodeError:
        return answer.code, "no JSON"
    if answer.code >= 400 or body.get("kind") == "Status":
        details = body.get("details") or {}
        # A wrong type has had a reason of its own since 1.26; a status' path has lost its dot.
        causes = {
            (cause.get("reason", "").replace("TypeInvalid", "Invalid"), cause.get("field", "").lstrip("."))
            for cause in details.get("causes") or ()
        }
        return answer.code, body.get("reason"), details.get("name"), sorted(causes)
    if "items" in body:
        more = bool(body["metadata"].get("continue")), body["metadata"].get("remainingItemCount")
        return (
            answer.code,
            body["kind"],
            more,
            [_object(item, body["kind"].removesuffix("List")) for item in body["items"] or ()],
        )
    return answer.code, _object(body, body.get("kind", ""))


def _object(body: Body, kind: str) -> Body:
    metadata = {key: body["metadata"][key] for key in _KEPT if key in body["metadata"]}
    if kind in _UNCOUNTED:
        metadata.pop("generation", None)
    metadata["deleting"] = "deletionTimestamp" in body["metadata"]
    rest = {key: value for key, value in body.items() if key != "metadata"}
    if kind in _CONTROLLED:
        rest.pop("status", None)
    found: Body = _plain({"metadata": metadata, **rest}, str(body["metadata"].get("uid")))
    return found


def _plain(value: Any, uid: str) -> Any:
    """A value without empty members and what is newer; the object's own uid has a name."""
    if isinstance(value, dict):
        kept = {key: _plain(member, uid) for key, member in value.items() if key not in _NEWER}
        return {key: member for key, member in kept.items() if member not in (None, {}, [])}
    if isinstance(value, list):
        return [_plain(each, uid) for each in value]
    return "UID" if value == uid else value


def sequence_name() -> str:
    return f"s{next(_numbers)}"
