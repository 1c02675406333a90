"""What pods consume (`metrics.k8s.io`). On a real cluster a server of its own answers; here the kubelet writes it."""

from workers.api.kinds import POD_METRICS, Object

_ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Object = {"type": "string"}

#: As a CustomResourceDefinition would say it.
DEFINITION: Object = {
    "metadata": {"name": POD_METRICS.id},
    "spec": {
        "group": POD_METRICS.group,
        "names": {
            "kind": POD_METRICS.kind,
            "listKind": "PodMetricsList",
            "plural": POD_METRICS.plural,
            "singular": "",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": POD_METRICS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "timestamp": _TEXT,
                            "window": _TEXT,
                            "containers": {
                                "type": "array",
                                "items": {"type": "object", "properties": {"name": _TEXT, "usage": _ANYTHING}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
