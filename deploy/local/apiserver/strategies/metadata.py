"""The rules of metadata: names, labels, annotations, owners, finalizers."""

from collections.abc import Iterator, Sequence

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError, TextRule
from workers.api import names
from workers.api.kinds import Object

#: The most bytes all annotations of one object may have.
ANNOTATIONS_LIMIT = 256 * 1024
#: Set by the server and never changed afterwards.
_FIXED = ("name", "namespace", "uid", "creationTimestamp")
_STANDARD_FINALIZERS = ("orphan", "foregroundDeletion", "kubernetes")
#: Changed by deletions only.
_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


def validate(
    metadata: Object, rule: TextRule, *, path: str = "metadata", bare_finalizers: bool = False
) -> list[FieldError]:
    """Returns the errors of a new object's metadata."""
    return [
        *_name(metadata, rule, path),
        *labels(metadata.get("labels") or {}, f"{path}.labels"),
        *annotations(metadata.get("annotations") or {}, f"{path}.annotations"),
        *_owners(metadata, path),
        *_finalizers(metadata, path, bare_finalizers),
    ]


def _name(metadata: Object, rule: TextRule, path: str) -> Iterator[FieldError]:
    prefix, name = metadata.get("generateName", ""), metadata.get("name", "")
    if prefix and name.startswith(prefix[:58]):
        # A prefix may end in a hyphen: a random suffix follows.
        for problem in rule(prefix[:-1] + "a" if prefix.endswith("-") else prefix):
            yield field_errors.invalid(f"{path}.generateName", prefix, problem)
    if not name:
        yield field_errors.required(f"{path}.name", "name or generateName is required")
    yield from field_errors.formatted(rule)(f"{path}.name", name)


def labels(body: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of labels; they carry the path of the whole map."""
    for key, value in body.items():
        yield from field_errors.malformed(path, key, names.qualified_name)
        yield from field_errors.malformed(path, value, names.label_value)


def annotations(body: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of annotations: keys are as those of labels, values are free, the size of all is limited."""
    for key in body:
        yield from (field_errors.invalid(path, key, problem) for problem in names.qualified_name(key.lower()))
    if sum(len(key) + len(value.encode()) for key, value in body.items()) > ANNOTATIONS_LIMIT:
        yield field_errors.too_long(path, ANNOTATIONS_LIMIT)


def selector(body: Object, path: str) -> Iterator[FieldError]:
    """Yields the errors of a label selector."""
    yield from labels(body.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(body.get("matchExpressions") or ()):
        place = f"{path}.matchExpressions[{index}]"
        yield from requirement(expression, place)
        for at, value in enumerate(expression.get("values") or ()):
            problems = names.label_value(value)
            yield from (field_errors.invalid(f"{place}.values[{at}]", value, problem) for problem in problems)


def requirement(expression: Object, path: str, *, numbers: bool = False) -> Iterator[FieldError]:
    """Yields the errors of one requirement. numbers: Gt and Lt are allowed, as in selectors of nodes."""
    key, operator = expression.get("key", ""), expression.get("operator", "")
    values = expression.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield field_errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield field_errors.forbidden(f"{path}.values", detail)
    elif numbers and operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield field_errors.required(
                f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"
            )
    else:
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from field_errors.malformed(f"{path}.key", key, names.qualified_name)


def _owners(metadata: Object, path: str) -> Iterator[FieldError]:
    place = f"{path}.ownerReferences"
    controllers = []
    for owner in metadata.get("ownerReferences") or ():
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                what = "version" if field == "apiVersion" else field
                yield field_errors.invalid(f"{place}.{field}", owner.get(field, ""), f"{what} must not be empty")
        if owner.get("apiVersion", "").count("/") > 1:
            yield field_errors.invalid(f"{place}.apiVersion", owner["apiVersion"], "version must not be empty")
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            yield field_errors.invalid(place, "v1, Kind=Event", "v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            controllers.append(owner.get("name"))
    if len(controllers) > 1:
        yield field_errors.invalid(
            place,
            f"{len(controllers)} controllers",
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}',
        )


def _finalizers(metadata: Object, path: str, bare: bool) -> Iterator[FieldError]:
    finalizers = metadata.get("finalizers") or []
    place = f"{path}.finalizers"
    if bare:
        for finalizer in finalizers:
            yield from field_errors.malformed(place, finalizer, names.qualified_name)
    else:
        yield from qualified_finalizers(finalizers, place)
    if {"orphan", "foregroundDeletion"} <= set(finalizers):
        yield field_errors.invalid(place, finalizers, "finalizer orphan and foregroundDeletion cannot be both set")


def qualified_finalizers(finalizers: Sequence[str], place: str) -> Iterator[FieldError]:
    """Yields the errors of finalizers that must be standard ones or have a domain."""
    for finalizer in finalizers:
        yield from field_errors.malformed(place, finalizer, names.qualified_name)
    for index, finalizer in enumerate(finalizers):
        if "/" not in finalizer and finalizer not in _STANDARD_FINALIZERS:
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield field_errors.invalid(f"{place}[{index}]", finalizer, detail)


def carried(new: Object, old: Object) -> Object:
    """The metadata of an update with what only the server sets taken from the stored object."""
    result = {name: value for name, value in new.items() if name not in ("generation", "selfLink", "managedFields")}
    for field in (*_FIXED, *_DELETION):
        if field not in result and field in old:
            result[field] = old[field]
    if "generation" in old:
        result["generation"] = old["generation"]
    return result


def validate_update(new: Object, old: Object, *, bare_finalizers: bool = False) -> list[FieldError]:
    """Returns the errors of the metadata of an update whose missing parts were `carried` over.

    The name is not judged again: rules may have become stricter since it was stored.
    """
    errors = field_errors.immutables(new, old, "metadata", (*_FIXED, *_DELETION))
    if "deletionTimestamp" in old:
        added = [name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())]
        if added:
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{', '.join(map(field_errors.shown, added))}}}"
            )
            errors.append(field_errors.forbidden("metadata.finalizers", detail))
    return [
        *errors,
        *labels(new.get("labels") or {}, "metadata.labels"),
        *annotations(new.get("annotations") or {}, "metadata.annotations"),
        *_owners(new, "metadata"),
        *_finalizers(new, "metadata", bare_finalizers),
    ]
