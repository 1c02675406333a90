"""Pods with a number: their names, and what is made for them."""

from workers.api.kinds import STATEFUL_SET, Object
from workers.controllers.apps import pods

#: Labels of a pod: its revision, its name, its number.
REVISION = "controller-revision-hash"
NAME = "statefulset.kubernetes.io/pod-name"
INDEX = "apps.kubernetes.io/pod-index"


def ordinal_of(owner: Object, pod: Object) -> int | None:
    """The number in the pod's name; None for one that cannot be this owner's."""
    stem, _, digits = pod["metadata"]["name"].rpartition("-")
    if stem != owner["metadata"]["name"] or not digits.isascii() or not digits.isdigit():
        return None
    return int(digits) if digits == str(int(digits)) else None


def revision_of(pod: Object) -> str:
    """The revision that the pod was made from."""
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))


def made(owner: Object, ordinal: int, revision: str, template: Object) -> Object:
    """The pod of this number, from the template of this revision."""
    name = f"{owner['metadata']['name']}-{ordinal}"
    body = pods.made(STATEFUL_SET, {**owner, "spec": {**owner["spec"], "template": template}}, name)
    labels = {**body["metadata"]["labels"], REVISION: revision, NAME: name, INDEX: str(ordinal)}
    spec = {**body["spec"], "hostname": name}
    if service := owner["spec"].get("serviceName"):
        spec["subdomain"] = service
    return {**body, "metadata": {**body["metadata"], "labels": labels}, "spec": spec}
