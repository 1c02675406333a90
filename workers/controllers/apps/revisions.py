"""A Deployment's ReplicaSets: one for each template it has had, numbered by when it was current last."""

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from workers.api.kinds import DEPLOYMENT, REPLICA_SET, Object
from workers.controllers import pod_names
from workers.controllers.apps.pods import owner_reference

REVISION = "deployment.kubernetes.io/revision"
#: Earlier revisions of a template that became current again, comma separated.
HISTORY = "deployment.kubernetes.io/revision-history"
#: What the Deployment wanted, and could have had at most, when the set was last scaled.
DESIRED = "deployment.kubernetes.io/desired-replicas"
MOST = "deployment.kubernetes.io/max-replicas"
#: Tells the pods of different templates apart.
HASH = "pod-template-hash"

#: Annotations of a Deployment that are not its sets' as well.
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
    """new: the set of the current template, if it is there. old: the others, oldest first."""

    new: Object | None
    old: tuple[Object, ...]

    @classmethod
    def of(cls, deployment: Object, bodies: Iterable[Object]) -> "Sets":
        """Tell them apart. Of two sets with the current template the older one is it."""
        ordered = sorted(bodies, key=lambda body: (body["metadata"].get("creationTimestamp", ""), name_of(body)))
        template = _bare(deployment["spec"]["template"])
        new = next((body for body in ordered if _bare(body["spec"]["template"]) == template), None)
        return cls(new, tuple(body for body in ordered if body is not new))

    @property
    def all(self) -> tuple[Object, ...]:
        return self.old if self.new is None else (*self.old, self.new)

    @property
    def next_revision(self) -> int:
        """The number that the current template should have: above all others."""
        return max(map(revision_of, self.old), default=0) + 1


def name_of(body: Object) -> str:
    return str(body["metadata"]["name"])


def size(body: Object) -> int:
    """How many pods the set is asked for."""
    return int(body["spec"].get("replicas", 1))


def counted(body: Object, field: str) -> int:
    """A number of the set's status."""
    return int((body.get("status") or {}).get(field) or 0)


def revision_of(body: Object) -> int:
    """The set's number, or 0 for one that has none."""
    text = annotations_of(body).get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def annotations_of(body: Object) -> dict[str, str]:
    return dict(body["metadata"].get("annotations") or {})


def replica_set(deployment: Object, replicas: int, most: int, revision: int) -> Object:
    """The ReplicaSet of the current template; its name and its pods' label say which template that is."""
    metadata, spec = deployment["metadata"], deployment["spec"]
    hash_ = template_hash(spec["template"], counted(deployment, "collisionCount"))
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
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": labels,
            "annotations": {**_inherited(deployment), REVISION: str(revision), **sizes(size(deployment), most)},
            "ownerReferences": [owner_reference(DEPLOYMENT, deployment)],
        },
        "spec": body,
    }


def sizes(desired: int, most: int) -> dict[str, str]:
    """The annotations that tell what the set's size was made from."""
    return {DESIRED: str(desired), MOST: str(most)}


def renewed(deployment: Object, new: Object, revision: int) -> Object:
    """What has to be patched into the current set so that it is numbered and annotated as it should be; or nothing."""
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
    """A word for the template: the same for the same one, in any process."""
    text = orjson.dumps(template, option=orjson.OPT_SORT_KEYS).decode()
    return pod_names.letters(f"{text}/{collisions}" if collisions else text, _LENGTH)


def _inherited(deployment: Object) -> dict[str, str]:
    return {name: value for name, value in annotations_of(deployment).items() if name not in _OWN}


def _bare(template: Object) -> Object:
    """The template without the label that a set adds; what is empty is as good as absent."""
    metadata = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    labels = {name: value for name, value in (metadata.pop("labels", None) or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, **({"labels": labels} if labels else {})}}
