"""CustomResourceDefinitions, and the objects they define."""

import re
from collections.abc import Iterator

from deploy.local.apiserver.codec import field_errors
from deploy.local.apiserver.codec.field_errors import FieldError
from deploy.local.apiserver.strategies import owned, structural_rules
from deploy.local.apiserver.strategies.base import Strategy
from workers.api import conditions, names
from workers.api.kinds import Kind, Object

_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_PATH = re.compile(r"(\.[A-Za-z_][\w-]*)+")
_SIMPLE = "must be a simple json path starting with ."


class CustomStrategy(Strategy):
    """The strategy of the objects that a CustomResourceDefinition defines."""

    generation, bare_finalizers = True, True

    def __init__(self, kind: Kind, definition: Object) -> None:
        version: Object = next((v for v in definition["spec"]["versions"] if v["name"] == kind.version), {})
        self.status = "status" in (version.get("subresources") or {})
        self._rules = owned.rules(kind)

    def validate_create(self, body: Object) -> list[FieldError]:
        return [*super().validate_create(body), *self._rules(body)]

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        """An unchanged spec is not validated again: it may be older than a rule, and must still lose finalizers."""
        return [] if self.declared(new) == self.declared(old) else list(self._rules(new))


class DefinitionStrategy(Strategy):
    """The strategy of apiextensions.k8s.io/v1 CustomResourceDefinitions."""

    generation, status, bare_finalizers = True, True, True

    def validate(self, body: Object) -> list[FieldError]:
        own = body["spec"]
        spelled = own.get("names") or {}
        errors: list[FieldError] = []
        expected = f"{spelled.get('plural', '')}.{own.get('group', '')}"
        if body["metadata"].get("name") != expected:
            detail = 'must be spec.names.plural+"."+spec.group'
            errors.append(field_errors.invalid("metadata.name", body["metadata"].get("name", ""), detail))
        errors += _group(own.get("group", ""))
        errors += _names(spelled)
        errors += field_errors.one_of("Cluster", "Namespaced")("spec.scope", own.get("scope"))
        return errors + list(_versions(own.get("versions") or []))

    def validate_change(self, new: Object, old: Object) -> list[FieldError]:
        if not conditions.holds(old, "Established"):
            return []
        named = ("kind", "plural")
        return [
            *field_errors.immutables(new["spec"], old["spec"], "spec", ("group", "scope")),
            *field_errors.immutables(new["spec"]["names"], old["spec"]["names"], "spec.names", named),
        ]


def _group(group: str) -> Iterator[FieldError]:
    yield from field_errors.named(names.dns_subdomain)("spec.group", group)
    if group and "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")


def _names(spelled: Object) -> Iterator[FieldError]:
    for field in ("plural", "singular", "kind", "listKind"):
        text = spelled.get(field, "")
        if not text:
            yield field_errors.required(f"spec.names.{field}")
        else:
            yield from field_errors.malformed(
                f"spec.names.{field}", text, lambda text: names.dns_1035_label(text.lower())
            )
    for index, short in enumerate(spelled.get("shortNames") or ()):
        place = f"spec.names.shortNames[{index}]"
        yield from field_errors.malformed(place, short, names.dns_1035_label)
    if spelled.get("kind") and spelled.get("kind") == spelled.get("listKind"):
        yield field_errors.invalid("spec.names.listKind", spelled["listKind"], "kind and listKind may not be the same")


def _versions(versions: list[Object]) -> Iterator[FieldError]:
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        yield field_errors.invalid("spec.versions", versions, "must have exactly one version marked as storage version")
    seen: set[str] = set()
    for index, version in enumerate(versions):
        place, name = f"spec.versions[{index}]", version.get("name", "")
        yield from field_errors.malformed(f"{place}.name", name, names.dns_1035_label)
        if name in seen:
            yield field_errors.invalid("spec.versions", versions, "must contain unique version names")
        seen.add(name)
        for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column(column, f"{place}.additionalPrinterColumns[{at}]")
        if (scale := (version.get("subresources") or {}).get("scale")) is not None:
            yield from _scale(scale, f"{place}.subresources.scale")
        form = (version.get("schema") or {}).get("openAPIV3Schema")
        if form is None:
            yield field_errors.required(f"{place}.schema.openAPIV3Schema", "schemas are required")
        else:
            yield from structural_rules.problems(form, f"{place}.schema.openAPIV3Schema")


def _column(column: Object, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield field_errors.required(f"{path}.name")
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not (kind := column.get("type")):
        yield field_errors.required(f"{path}.type", types)
    elif kind not in _COLUMN_TYPES:
        yield field_errors.invalid(f"{path}.type", kind, types)
    if (form := column.get("format")) and form not in _COLUMN_FORMATS:
        yield field_errors.invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not (text := column.get("jsonPath")):
        yield field_errors.required(f"{path}.JSONPath")
    elif not text.startswith("."):
        yield field_errors.invalid(f"{path}.JSONPath", text, _SIMPLE)


def _scale(scale: Object, path: str) -> Iterator[FieldError]:
    for field, parts in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        text = scale.get(field)
        if not text:
            if field != "labelSelectorPath":
                yield field_errors.required(f"{path}.{field}")
        elif not _PATH.fullmatch(text):
            yield field_errors.invalid(f"{path}.{field}", text, _SIMPLE)
        elif not text.startswith(tuple(f"{part}." for part in parts)):
            under = parts[0] if len(parts) == 1 else f"either {' or '.join(parts)}"
            yield field_errors.invalid(f"{path}.{field}", text, f"should be a json path under {under}")
