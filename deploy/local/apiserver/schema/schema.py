"""Schemas: decoding, defaults and the form of the objects of a kind, before its strategy validates the content."""

from collections.abc import Callable
from typing import Any, Literal, Protocol

from deploy.local.apiserver.codec import builtin as decoding
from deploy.local.apiserver.codec.definitions import Type, model_of
from deploy.local.apiserver.codec.field_errors import DecodeError, FieldError
from deploy.local.apiserver.schema import defaults, structural
from workers.api.kinds import Kind, Object

Strictness = Literal["Strict", "Warn", "Ignore"]


class Schema(Protocol):
    """One kind's schema. No method changes its argument."""

    def decode(self, body: Any, *, strict: Strictness) -> tuple[Object, list[str]]:
        """The body with unknown fields removed, and a warning for each when `strict` is Warn.

        Raises DecodeError (400) for what is no object of this kind at all, and with Strict for unknown fields.
        """

    def default(self, body: Object) -> Object:
        """The body with everything filled in that its author may leave out."""

    def validate(self, body: Object, /) -> list[FieldError]:
        """Returns the errors of a decoded and defaulted body that the schema finds."""


def builtin(kind: Kind) -> Schema:
    """The schema of a built-in kind. Raises LookupError for a kind that is none."""
    return _Builtin(kind)


def custom(version: Object) -> Schema:
    """The schema of one version (an item of `spec.versions`) of a CustomResourceDefinition."""
    return _Custom(version)


class _Builtin:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._decode = decoding.decoder(Type(model_of(kind)))
        self._default = defaults.of(kind)

    def decode(self, body: Any, *, strict: Strictness) -> tuple[Object, list[str]]:
        unknown: list[str] = []
        prefix = f'{self.kind.kind} in version "{self.kind.version}" cannot be handled as a {self.kind.kind}'
        try:
            result = self._decode(body, None, unknown)
        except DecodeError as error:
            raise DecodeError(f"{prefix}: {error}") from None
        return result, told(unknown, strict, prefix)

    def default(self, body: Object) -> Object:
        return self._default(body)

    def validate(self, _body: Object, /) -> list[FieldError]:
        """Nothing: Go's decoder has checked the shape, and the rest is the strategy's."""
        return []


class _Custom:
    def __init__(self, version: Object) -> None:
        form = (version.get("schema") or {}).get("openAPIV3Schema") or {"x-kubernetes-preserve-unknown-fields": True}
        self._metadata = decoding.decoder(Type("V1ObjectMeta"))
        self._prune: Callable[[Any], tuple[Any, list[str]]] = structural.pruner(form)
        self._default = structural.defaulter(form)
        self._validate = structural.validator(form)

    def decode(self, body: Any, *, strict: Strictness) -> tuple[Object, list[str]]:
        if not isinstance(body, dict):
            raise DecodeError("json: cannot unmarshal the body into Go value of type map[string]interface {}")
        kind = body.get("kind")
        version = str(body.get("apiVersion")).rpartition("/")[2]
        prefix = f'{kind} in version "{version}" cannot be handled as a {kind}'
        head: Object = {name: body[name] for name in ("apiVersion", "kind") if name in body}
        rest, unknown = self._prune({name: value for name, value in body.items() if name not in _HEAD})
        given = body.get("metadata")
        try:
            metadata = self._metadata(
                {} if given is None else given, (None, "metadata", kind if isinstance(kind, str) else ""), unknown
            )
        except DecodeError as error:
            raise DecodeError(f"{prefix}: {error}") from None
        return {**head, "metadata": metadata, **rest}, told(unknown, strict, prefix)

    def default(self, body: Object) -> Object:
        rest: Object = self._default({name: value for name, value in body.items() if name not in _HEAD})
        return {**{name: body[name] for name in _HEAD if name in body}, **rest}

    def validate(self, body: Object, /) -> list[FieldError]:
        return self._validate(body)


_HEAD = ("apiVersion", "kind", "metadata")


def told(unknown: list[str], strict: Strictness, prefix: str) -> list[str]:
    """Returns the warnings about unknown fields; with Strict raises DecodeError, whose message the prefix begins."""
    found = [f'unknown field "{name}"' for name in sorted(unknown)]
    if found and strict == "Strict":
        raise DecodeError(f"{prefix}: strict decoding error: {', '.join(found)}")
    return found if strict == "Warn" else []
