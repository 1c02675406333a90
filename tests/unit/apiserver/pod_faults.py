"""Specs of pods with one fault each, and the fields that are to blame: a server refuses each of them."""

from typing import Any

from tests.unit.apiserver.examples import CONTAINER
from workers.api.kinds import Object

#: What a spec is refused for: the spec without its container where that is like any other, and the fields.
Fault = tuple[Object, list[str]]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EXEC: Object = {"exec": {"command": ["true"]}}
_WITHOUT_KEY = [f"affinity.podAffinity.{_REQUIRED}[0].topologyKey"] * 3
#: A term of affinity that is complete.
_NEAR: Object = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}}


def container(**fields: Any) -> Object:
    """A pod whose container has these fields."""
    return {"containers": [{**CONTAINER, **fields}]}


def _first(**fields: Any) -> Object:
    return {"initContainers": [{"name": "first", "image": "x", **fields}]}


def _volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def _mounted(**mount: Any) -> Object:
    return {**_volume(emptyDir={}), **container(volumeMounts=[{"name": "v", "mountPath": "/v", **mount}])}


def _files(*items: Any) -> Object:
    return _volume(downwardAPI={"items": list(items)})


def _asked(**resources: Any) -> Object:
    return container(resources=resources)


def _http(**request: Any) -> Object:
    return container(livenessProbe={"httpGet": {"port": 80, **request}})


def _ports(*ports: Any) -> Object:
    return container(ports=list(ports))


def _spread(*constraints: Any) -> Object:
    return {"topologySpreadConstraints": list(constraints)}


_ZONES = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
_FIRST, _ONE = "initContainers[0]", "containers[0]"

#: Refused by every server since Kubernetes 1.20 (some by another one of its reasons).
FAULTS: dict[str, Fault] = {
    "a probe of an init container": (_first(livenessProbe=_EXEC), [f"{_FIRST}.livenessProbe"]),
    "its readiness": (_first(readinessProbe=_EXEC), [f"{_FIRST}.readinessProbe"]),
    "its start": (_first(startupProbe=_EXEC), [f"{_FIRST}.startupProbe"]),
    "its hooks": (_first(lifecycle={"preStop": _EXEC}), [f"{_FIRST}.lifecycle"]),
    "an absolute part of a volume": (_mounted(subPath="/x"), [f"{_ONE}.volumeMounts.subPath"]),
    "a way out of a volume": (_mounted(subPath="a/../.."), [f"{_ONE}.volumeMounts.subPath"]),
    "a way out by a variable": (_mounted(subPathExpr="../$(A)"), [f"{_ONE}.volumeMounts.subPathExpr"]),
    "two parts of a volume": (_mounted(subPath="a", subPathExpr="b"), [f"{_ONE}.volumeMounts[0].subPathExpr"]),
    "how mounts spread": (_mounted(mountPropagation="x"), [f"{_ONE}.volumeMounts.mountPropagation"]),
    "a device that is no volume": (
        container(volumeDevices=[{"name": "x", "devicePath": "/dev/x"}]),
        [f"{_ONE}.volumeDevices[0].name"],
    ),
    "a device that is a folder": (
        {**_volume(emptyDir={}), **container(volumeDevices=[{"name": "v", "devicePath": "/dev/x"}])},
        [f"{_ONE}.volumeDevices[0].name"],
    ),
    "the scheme of a probe": (_http(scheme="FTP"), [f"{_ONE}.livenessProbe.httpGet.scheme"]),
    "a header of a probe": (
        _http(httpHeaders=[{"name": "a b", "value": "x"}]),
        [f"{_ONE}.livenessProbe.httpGet.httpHeaders"],
    ),
    "one port of the node twice": (
        _ports({"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}),
        [f"{_ONE}.ports[1].hostPort"],
    ),
    "another port on the node's network": (
        {"hostNetwork": True, **_ports({"containerPort": 1, "hostPort": 9})},
        [f"{_ONE}.ports[0].containerPort"],
    ),
    "half a card": (
        _asked(limits={"example.com/gpu": "500m"}, requests={"example.com/gpu": "500m"}),
        [f"{_ONE}.resources.limits[example.com/gpu]", f"{_ONE}.resources.requests[example.com/gpu]"],
    ),
    "a card without a limit": (_asked(requests={"example.com/gpu": "1"}), [f"{_ONE}.resources.limits"]),
    "fewer cards than the limit": (
        _asked(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "1"}),
        [f"{_ONE}.resources.requests"],
    ),
    "huge pages alone": (_asked(limits={"hugepages-2Mi": "2Mi"}), [f"{_ONE}.resources"]),
    "a user below zero": (container(securityContext={"runAsUser": -1}), [f"{_ONE}.securityContext.runAsUser"]),
    "a group beyond 32 bits": (
        container(securityContext={"runAsGroup": 2**31}),
        [f"{_ONE}.securityContext.runAsGroup"],
    ),
    "the group of files": ({"securityContext": {"fsGroup": -1}}, ["securityContext.fsGroup"]),
    "one more group": ({"securityContext": {"supplementalGroups": [1, -1]}}, ["securityContext.supplementalGroups[1]"]),
    "one sysctl twice": (
        {"securityContext": {"sysctls": [{"name": "a", "value": "1"}] * 2}},
        ["securityContext.sysctls[1].name"],
    ),
    "two views of processes": (
        {"shareProcessNamespace": True, "hostPID": True},
        ["securityContext.shareProcessNamespace"],
    ),
    "the type of a host's path": (_volume(hostPath={"path": "/a", "type": "Nope"}), ["volumes[0].hostPath.type"]),
    "a host's path upwards": (_volume(hostPath={"path": "/a/.."}), ["volumes[0].hostPath.path"]),
    "a folder of less than nothing": (_volume(emptyDir={"sizeLimit": "-1"}), ["volumes[0].emptyDir.sizeLimit"]),
    "rights that do not exist": (
        _volume(configMap={"name": "a", "defaultMode": 0o1000}),
        ["volumes[0].configMap.defaultMode"],
    ),
    "rights of a Secret": (_volume(secret={"secretName": "a", "defaultMode": -1}), ["volumes[0].secret.defaultMode"]),
    "rights of one file": (
        _volume(configMap={"name": "a", "items": [{"key": "k", "path": "p", "mode": 0o1000}]}),
        ["volumes[0].configMap.items[0].mode"],
    ),
    "a file of nothing": (_files({"path": "a"}), ["volumes[0].downwardAPI"]),
    "a file of an unknown field": (
        _files({"path": "a", "fieldRef": {"fieldPath": "spec.foo"}}),
        ["volumes[0].downwardAPI.fieldRef.fieldPath"],
    ),
    "a file of a field for variables": (
        _files({"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}),
        ["volumes[0].downwardAPI.fieldRef.fieldPath"],
    ),
    "a file of a container's limit": (
        _files({"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}),
        ["volumes[0].downwardAPI.resourceFieldRef.containerName"],
    ),
    "a file elsewhere": (
        _files({"path": "../a", "fieldRef": {"fieldPath": "metadata.name"}}),
        ["volumes[0].downwardAPI.path"],
    ),
    "a variable of all labels": (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}}]),
        [f"{_ONE}.env[0].valueFrom.fieldRef.fieldPath"],
    ),
    "a variable of another version": (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v2"}}}]),
        [f"{_ONE}.env[0].valueFrom.fieldRef.fieldPath"],
    ),
    "a variable of no label": (
        container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['a b']"}}}]),
        [f"{_ONE}.env[0].valueFrom.fieldRef"],
    ),
    "a projected Secret": (
        _volume(projected={"sources": [{"secret": {}}]}),
        ["volumes[0].projected.sources[0].secret.name"],
    ),
    "a short token": (
        _volume(projected={"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 9}}]}),
        ["volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds"],
    ),
    "a share of nobody": (_volume(nfs={"server": "", "path": "a"}), ["volumes[0].nfs.path", "volumes[0].nfs.server"]),
    "which repository": (_volume(gitRepo={"repository": ""}), ["volumes[0].gitRepo.repository"]),
    "near what": ({"affinity": {"podAffinity": {_REQUIRED: [{"labelSelector": {}}]}}}, _WITHOUT_KEY),
    "a wish without weight": (
        {"affinity": {"podAntiAffinity": {_PREFERRED: [{"podAffinityTerm": _NEAR}]}}},
        [f"affinity.podAntiAffinity.{_PREFERRED}[0].weight"],
    ),
    "near a pod of another namespace": (
        {"affinity": {"podAffinity": {_REQUIRED: [{**_NEAR, "namespaces": ["a b"]}]}}},
        [f"affinity.podAffinity.{_REQUIRED}[0].namespace"],
    ),
    "a node by a field": (
        {
            "affinity": {
                "nodeAffinity": {
                    _REQUIRED: {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "x", "operator": "In", "values": ["a"]}]}]
                    }
                }
            }
        },
        [f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0].matchFields[0].key"],
    ),
    "no skew": (_spread({**_ZONES, "maxSkew": 0}), ["topologySpreadConstraints[0].maxSkew"]),
    "spread over nothing": (_spread({**_ZONES, "topologyKey": ""}), ["topologySpreadConstraints[0].topologyKey"]),
    "spread or else": (
        _spread({**_ZONES, "whenUnsatisfiable": "x"}),
        ["topologySpreadConstraints[0].whenUnsatisfiable"],
    ),
    "spread twice": (_spread(_ZONES, _ZONES), ["topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}"]),
    "no server of names": ({"dnsPolicy": "None"}, ["dnsConfig"]),
    "an empty list of them": ({"dnsPolicy": "None", "dnsConfig": {}}, ["dnsConfig.nameservers"]),
    "a name of one": ({"dnsConfig": {"nameservers": ["x"]}}, ["dnsConfig.nameservers[0]"]),
    "the address of an alias": ({"hostAliases": [{"ip": "nope", "hostnames": ["a"]}]}, ["hostAliases.ip"]),
    "the name of an alias": ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["a b"]}]}, ["hostAliases.hostnames"]),
    "who goes first": ({"preemptionPolicy": "x"}, ["preemptionPolicy"]),
    "a gate of readiness": ({"readinessGates": [{"conditionType": "a b"}]}, ["readinessGates[0].conditionType"]),
    "a runtime": ({"runtimeClassName": "A B"}, ["runtimeClassName"]),
}

#: Refused by servers that know these fields.
LATER_FAULTS: dict[str, Fault] = {
    "a policy of an init container": (_first(restartPolicy="Sometimes"), [f"{_FIRST}.restartPolicy"]),
    "rules without a policy": (
        container(restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]),
        [f"{_ONE}.restartPolicy"],
    ),
    "rules for nothing": (
        container(restartPolicy="Never", restartPolicyRules=[{"action": "Stop"}]),
        [f"{_ONE}.restartPolicyRules[0].action", f"{_ONE}.restartPolicyRules[0].exitCodes"],
    ),
    "rules for codes near some": (
        container(restartPolicy="Never", restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "Near"}}]),
        [f"{_ONE}.restartPolicyRules[0].exitCodes.operator"],
    ),
    "too many rules": (
        container(
            restartPolicy="Never",
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}] * 21,
        ),
        [f"{_ONE}.restartPolicyRules"],
    ),
    "no grace of a probe": (
        container(livenessProbe={**_EXEC, "terminationGracePeriodSeconds": 0}),
        [f"{_ONE}.livenessProbe.terminationGracePeriodSeconds"],
    ),
    "a grace of readiness": (
        container(readinessProbe={**_EXEC, "terminationGracePeriodSeconds": 5}),
        [f"{_ONE}.readinessProbe.terminationGracePeriodSeconds"],
    ),
    "a call to nobody": (container(livenessProbe={"grpc": {}}), [f"{_ONE}.livenessProbe.grpc.port"]),
    "sleep beyond the grace": (
        container(lifecycle={"preStop": {"sleep": {"seconds": 31}}}),
        [f"{_ONE}.lifecycle.preStop.sleep"],
    ),
    "sleep back": (
        container(lifecycle={"postStart": {"sleep": {"seconds": -1}}}),
        [f"{_ONE}.lifecycle.postStart.sleep"],
    ),
    "a container of two minds": (
        container(securityContext={"privileged": True, "allowPrivilegeEscalation": False}),
        [f"{_ONE}.securityContext"],
    ),
    "fewest zones": (_spread({**_ZONES, "minDomains": 0}), ["topologySpreadConstraints[0].minDomains"]),
}

#: Taken by every server that knows the fields, although they resemble a fault.
SOUND: dict[str, Object] = {
    "a sidecar with probes and hooks": _first(
        restartPolicy="Always", startupProbe=_EXEC, livenessProbe=_EXEC, lifecycle={"postStart": _EXEC}
    ),
    "sleep of the whole grace": container(lifecycle={"preStop": {"sleep": {"seconds": 30}}}),
    "cards up to the limit": _asked(limits={"example.com/gpu": "2"}, requests={"example.com/gpu": "2"}),
    "a part of a volume": _mounted(subPath="a/b..c"),
    "one port of the node in two protocols": _ports(
        {"containerPort": 1, "hostPort": 9}, {"containerPort": 1, "hostPort": 9, "protocol": "UDP"}
    ),
    "on the node's network": {"hostNetwork": True, **_ports({"containerPort": 9})},
    "near others": {"affinity": {"podAffinity": {_PREFERRED: [{"weight": 100, "podAffinityTerm": _NEAR}]}}},
    "a node by its name": {
        "affinity": {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                    ]
                }
            }
        }
    },
    "files of the pod": _files(
        {"path": "labels", "mode": 0o777, "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu", "containerName": "c"}},
    ),
    "servers of names": {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.2.3.4", "::1"]}},
    "a container of its own policy": container(
        restartPolicy="Never",
        restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "NotIn", "values": [0]}}],
    ),
}
