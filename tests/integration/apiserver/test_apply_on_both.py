"""Server-side apply on both servers: random writes by several managers leave the same objects and owners."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from deploy.local.apiserver.patch.apply import field_sets
from tests.integration.apiserver.client import DEFINITIONS, MERGE, Answer, Api, definition, until
from tests.support.embedded import Embedded

pytestmark = pytest.mark.real_apiserver

APPLY = "application/apply-patch+yaml"
MANAGERS = ("ant", "bee", "cat")
_numbers = itertools.count(1)
EXAMPLES = settings.default.max_examples if settings.default else 100
#: Only HYPOTHESIS_PROFILE=hunt draws other sequences each time, as kube-apiserver 1.20 mixes up owners at times.
HUNTING = EXAMPLES > 100

Config = dict[str, Any]
Write = tuple[str, str, bool, Config]


def some(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Config]:
    """Objects with some of these members, never with none: kube-apiserver 1.20 owns no empty objects."""
    names = st.sets(st.sampled_from(sorted(members)), min_size=1)
    return names.flatmap(lambda chosen: st.fixed_dictionaries({name: members[name] for name in sorted(chosen)}))


def keyed(key: str, keys: str, **members: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Config]]:
    """Lists of items that are told apart by a key."""
    item = st.fixed_dictionaries({key: st.sampled_from(keys.split())}, optional=members)
    return st.lists(item, min_size=1, max_size=3, unique_by=lambda one: one[key])


VALUES = st.sampled_from(("1", "2"))
WORDS = some(a=VALUES, b=VALUES, c=VALUES)
METADATA = st.just({}) | some(
    labels=WORDS, annotations=WORDS, finalizers=st.lists(st.sampled_from(("x.io/a", "x.io/b", "x.io/c")), unique=True)
)
MAPS = st.fixed_dictionaries({"metadata": METADATA}, optional={"data": WORDS, "binaryData": st.just({"d": "eA=="})})

PORTS = st.lists(
    some(name=st.sampled_from(("p", "q")), protocol=st.sampled_from(("TCP", "UDP"))).flatmap(
        lambda port: st.sampled_from((80, 81)).map(lambda number: {"containerPort": number, **port})
    ),
    min_size=1,
    max_size=3,
    unique_by=(
        lambda port: (port["containerPort"], port.get("protocol", "TCP")),
        lambda port: port.get("name", id(port)),
    ),
)
CONTAINER = {
    "image": st.sampled_from(("x:1", "y:2")),
    "args": st.lists(VALUES, min_size=1, max_size=2),
    "env": keyed("name", "A B C", value=VALUES),
    "ports": PORTS,
    "resources": st.sampled_from(("1", "500m", "0.5")).map(lambda cpu: {"limits": {"cpu": cpu, "memory": "1Gi"}}),
    "tty": st.booleans(),
}
PODS = some(
    volumes=keyed("name", "v w", emptyDir=st.just({"medium": "Memory"})),
    tolerations=st.lists(some(key=VALUES, operator=st.just("Exists")), min_size=1, max_size=2),
    hostAliases=keyed("ip", "1.1.1.1 2.2.2.2", hostnames=st.lists(VALUES, min_size=1, max_size=2)),
    terminationGracePeriodSeconds=st.sampled_from((0, 5)),
)
#: The deployments' controller leaves paused ones alone, but for their status.
BASE = {"paused": True, "selector": {"matchLabels": {"a": "1"}}}


def deployment(metadata: Config, spec: Config, template: Config, pods: Config, containers: list[Config]) -> Config:
    labels = {**template.get("labels", {}), "a": "1"}
    inner = {"metadata": {**template, "labels": labels}, "spec": {**pods, "containers": containers}}
    return {"metadata": metadata, "spec": {**spec, **BASE, "template": inner}}


DEPLOYMENTS = st.builds(
    deployment,
    METADATA,
    some(
        replicas=st.sampled_from((0, 1, 2)),
        minReadySeconds=st.sampled_from((0, 1)),
        strategy=st.sampled_from(({"type": "Recreate"}, {"type": "RollingUpdate"})),
    ),
    st.just({}) | some(annotations=WORDS),
    st.just({}) | PODS,
    keyed("name", "m n", **CONTAINER).map(lambda many: [{"image": "x:1", **one} for one in many]),
)
NUMBERS = st.sampled_from((1, 2))


def rest(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Config]:
    """Objects with a member that all have: kube-apiserver 1.20 makes null of an object or list that loses its last."""
    return st.fixed_dictionaries({"kept": st.just("1")}, optional=members)


PAIRS = st.lists(
    st.fixed_dictionaries({"port": NUMBERS}, optional={"protocol": st.sampled_from(("T", "U")), "n": NUMBERS}),
    max_size=2,
    unique_by=lambda one: (one["port"], one.get("protocol", "T")),
)
SPEC = {
    "set": st.lists(VALUES, max_size=2, unique=True).map(lambda many: [*many, "kept"]),
    "map": keyed("id", "i j", n=NUMBERS).flatmap(
        lambda many: st.tuples(
            *[
                rest(a=VALUES, b=VALUES).map(lambda deep, one=one: {**one, "deep": deep})
                for one in [*many, {"id": "kept"}]
            ]
        ).map(list)
    ),
    "pairs": PAIRS.map(lambda many: [*many, {"port": 9}]),
    "nested": st.fixed_dictionaries({"kept": rest()}, optional={"a": rest(x=VALUES), "b": rest(x=VALUES)}),
}
MORE = {"atomic": st.lists(VALUES, min_size=1, max_size=2), "whole": rest(a=VALUES, b=VALUES)}
TREES = st.fixed_dictionaries({"metadata": METADATA, "spec": st.fixed_dictionaries(SPEC, optional=MORE)})
_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}


def _object(**properties: Any) -> Config:
    return {"type": "object", "properties": properties}


SCHEMA = _object(
    spec=_object(
        atomic={"type": "array", "items": _TEXT},
        set={"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        map={
            **{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
            "items": {**_object(id=_TEXT, n=_NUMBER, deep=_object(kept=_TEXT, a=_TEXT, b=_TEXT)), "required": ["id"]},
        },
        pairs={
            **{"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"]},
            "items": {**_object(port=_NUMBER, protocol={**_TEXT, "default": "T"}, n=_NUMBER), "required": ["port"]},
        },
        whole={**_object(kept=_TEXT, a=_TEXT, b=_TEXT), "x-kubernetes-map-type": "atomic"},
        nested={"type": "object", "additionalProperties": _object(kept=_TEXT, x=_TEXT)},
    )
)
KINDS: dict[str, tuple[str, str, str, st.SearchStrategy[Config]]] = {
    "ConfigMap": ("/api/v1", "v1", "configmaps", MAPS),
    "Deployment": ("/apis/apps/v1", "apps/v1", "deployments", DEPLOYMENTS),
    "Tree": ("/apis/test.penstock.dev/v1", "test.penstock.dev/v1", "trees", TREES),
}


def writes(config: st.SearchStrategy[Config]) -> st.SearchStrategy[list[Write]]:
    apply = st.tuples(st.just("apply"), st.sampled_from(MANAGERS), st.booleans(), config)
    other = st.tuples(st.sampled_from(("merge", "create")), st.sampled_from(("dog", "eel")), st.just(False), config)
    return st.lists(apply | apply | apply | other, min_size=2, max_size=6)


def anchored(config: Config, manager: str) -> Config:
    """A configuration whose maps have a member that no apply takes from its manager.

    kube-apiserver 1.20 mixes up owners when it reads an entry of a map whose members all belong to others.
    """
    kept = {manager: "1"}
    meta = {
        **config["metadata"],
        **{name: {**config["metadata"].get(name, {}), **kept} for name in ("labels", "annotations")},
    }
    return {**config, "metadata": meta, **({"data": {**config["data"], **kept}} if "data" in config else {})}


def written(api: Api, path: str, write: Write, head: Config, name: str) -> Answer:
    verb, manager, force, config = write
    if verb != "apply":
        config = anchored(config, manager)
    body = {**head, **config, "metadata": {**config["metadata"], "name": name}}
    if verb == "create":
        answer = api("POST", path, body)
        # What is recorded about the author of a new object is forgotten: the embedded server has recorded nothing.
        return answer if answer.code != 201 else api.patch(f"{path}/{name}", {"metadata": {"managedFields": [{}]}})
    query = {"fieldManager": manager, **({"force": "true"} if force else {})}
    if verb == "apply":
        return api("PATCH", f"{path}/{name}", body, type=APPLY, **query)
    return api("PATCH", f"{path}/{name}", body, type=MERGE, fieldManager=manager)


def comparable(answer: Answer) -> Any:
    """What both servers should agree on: neither times nor the order of keyed lists, which 1.20 kept otherwise."""
    body = answer.body
    if answer.code == 409:
        return 409, {cause["message"] for cause in body["details"].get("causes", ())}
    if answer.code >= 300:
        return answer.code
    meta = body["metadata"]
    managed = [
        (entry["manager"], entry["operation"], entry["fieldsV1"])
        for entry in meta.get("managedFields", ())
        if entry["manager"] != "kube-controller-manager"
    ]
    for _manager, _operation, fields in managed:
        fields.pop("f:status", None)
    kept = {key: value for key, value in meta.items() if key in ("labels", "annotations", "finalizers")}
    rest = {key: value for key, value in body.items() if key not in ("metadata", "status")}
    return answer.code // 100, ordered(kept), ordered(rest), sorted(managed, key=str)


def mixed_up(ours: Any, theirs: Any) -> bool:
    """True if the real server says of an updater that it owns fields of others, too: what follows is not comparable."""
    if ours == theirs or not (isinstance(ours, tuple) and isinstance(theirs, tuple) and ours[0] == theirs[0] == 2):
        return False
    mine, real = ({entry[:2]: field_sets.decode(entry[2]) for entry in managed} for managed in (ours[-1], theirs[-1]))
    if mine == real:
        return False
    return mine.keys() == real.keys() and all(
        fields == real[key] or (key[1] == "Update" and fields < real[key]) for key, fields in mine.items()
    )


def ordered(value: Any, name: str = "") -> Any:
    """A value without empty members and times; the items of keyed lists and of sets are sorted."""
    if isinstance(value, dict):
        kept = {key: ordered(member, key) for key, member in value.items()}
        return {key: one for key, one in kept.items() if key != "creationTimestamp" and one not in ({}, [], None)}
    if isinstance(value, list):
        items = [ordered(item) for item in value]
        unordered = name in ("finalizers", "set") or all(isinstance(item, dict) for item in items)
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True)) if unordered else items
    return value


@pytest.fixture(scope="module")
def both(embedded: Embedded, real: Path) -> Iterator[tuple[Api, Api]]:
    """The embedded and the real server, with a kind of the test's own."""
    servers = Api(embedded.kubeconfig), Api(real)
    path = KINDS["Tree"][0] + "/namespaces/default/trees"
    for api in servers:
        api.create(DEFINITIONS, definition("trees", SCHEMA))
        until(lambda api=api: api.get(path).code == 200, "the definition is served")
    yield servers
    for api in servers:
        api("DELETE", f"{DEFINITIONS}/trees.test.penstock.dev")


@pytest.mark.parametrize("kind", KINDS)
def test_both_servers_come_to_the_same_objects_and_owners(kind: str, both: tuple[Api, Api]) -> None:
    root, version, plural, configs = KINDS[kind]
    path, head = f"{root}/namespaces/default/{plural}", {"apiVersion": version, "kind": kind}

    def compared(sequence: list[Write]) -> None:
        name = f"one-{next(_numbers)}"
        for write in sequence:
            ours, theirs = (comparable(written(api, path, write, head, name)) for api in both)
            if mixed_up(ours, theirs):
                return
            assert ours == theirs, write

    drawn = settings(max_examples=EXAMPLES // 4, phases=[Phase.generate])(given(writes(configs))(compared))
    (drawn if HUNTING else seed(7)(drawn))()
