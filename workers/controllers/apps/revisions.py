"""The ReplicaSets of a Deployment: one per template, numbered in the order in which they were current."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from workers.api.kinds import DEPLOYMENT, REPLICA_SET, Object, Ref, controller_of, owner_reference
from workers.controllers import pod_names

REVISION = "deployment.kubernetes.io/revision"
#: Earlier revisions of a template that became current again, comma separated.
HISTORY = "deployment.kubernetes.io/revision-history"
#: spec.replicas of the Deployment, and its largest number of pods, when the set was last sized.
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
#: Label that distinguishes the pods of different templates.
HASH = "pod-template-hash"

#: Annotations of a Deployment that its sets do not inherit.
_OWN = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
    REVISION,
    HISTORY,
    DESIRED,
    MOST,
)
#: Letters of a hash.
_LENGTH = 10


@dataclass(frozen=True, slots=True)
class Sets:
    """new: the set of the current template, or None. old: the others, oldest first."""

    new: Object | None
    old: tuple[Object, ...]

    @classmethod
    def of(cls, deployment: Object, bodies: Iterable[Object]) -> "Sets":
        """Sorts the sets. Of two sets with the current template the older one is `new`."""
        ordered = sorted(bodies, key=lambda body: (body["metadata"].get("creationTimestamp", ""), name_of(body)))
        template = _bare(deployment["spec"]["template"])
        new = next((body for body in ordered if _bare(body["spec"]["template"]) == template), None)
        return cls(new, tuple(body for body in ordered if body is not new))

    @property
    def all(self) -> tuple[Object, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def next_revision(self) -> int:
        """The revision number above those of all old sets."""
        return max(map(revision_of, self.old), default=0) + 1


def name_of(body: Object) -> str:
    return str(body["metadata"]["name"])


def size(body: Object) -> int:
    """Returns spec.replicas."""
    return int(body["spec"].get("replicas", 1))


def counted(body: Object, field: str) -> int:
    """Returns a count of the status."""
    return int((body.get("status") or {}).get(field) or 0)


def revision_of(body: Object) -> int:
    """Returns the revision number, or 0 without one."""
    text = annotations_of(body).get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def annotations_of(body: Object) -> dict[str, str]:
    return dict(body["metadata"].get("annotations") or {})


def replica_set(deployment: Object, replicas: int, most: int, revision: int) -> Object:
    """Builds the ReplicaSet of the current template; name and label carry the hash of the template."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    hash_ = _hash_of(deployment)
    selector, template = spec["selector"], spec["template"]
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), HASH: hash_}
    body: Object = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: hash_}},
        "template": {**template, "metadata": {**given, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        body["minReadySeconds"] = spec["minReadySeconds"]
    return {
        **REPLICA_SET.type_meta,
        "metadata": {
            "name": next_ref(deployment).name,
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**_inherited(deployment), REVISION: str(revision), **sizes(size(deployment), most)},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": body,
    }


def next_ref(deployment: Object) -> Ref:
    """Returns the name of the ReplicaSet of the current template."""
    metadata = deployment["metadata"]
    return Ref(REPLICA_SET, metadata["namespace"], f"{metadata['name']}-{_hash_of(deployment)}")


def collides(deployment: Object, other: Object | None) -> bool:
    """Returns True if the name of the ReplicaSet of the current template is that of another owner or template."""
    if other is None:
        return False
    owner = controller_of(other)
    ours = owner is not None and owner.get("uid") == deployment["metadata"]["uid"]
    return not ours or _bare(other["spec"]["template"]) != _bare(deployment["spec"]["template"])


def _hash_of(deployment: Object) -> str:
    return template_hash(deployment["spec"]["template"], counted(deployment, "collisionCount"))


def sizes(desired: int, most: int) -> dict[str, str]:
    """Returns the annotations with the numbers behind the set's size."""
    return {DESIRED: str(desired), MOST: str(most)}


def renewed(deployment: Object, new: Object, revision: int) -> Object:
    """Returns the patch that renumbers and annotates the current set; empty if nothing differs."""
    before = annotations_of(new)
    wanted = _inherited(deployment)
    known = revision_of(new)
    if known < revision:
        wanted[REVISION] = str(revision)
        if known:
            wanted[HISTORY] = ",".join(filter(None, (before.get(HISTORY), str(known))))
    patch: Object = {}
    if changed := {name: value for name, value in wanted.items() if before.get(name) != value}:
        patch["metadata"] = {"annotations": changed}
    least = deployment["spec"].get("minReadySeconds") or 0
    if (new["spec"].get("minReadySeconds") or 0) != least:
        patch["spec"] = {"minReadySeconds": least}
    return patch


def template_hash(template: Object, collisions: int) -> str:
    """Returns a hash of the template in letters, equal in every process."""
    text = orjson.dumps(template, option=orjson.OPT_SORT_KEYS).decode()
    return pod_names.letters(f"{text}/{collisions}" if collisions else text, _LENGTH)


def _inherited(deployment: Object) -> dict[str, str]:
    return {name: value for name, value in annotations_of(deployment).items() if name not in _OWN}


def _bare(template: Object) -> Object:
    """Returns the template without the set's label; empty maps compare equal to absent ones."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, **({"labels": labels} if labels else {})}}
