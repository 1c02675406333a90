"""Unexpected values, and documents that have them somewhere."""

import copy
from collections.abc import Iterator
from typing import Any

from workers.api.kinds import Object

ODD: list[Any] = [
    *(None, True, False, 0, -1, 2**31 - 1, 2**31, -(2**63), 2**63, 10**40, 0.5, float(2**70)),
    *(
        "",
        " ",
        "x" * 300,
        "\x00",
        "ß",
        "-1",
        "1-",
        "0-2147483646",
        ",",
        "TZ=Local * * * * *",
        "@every 1h",
        "2026-01-01",
    ),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {}}, [1, 1], ["a", "a"]),
]

#: A container with most of what a container can have: odd values are put in its places.
CONTAINER: Object = {
    "name": "main",
    "image": "none",
    "command": ["true"],
    "env": [
        {"name": "A", "value": "b"},
        {"name": "I", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['index']"}}},
        {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
        {"name": "R", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
    ],
    "envFrom": [{"prefix": "P_", "secretRef": {"name": "s"}}],
    "ports": [{"containerPort": 80, "name": "http"}],
    "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}},
    "livenessProbe": {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 3},
    "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
}


#: A pod's spec, an object's metadata: with most of what can be there, as far as Kubernetes 1.20 judges it too.
PODS: Object = {
    "restartPolicy": "Never",
    "containers": [CONTAINER],
    "initContainers": [{"name": "first", "image": "none"}],
    "volumes": [{"name": "v", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}}, {"name": "w"}],
    "tolerations": [{"key": "a", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        }
    },
    "nodeSelector": {"zone": "a"},
    "activeDeadlineSeconds": 5,
}
METADATA: Object = {
    "name": "x",
    "labels": {"a": "b"},
    "annotations": {"c": "d"},
    "finalizers": ["example.com/keep"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}],
}


def places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value in a document."""
    if at:
        yield at
    for key, value in body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ():
        yield from places(value, (*at, key))


def mutated(body: Object, changes: list[tuple[tuple[Any, ...], Any]]) -> Object:
    """A copy with other values at some paths, as far as these still exist."""
    result: Any = copy.deepcopy(body)
    for path, value in changes:
        target = result
        try:
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(value)
        except (KeyError, IndexError, TypeError):
            continue
    return dict(result)
