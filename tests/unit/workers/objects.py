"""Small factories of cluster objects for the store's tests: versions are numbers, uids are words."""

from typing import Any

from workers.api.kinds import JOB, SCALED_JOB, Kind, Object, Ref

NAMES = "names"


def scaled_job(name: str, version: int, *, uid: str = "", generation: int = 1, **metadata: object) -> Object:
    return _object(SCALED_JOB, name, version, uid=uid, generation=generation, **metadata)


def job(name: str, version: int, *, uid: str = "", owner: Object | None = None, **metadata: object) -> Object:
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "controller": True,
            }
        ]
    return _object(JOB, name, version, uid=uid, **metadata)


def naming(name: str, version: int, names: str | None, **metadata: Any) -> Object:
    """A Job that names the ScaledJob `names` (None: nobody) without being owned by it."""
    annotations = {} if names is None else {NAMES: names}
    return job(name, version, annotations=annotations, **metadata)


def refers_to(body: Object) -> Ref | None:
    name = (body["metadata"].get("annotations") or {}).get(NAMES)
    return ref(SCALED_JOB, name) if name else None


def key(kind: Kind, name: str) -> str:
    return ref(kind, name).key


def ref(kind: Kind, name: str) -> Ref:
    return Ref(kind, "default", name)


def _object(kind: Kind, name: str, version: int, *, uid: str, **metadata: object) -> Object:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "namespace": "default",
            "name": name,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            **metadata,
        },
    }
