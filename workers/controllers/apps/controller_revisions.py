"""The ControllerRevisions of a StatefulSet: its templates, numbered in the order in which they were current."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import orjson

from workers.api.kinds import CONTROLLER_REVISION, STATEFUL_SET, Object, owner_reference, ref_of
from workers.controllers import adoption, pod_names
from workers.decision.plan import Create, Delete, Step
from workers.decision.snapshot import Snapshot

#: The hash of a revision's template, on the revision.
HASH = "controller.kubernetes.io/hash"
_LENGTH = 10
#: The metadata of a revision that are not the API server's.
_KEPT = ("name", "namespace", "labels", "annotations", "ownerReferences")


@dataclass(frozen=True, slots=True)
class RevisionHistory:
    """update: the name of the revision of the current template. steps: create it, or make it the newest."""

    update: str
    steps: tuple[Step, ...]


def data_of(body: Object) -> Object:
    """Returns the data of a revision: a strategic merge patch that restores the template."""
    return {"spec": {"template": {**body["spec"]["template"], "$patch": "replace"}}}


def of(body: Object, revisions: Iterable[Object]) -> RevisionHistory:
    """Finds or creates the revision of the current template; an old one that is current again becomes the newest."""
    ordered = sorted(revisions, key=lambda each: (each.get("revision", 0), each["metadata"]["name"]))
    number = ordered[-1].get("revision", 0) + 1 if ordered else 1
    data = data_of(body)
    same = [each for each in ordered if each.get("data") == data]
    if not same:
        made = _revision(body, data, number)
        return RevisionHistory(made["metadata"]["name"], (Create(CONTROLLER_REVISION, made),))
    known = same[-1]
    name = str(known["metadata"]["name"])
    if known is ordered[-1]:
        return RevisionHistory(name, ())
    return RevisionHistory(name, _remade(known, {"revision": number}))


def claim(snapshot: Snapshot) -> tuple[Step, ...]:
    """Returns the steps that adopt and release revisions."""
    return adoption.claim(
        snapshot,
        CONTROLLER_REVISION,
        remake=lambda known, owners: _remade(
            known, {"metadata": {**known["metadata"], "ownerReferences": owners}, "revision": known.get("revision", 0)}
        ),
    )


def template_of(name: str, revisions: Iterable[Object]) -> Object | None:
    """Returns the template of a revision, or None if the revision does not exist."""
    for each in revisions:
        if each["metadata"]["name"] == name:
            template = each["data"]["spec"]["template"]
            return {field: value for field, value in template.items() if field != "$patch"}
    return None


def delete_oldest(revisions: Sequence[Object], live: Collection[str], limit: int | None) -> tuple[Delete, ...]:
    """Deletes the oldest revisions above the limit. live: names of those in use."""
    if limit is None:
        return ()
    idle = [each for each in revisions if each["metadata"]["name"] not in live]
    idle.sort(key=lambda each: each.get("revision", 0))
    extra = idle[: max(0, len(idle) - limit)]
    return tuple(Delete(ref_of(CONTROLLER_REVISION, each), each["metadata"]["uid"]) for each in extra)


def _remade(known: Object, changes: Object) -> tuple[Step, ...]:
    """Replaces a revision by one with these fields changed; the name stays, because it is the label of its pods."""
    # A kube-apiserver spells the data anew when it patches them (& as \u0026), and refuses that as other data.
    again = {**CONTROLLER_REVISION.type_meta, **known, **changes}
    again["metadata"] = {key: again["metadata"][key] for key in _KEPT if key in again["metadata"]}
    metadata = known["metadata"]
    delete = Delete(ref_of(CONTROLLER_REVISION, known), metadata["uid"], resource_version=metadata["resourceVersion"])
    return delete, Create(CONTROLLER_REVISION, again)


def _revision(body: Object, data: Object, number: int) -> Object:
    metadata = body["metadata"]
    text = orjson.dumps(data, option=orjson.OPT_SORT_KEYS).decode()
    hash_ = pod_names.letters(text, _LENGTH)
    labels = (body["spec"]["template"].get("metadata") or {}).get("labels") or {}
    return {
        **CONTROLLER_REVISION.type_meta,
        "metadata": {
            "name": f"{metadata['name']}-{hash_}",
            "namespace": metadata["namespace"],
            "labels": {**labels, HASH: hash_},
            "ownerReferences": [owner_reference(STATEFUL_SET, body)],
        },
        "data": data,
        "revision": number,
    }
