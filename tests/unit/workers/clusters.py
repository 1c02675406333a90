"""A cluster in memory for unit tests: versions, conflicts, owners; and it can be told to refuse."""

import copy
import itertools

from workers.api.kinds import Ref, ref_of
from workers.client.request_limiter import context_of
from workers.client.rest import STRATEGIC_MERGE_PATCH
from workers.errors import AlreadyExists, Conflict, Invalid, NotFound


def _merge(target, patch):
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            target[key] = _merge(dict(target.get(key) or {}), value)
        else:
            target[key] = value
    return target


class MemoryCluster:
    """The writes of workers.client.rest.Cluster on a dict; of strategic patches it knows how finalizers go.

    refuse: called with (verb, ref) before every write; returns the error to raise, or None. says: the warnings that
    come with every answer to a creation.
    """

    def __init__(self):
        self.objects = {}
        self.log = []
        self.refuse = lambda verb, ref: None
        self.says = []
        self._versions = itertools.count(100)
        self._uids = itertools.count(1)

    def refuse_with(self, error, *, verb=None, name=None):
        """Refuses all writes, or those of this verb or to the objects of this name."""
        self.refuse = lambda tried, ref: error if verb in (None, tried) and name in (None, ref.name) else None

    def add(self, kind, body):
        """Put an object there as if somebody else had."""
        body = copy.deepcopy(body)
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-{next(self._uids)}")
        metadata["resourceVersion"] = str(next(self._versions))
        metadata.setdefault("generation", 1)
        self.objects[ref_of(kind, body)] = body
        return copy.deepcopy(body)

    async def get(self, ref):
        return copy.deepcopy(self._find(ref))

    async def create(self, kind, body):
        ref = ref_of(kind, body)
        self._write("create", ref)
        for text in self.says:
            context_of("POST").warned(text)
        if ref in self.objects:
            raise AlreadyExists(f"{ref} exists", status=409)
        return self.add(kind, body)

    async def patch(self, ref, body, *, type="", subresource=""):
        self._write(f"patch {subresource}".strip(), ref)
        known = self._find(ref)
        expected = body.get("metadata", {}).get("resourceVersion")
        if expected and expected != known["metadata"]["resourceVersion"]:
            raise Conflict(f"{ref} has been modified", status=409)
        body = copy.deepcopy(body)
        if type == STRATEGIC_MERGE_PATCH:
            if body["metadata"]["uid"] != known["metadata"]["uid"]:
                raise Invalid("metadata.uid: field is immutable", status=422)
            leaving = body["metadata"].pop("$deleteFromPrimitiveList/finalizers", ())
            body["metadata"]["finalizers"] = [
                finalizer for finalizer in known["metadata"].get("finalizers", ()) if finalizer not in leaving
            ] or None
        patched = _merge(copy.deepcopy(known), body)
        patched["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[ref] = patched
        if patched["metadata"].get("deletionGracePeriodSeconds") == 0 and not patched["metadata"].get("finalizers"):
            del self.objects[ref]
        return copy.deepcopy(patched)

    async def delete(self, ref, *, uid=None, resource_version=None, propagation="Background", grace=None):
        self._write("delete", ref)
        known = self._find(ref)
        if uid and uid != known["metadata"]["uid"]:
            raise Conflict(f"{ref} is another one", status=409)
        if resource_version and resource_version != known["metadata"]["resourceVersion"]:
            raise Conflict(f"{ref} has been modified", status=409)
        del self.objects[ref]
        return {"kind": "Status", "status": "Success"}

    def _write(self, verb, ref: Ref):
        self.log.append((verb, ref.name))
        if error := self.refuse(verb, ref):
            raise error

    def _find(self, ref):
        try:
            return self.objects[ref]
        except KeyError:
            raise NotFound(f"{ref} not found", status=404) from None
