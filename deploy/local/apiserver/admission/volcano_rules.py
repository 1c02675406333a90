"""The rules of Volcano's kinds, where a real cluster has `penstock webhook`: filled in, then judged.

Objects come here after their schema: `default` before they are prepared and validated, `validate` last of all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.codec import builtin, field_errors
from deploy.local.apiserver.codec.definitions import Type
from deploy.local.apiserver.codec.field_errors import DecodeError, FieldError
from deploy.local.apiserver.discovery.api_resources import ServedResource
from deploy.local.apiserver.schema import defaults
from deploy.local.apiserver.storage.object_store import ObjectStore
from deploy.local.apiserver.strategies.pod_specs import podspec
from scalers.scaler_registry import REGISTRY
from workers.admission.admission_options import AdmissionOptions
from workers.admission.rules import RULES, KindRules
from workers.admission.warnings import warnings
from workers.api.kinds import Kind, Object, Ref


@dataclass(frozen=True, slots=True)
class StoredView:
    """The store as the rules read it: every object, writes in flight included."""

    store: ObjectStore

    def get(self, ref: Ref) -> Object | None:
        """The object, None when there is none."""
        record = self.store.latest(ref.kind.id, f"{ref.namespace}/{ref.name}")
        return None if record is None else record.body

    def every(self, kind: Kind) -> Sequence[Object]:
        """All objects of a kind."""
        keys = self.store.table(kind.id).within("")
        return [record.body for key in keys if (record := self.store.latest(kind.id, key)) is not None]


def default(resource: ServedResource, body: Object, store: ObjectStore, options: AdmissionOptions) -> Object:
    """A new object with what its rules fill in."""
    rules = _rules(resource)
    return rules.defaulted(body, StoredView(store), options) if rules else body


def validate(
    resource: ServedResource, body: Object, old: Object | None, store: ObjectStore, options: AdmissionOptions
) -> list[FieldError]:
    """Returns the errors of an object that its schema accepts. old: the version it replaces, None for a new object."""
    rules = _rules(resource)
    if rules is None:
        return []
    found = [
        field_errors.invalid(finding.field, field_errors.OMITTED, finding.message)
        for finding in rules.problems(body, old, StoredView(store), options)
    ]
    if not rules.lenient and (old is None or body.get("spec") != old.get("spec")):
        reported = {error.field for error in found}
        found += in_templates((path, template) for path, template in rules.templates(body) if path not in reported)
    return found


def warned(resource: ServedResource, body: Object, old: Object | None) -> list[str]:
    """Returns the warnings about an accepted object; none again for a spec that stays the same."""
    if _rules(resource) is None or (old is not None and old.get("spec") == body.get("spec")):
        return []
    return warnings(body, REGISTRY.unknown)


def check_deletion(resource: ServedResource, body: Object, store: ObjectStore) -> None:
    """Raises ApiError (403) for an object that must not be deleted."""
    rules = _rules(resource)
    found = list(rules.removal(body, StoredView(store))) if rules else []
    if found:
        causes: list[Object] = [
            {"reason": "FieldValueForbidden", "message": finding.message, "field": finding.field} for finding in found
        ]
        why = "; ".join(finding.message for finding in found)
        raise api_errors.forbidden(resource.kind, body["metadata"]["name"], why, causes)


def _rules(resource: ServedResource) -> KindRules | None:
    rules = RULES.get(resource.kind.id)
    return rules if rules and rules.kind.version == resource.kind.version else None


def in_templates(found: Iterable[tuple[str, Object]]) -> Iterator[FieldError]:
    """Yields the errors of pod templates, which a schema lets through unread; they must do as built-in ones."""
    for path, template in found:
        try:
            read = _decode(template, None, [])
        except DecodeError as error:
            yield field_errors.invalid(path, field_errors.OMITTED, str(error))
        else:
            yield from podspec.template(defaults.template(read), path)


_decode = builtin.decoder(Type("V1PodTemplateSpec"))
