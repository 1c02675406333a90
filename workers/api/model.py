"""The base of all typed kinds: camelCase names, strict types, and errors that name object and field."""

import ast
import inspect
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, ValidationError
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from penstock import _wording
from workers.api.kinds import Kind, Object
from workers.errors import UserError

T = TypeVar("T")

#: A list of the manifest, kept as a tuple: models are values.
Items = Annotated[tuple[T, ...], Field(strict=False)]
#: A text that is not empty.
Text = Annotated[str, Field(min_length=1)]
Natural = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
#: Whole numbers of 32 bits.
Natural32 = Annotated[int, Field(ge=0, le=2**31 - 1)]
Positive32 = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Model(BaseModel):
    """A part of a manifest. Unknown fields are ignored; ``null`` is an absent field."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        strict=True,
        extra="ignore",
        # A process uses few of the kinds: each model is built when it first reads an object.
        defer_build=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the JSON schema, with the docstrings of fields as their descriptions.

        pydantic could keep them in every process (`use_attribute_docstrings`), but that reads and parses the source of
        each class when it is defined, and only definitions of kinds show them.
        """
        found = handler(schema)
        properties = handler.resolve_ref_schema(found).get("properties", {})
        for name, text in _attribute_docstrings(cls).items():
            if name in cls.model_fields:
                properties[cls.model_fields[name].alias or name]["description"] = text
        return found


M = TypeVar("M", bound=Model)

#: One problem that a model's own check found: the path below the model, and what is wrong there.
Found = tuple[tuple[str | int, ...], str]


def refuse(found: Iterable[Found]) -> None:
    """Raises a validator's error that names all these problems; does nothing without any."""
    lines = [
        InitErrorDetails(type=PydanticCustomError("problem", "{text}", {"text": text}), loc=path, input=None)
        for path, text in found
    ]
    if lines:
        raise ValidationError.from_exception_data("problems", lines)


@dataclass(frozen=True, slots=True)
class Problem:
    """One malformed field. missing: the field is absent."""

    field: str
    message: str
    missing: bool


class Problems(UserError):  # noqa: N818 - says what it is
    """An object that its model does not accept; the text names the object and every malformed field."""

    def __init__(self, text: str, found: tuple[Problem, ...]) -> None:
        super().__init__(text)
        self.found = found


def parse(model: type[M], kind: Kind, body: Object) -> M:
    """Returns the typed form of an object. Raises Problems, a UserError, for one that the model does not accept."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        findings = _wording.findings(error)
        found = tuple(
            Problem(_path(each.path), each.message, each.type == "missing")
            for each in findings
            if not _follows(each, findings)
        )
        text = "; ".join(f"{problem.field}: {problem.message}" for problem in found)
        raise Problems(f"{_address(kind, body)}: {text}", found) from None


def _follows(each: _wording.WordedProblem, others: list[_wording.WordedProblem]) -> bool:
    """Returns True if a list is too short only because pydantic counts no malformed items."""
    place = each.path
    below = any(len(other.path) > len(place) and other.path[: len(place)] == place for other in others)
    return each.type == "too_short" and below


def _address(kind: Kind, body: Object) -> str:
    metadata: dict[str, Any] = body.get("metadata") or {}
    where = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f"{kind.kind} {where or 'without a name'}"


def _path(location: tuple[int | str, ...]) -> str:
    """Returns the path of a location: ``("spec", "triggers", 0, "type")`` is ``spec.triggers[0].type``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _attribute_docstrings(cls: type) -> dict[str, str]:
    """Returns the docstrings below annotated attributes of a class and its bases, which Python does not keep, by name.

    Classes inside functions and without a source file have none.
    """
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        module = sys.modules.get(each.__module__)
        if file := getattr(module, "__file__", None):
            found |= _docstrings_in(file).get(each.__qualname__, {})
    return found


@cache
def _docstrings_in(file: str) -> dict[str, dict[str, str]]:
    """Returns the docstrings of attributes by the qualified names of the file's classes."""
    tree = ast.parse(Path(file).read_bytes())
    found: dict[str, dict[str, str]] = {}
    todo = [("", each) for each in tree.body if isinstance(each, ast.ClassDef)]
    while todo:
        outside, node = todo.pop()
        name = f"{outside}{node.name}"
        todo += [(f"{name}.", each) for each in node.body if isinstance(each, ast.ClassDef)]
        found[name] = {
            attribute.target.id: inspect.cleandoc(text.value.value)
            for attribute, text in zip(node.body, node.body[1:], strict=False)
            if isinstance(attribute, ast.AnnAssign)
            and isinstance(attribute.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        }
    return found
