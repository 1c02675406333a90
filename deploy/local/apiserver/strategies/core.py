"""The small kinds of core/v1 and coordination.k8s.io/v1: configuration, namespaces, services, events, leases."""

import binascii
from base64 import b64decode
from collections.abc import Iterator
from datetime import datetime

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, Rule, between, formatted, one_of
from deploy.local.apiserver.strategies import metadata
from deploy.local.apiserver.strategies.base import Strategy
from workers.api import names
from workers.api.kinds import Object

#: The most bytes that a ConfigMap's or a Secret's values may have together.
DATA_LIMIT = 1024 * 1024
#: The finalizer of a namespace that has not been emptied.
CONTENT = "kubernetes"
#: The finalizer of a claim that a pod may use.
CLAIM_IN_USE = "kubernetes.io/pvc-protection"
_FROZEN = "field is immutable when `immutable` is set"


class DataStrategy(Strategy):
    """The strategy of ConfigMaps and Secrets: named texts and bytes."""

    def validate(self, body: Object) -> list[FieldError]:
        data, binary = body.get("data") or {}, body.get("binaryData") or {}
        errors = [
            field_errors.invalid(f"{part}[{key}]", key, problem)
            for part, values in (("data", data), ("binaryData", binary))
            for key in values
            for problem in names.config_key(key)
        ]
        errors += [
            field_errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            for key in data
            if key in binary
        ]
        encoded = body.get("type") is not None  # only Secrets have a type; their data is base64
        size = sum(_size(value, encoded=encoded) for value in data.values())
        if size + sum(_size(value, encoded=True) for value in binary.values()) > DATA_LIMIT:
            errors.append(field_errors.too_long("data" if encoded else "[]", DATA_LIMIT))
        return errors

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        errors = field_errors.immutable("type", new.get("type"), old.get("type"))
        if old.get("immutable"):
            errors += [
                field_errors.forbidden(field, _FROZEN)
                for field in ("immutable", "data", "binaryData")
                if new.get(field) != old.get(field)
            ]
        return errors


def _size(value: str, *, encoded: bool) -> int:
    try:
        return len(b64decode(value)) if encoded else len(value.encode())
    except binascii.Error:
        return len(value)


class NamespaceStrategy(Strategy):
    """The strategy of Namespaces: each holds a finalizer until it has been emptied."""

    status, initial = True, {"phase": "Active"}
    name_rule = staticmethod(names.dns_label)

    def prepare_create(self, body: Object, now: datetime) -> Object:
        given = (body.get("spec") or {}).get("finalizers") or []
        own = [] if CONTENT in given else [CONTENT]
        return {**super().prepare_create(body, now), "spec": {"finalizers": [*given, *own]}}

    def prepare_update(self, new: Object, old: Object) -> Object:
        return {**super().prepare_update(new, old), "spec": old.get("spec", {})}

    def prepare_finalize(self, new: Object, old: Object) -> Object:
        return {**super().prepare_update(new, old), "spec": new.get("spec") or {}}

    def validate(self, body: Object) -> list[FieldError]:
        finalizers = (body.get("spec") or {}).get("finalizers") or ()
        return [*metadata.qualified_finalizers(finalizers, "spec.finalizers")]


class NodeStrategy(Strategy):
    """The strategy of Nodes: only the kubelet writes their status."""

    status = True


class ServiceStrategy(Strategy):
    """The strategy of Services. Nothing routes their traffic here; they are names with ports."""

    status, initial = True, {"loadBalancer": {}}
    name_rule = staticmethod(names.dns_1035_label)

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        ports = own.get("ports") or []
        errors = list(one_of("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")("spec.type", own["type"]))
        if not ports and own.get("clusterIP") != "None" and own["type"] != "ExternalName":
            errors.append(field_errors.required("spec.ports"))
        if own["type"] == "ExternalName":
            # A name may end with a dot, as in the records of name servers.
            target = (own.get("externalName") or "").removesuffix(".")
            errors += field_errors.named(names.dns_subdomain)("spec.externalName", target)
        errors += one_of("ClientIP", "None")("spec.sessionAffinity", own.get("sessionAffinity") or "None")
        for index, port in enumerate(ports):
            if len(ports) > 1 and not port.get("name"):
                errors.append(field_errors.required(f"spec.ports[{index}].name"))
            errors += field_errors.judge({"port": 0, **port}, f"spec.ports[{index}]", _SERVICE_PORT)
        return [*errors, *_repeated_ports(ports)]


def _repeated_ports(ports: list[Object]) -> Iterator[FieldError]:
    """Refuses ports that have the name of another one, or its number and protocol."""
    known: set[str] = set()
    taken: set[tuple[object, object]] = set()
    for index, port in enumerate(ports):
        name, place = port.get("name"), (port.get("port"), port.get("protocol"))
        if name and name in known:
            yield field_errors.duplicate(f"spec.ports[{index}].name", name)
        if place in taken:
            yield field_errors.duplicate(f"spec.ports[{index}]", dict(zip(("port", "protocol"), place, strict=True)))
        known.add(name or "")
        taken.add(place)


_SERVICE_PORT: tuple[tuple[str, Rule], ...] = (
    ("name", formatted(names.dns_label)),
    ("port", between(1, 65535)),
    (
        "targetPort",
        lambda path, port: (
            formatted(names.port_name)(path, port) if isinstance(port, str) else between(1, 65535)(path, port)
        ),
    ),
    ("protocol", one_of("SCTP", "TCP", "UDP")),
)


class LeaseStrategy(Strategy):
    """The strategy of Leases."""

    def validate(self, body: Object) -> list[FieldError]:
        own = body.get("spec") or {}
        errors: list[FieldError] = []
        if (seconds := own.get("leaseDurationSeconds")) is not None and seconds <= 0:
            errors.append(field_errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        return errors + field_errors.non_negative("spec.leaseTransitions", own.get("leaseTransitions"))


class EventStrategy(Strategy):
    """The strategy of Events in both spellings: an event lies in the namespace of the object it is about."""

    def validate(self, body: Object) -> list[FieldError]:
        field = "regarding" if "regarding" in body else "involvedObject"
        namespace, about = body["metadata"].get("namespace", ""), (body.get(field) or {}).get("namespace", "")
        if about != namespace and not (about == "" and namespace == "default"):
            return [field_errors.invalid(f"{field}.namespace", about, "does not match event.namespace")]
        return []


class ClaimStrategy(Strategy):
    """The strategy of PersistentVolumeClaims."""

    status, initial = True, {"phase": "Pending"}

    def prepare_create(self, body: Object, now: datetime) -> Object:
        """A claim that is deleted stays until no pod uses it."""
        result = super().prepare_create(body, now)
        finalizers = result["metadata"].get("finalizers") or []
        result["metadata"]["finalizers"] = [*finalizers, *([] if CLAIM_IN_USE in finalizers else [CLAIM_IN_USE])]
        return result

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        modes = [] if own.get("accessModes") else [("spec.accessModes", "at least 1 access mode is required")]
        asked = "storage" in ((own.get("resources") or {}).get("requests") or {})
        return [field_errors.required(*each) for each in (*modes, *([] if asked else [("spec.resources[storage]",)]))]
