"""The claims of a StatefulSet: one per pod number and template; it outlives the pod unless the set says otherwise."""

from collections.abc import Iterable, Iterator, Mapping

from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Kind, Object, Ref
from workers.decision.plan import Create, Patch, RecordEvent, Step, Together


def templates(owner: Object) -> list[Object]:
    """Returns the set's volumeClaimTemplates."""
    return list(owner["spec"].get("volumeClaimTemplates") or ())


def refs(owner: Object) -> tuple[Ref, ...]:
    """Returns the claims of all numbers that the set has or had when its status was written."""
    spec = owner["spec"]
    first = int((spec.get("ordinals") or {}).get("start") or 0)
    count = max(int(spec.get("replicas", 1)), int((owner.get("status") or {}).get("replicas") or 0))
    numbers = range(first, first + count)
    return tuple(_ref(owner, template, number) for template in templates(owner) for number in numbers)


def mounted(owner: Object, pod_spec: Object, number: int) -> Object:
    """Returns the spec of a pod with its claims as volumes, in place of volumes of the same names."""
    found = {_name(template): {"claimName": _ref(owner, template, number).name} for template in templates(owner)}
    if not found:
        return pod_spec
    volumes = [{"name": name, "persistentVolumeClaim": source} for name, source in found.items()]
    others = [volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in found]
    return {**pod_spec, "volumes": [*volumes, *others]}


def create(owner: Object, numbers: Iterable[int]) -> tuple[Step, ...]:
    """Creates the claims of the pods of these numbers, before the pods; a claim that exists is used as it is."""
    bodies = [_claim(owner, template, number) for number in numbers for template in templates(owner)]
    if not bodies:
        return ()
    failed = RecordEvent("Warning", "FailedCreate", "Error creating a volume claim: {error}")
    claims = tuple(Create(PERSISTENT_VOLUME_CLAIM, body, any_owner=True) for body in bodies)
    return (Together(claims, otherwise=failed),)


def are_stale(owner: Object, number: int, claims: Mapping[Ref, Object | None], pods: Mapping[int, Object]) -> bool:
    """True if a claim of this number is about to go with a pod that is gone: a new pod must wait for a new claim."""
    found = (claims.get(_ref(owner, template, number)) for template in templates(owner))
    return any(claim is not None and _is_stale(claim, pods.get(number)) for claim in found)


def _is_stale(claim: Object, pod: Object | None) -> bool:
    """True if the claim is being deleted, or owned by another pod than this one."""
    uid = pod["metadata"]["uid"] if pod else None
    return "deletionTimestamp" in claim["metadata"] or any(each["uid"] != uid for each in _owners(claim, POD))


def own(
    owner: Object, wanted: range, claims: Mapping[Ref, Object | None], pods: Mapping[int, Object]
) -> tuple[Step, ...]:
    """Gives claims the owners that persistentVolumeClaimRetentionPolicy asks for.

    Owners are collected with what they own: the set's claims go with the set (whenDeleted), those of a pod that is one
    too many with that pod (whenScaled). wanted: the numbers that keep their pods.
    """
    patches = tuple(_patches(owner, wanted, claims, pods))
    return (Together(patches),) if patches else ()


def _patches(
    owner: Object, wanted: range, claims: Mapping[Ref, Object | None], pods: Mapping[int, Object]
) -> Iterator[Patch]:
    for number in {*wanted, *pods}:
        for template in templates(owner):
            ref = _ref(owner, template, number)
            claim = claims.get(ref)
            if claim is None or _is_stale(claim, pods.get(number)):
                continue
            given = claim["metadata"].get("ownerReferences") or []
            ours = [*_owners(claim, POD), *_owners(claim, STATEFUL_SET)]
            asked = _asked(owner, pods.get(number), scaled=number not in wanted)
            if [each["uid"] for each in ours] != [each["uid"] for each in asked]:
                kept = [each for each in given if each not in ours]
                body = {"metadata": {"ownerReferences": [*kept, *asked]}}
                yield Patch(ref, body, claim["metadata"]["resourceVersion"])


def _asked(owner: Object, pod: Object | None, *, scaled: bool) -> list[Object]:
    """Returns the owners of a claim. scaled: its pod is one too many."""
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if scaled and policy.get("whenScaled") == "Delete" and pod is not None:
        return [_reference(POD, pod)]
    return [_reference(STATEFUL_SET, owner)] if policy.get("whenDeleted") == "Delete" else []


def _reference(kind: Kind, body: Object) -> Object:
    metadata = body["metadata"]
    return {**kind.type_meta, "name": metadata["name"], "uid": metadata["uid"]}


def _owners(claim: Object, kind: Kind) -> list[Object]:
    references = claim["metadata"].get("ownerReferences") or ()
    return [each for each in references if (each["apiVersion"], each["kind"]) == (kind.api_version, kind.kind)]


def _ref(owner: Object, template: Object, number: int) -> Ref:
    metadata = owner["metadata"]
    name = f"{_name(template)}-{metadata['name']}-{number}"
    return Ref(PERSISTENT_VOLUME_CLAIM, metadata["namespace"], name)


def _name(template: Object) -> str:
    # The API server does not judge these templates: a claim without a proper name is refused when it is created.
    return str((template.get("metadata") or {}).get("name", ""))


def _claim(owner: Object, template: Object, number: int) -> Object:
    ref = _ref(owner, template, number)
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), **((owner["spec"].get("selector") or {}).get("matchLabels") or {})}
    metadata: Object = {"name": ref.name, "namespace": ref.namespace, "labels": labels}
    if annotations := given.get("annotations"):
        metadata["annotations"] = dict(annotations)
    if owners := _asked(owner, None, scaled=False):
        metadata["ownerReferences"] = owners
    kind = PERSISTENT_VOLUME_CLAIM
    return {**kind.type_meta, "metadata": metadata, "spec": template.get("spec") or {}}
