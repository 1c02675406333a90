"""Volcano's PodGroup: which queue a new one is put into, and whether that takes it."""

from collections.abc import Iterator

from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.admission.volcano import queue_lookup
from workers.admission.volcano.task_rules import tiers
from workers.api import quantities
from workers.api.kinds import NAMESPACE, Object, Ref
from workers.api.references import DEFAULT_QUEUE, QUEUE_NAME
from workers.api.volcano.job import LARGEST


def defaulted(body: Object, lookup: Lookup) -> Object:
    """The PodGroup in the queue of its namespace, if that has one and the group asks for none in particular."""
    spec = body.get("spec") or {}
    named = spec.get("queue") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or named not in (None, "", DEFAULT_QUEUE):
        return body
    namespace = lookup.get(namespace_of(body)) or {"metadata": {}}
    queue = (namespace["metadata"].get("annotations") or {}).get(QUEUE_NAME) or DEFAULT_QUEUE
    return body if named == queue else {**body, "spec": {**spec, "queue": queue}}


def problems(body: Object, old: Object | None, lookup: Lookup) -> list[Finding]:
    """Returns the findings on a new PodGroup. Its queue may close later."""
    if old is not None:
        return []
    spec = body.get("spec") or {}
    found = list(queue_lookup.admits(spec["queue"], lookup)) if spec.get("queue") else []
    if isinstance(least := spec.get("minMember"), int) and least > LARGEST:
        found.append(Finding("spec.minMember", f"{least} pods are more than the {LARGEST} that a gang may have"))
    found += _amounts(spec.get("minResources") or {})
    found += tiers(spec.get("networkTopology"), "spec.networkTopology")
    for index, policy in enumerate(spec.get("subGroupPolicy") or ()):
        found += tiers(policy.get("networkTopology"), f"spec.subGroupPolicy[{index}].networkTopology")
    return found


def _amounts(given: Object) -> Iterator[Finding]:
    """Yields malformed and negative amounts."""
    for name, text in given.items():
        try:
            below = quantities.parse(str(text)) < 0
        except ValueError:
            yield Finding(f"spec.minResources[{name}]", f"{text!r} is no quantity")
        else:
            if below:
                yield Finding(f"spec.minResources[{name}]", f"must not be below 0, {text}")


def namespace_of(body: Object) -> Ref:
    """The namespace that the rules look at."""
    return Ref(NAMESPACE, "", body["metadata"].get("namespace") or "default")
