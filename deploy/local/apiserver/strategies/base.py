"""The strategy of a kind: it prepares objects for storage and validates them.

The server calls, in this order: for a create `prepare_create` and `validate_create`; for an update `prepare_update`
and `validate_update`; for a write to the status subresource `prepare_status` and `validate_status`. The objects have
been decoded and defaulted before. Nothing changes its arguments.
"""

from datetime import datetime

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import metadata
from workers.api import names, times
from workers.api.kinds import Object

#: Not part of what an author declares.
_NOT_DECLARED = ("apiVersion", "kind", "metadata", "status")


class Strategy:
    """A kind without rules of its own, and the base of those that have some.

    generation: `metadata.generation` counts the changes of what the author declares. status: there is a status
    subresource, and the status cannot be written in any other way. initial: the status of a new object, None for
    none at all. name_rule: names what is wrong with a name. bare_finalizers: finalizers without a domain's slash are
    accepted, which a real server refuses for built-in kinds only.
    """

    generation = False
    status = False
    initial: Object | None = None
    name_rule: field_errors.TextRule = staticmethod(names.dns_subdomain)
    bare_finalizers = False

    def prepare_create(self, body: Object, now: datetime) -> Object:
        """The object as it will be stored. Name, namespace and uid are in its metadata already; `now` is aware, UTC."""
        kept = {
            name: value
            for name, value in body["metadata"].items()
            if name
            not in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "managedFields", "generation")
        }
        kept["creationTimestamp"] = times.render(now)
        if self.generation:
            kept["generation"] = 1
        result = {**body, "metadata": kept}
        if self.status:
            result.pop("status", None)
            if self.initial is not None:
                result["status"] = dict(self.initial)
        return result

    def validate_create(self, body: Object) -> list[FieldError]:
        """Everything that is wrong with a new object."""
        found = metadata.validate(body["metadata"], self.name_rule, bare_finalizers=self.bare_finalizers)
        return [*found, *self.validate(body)]

    def validate(self, _body: Object, /) -> list[FieldError]:
        """Returns the errors of an object, new or not, except those of its metadata. None by default."""
        return []

    def prepare_update(self, new: Object, old: Object) -> Object:
        """The new version as it will be stored: the status is the old one's, the generation counts on."""
        result = {**new, "metadata": metadata.carried(new["metadata"], old["metadata"])}
        if self.status:
            result.pop("status", None)
            if "status" in old:
                result["status"] = old["status"]
        if self.generation and self.declared(result) != self.declared(old):
            result["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return result

    def declared(self, body: Object) -> Object:
        """The part of an object that its author declares, whose changes the generation counts."""
        ignored = _NOT_DECLARED if self.status else _NOT_DECLARED[:3]
        return {name: value for name, value in body.items() if name not in ignored}

    def validate_update(self, new: Object, old: Object) -> list[FieldError]:
        """Everything that is wrong with a prepared new version."""
        found = self.validate(new)
        # What is stored may be older than a rule, and must still get rid of its finalizers.
        known = self.validate(old) if found else []
        return [
            *metadata.validate_update(new["metadata"], old["metadata"], bare_finalizers=self.bare_finalizers),
            *(error for error in found if error not in known),
            *self.validate_change(new, old),
        ]

    def validate_change(self, _new: Object, _old: Object, /) -> list[FieldError]:
        """Returns the errors of changed fields that are immutable. None by default."""
        return []

    def prepare_finalize(self, new: Object, old: Object) -> Object:
        """The new version as a write of the finalize subresource stores it: as an update, for a kind without one."""
        return self.prepare_update(new, old)

    def prepare_status(self, new: Object, old: Object) -> Object:
        """The stored object with the status of `new`."""
        result = {name: value for name, value in old.items() if name != "status"}
        return {**result, "status": new["status"]} if new.get("status") else result

    def validate_status(self, _new: Object, _old: Object, /) -> list[FieldError]:
        """Everything that is wrong with a prepared write of the status. Nothing by default."""
        return []

    def warnings(self, _body: Object, _old: Object | None = None, /) -> list[str]:
        """Returns the warnings about an acceptable object. _old: the version it replaces. None by default."""
        return []
