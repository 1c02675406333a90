"""What all typed kinds share: camelCase names, no silent conversions, and errors that name object and field."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from workers.api.kinds import Kind, Object
from workers.errors import UserError

T = TypeVar("T")

#: A list of the manifest, kept as a tuple: models are values.
Items = Annotated[tuple[T, ...], Field(strict=False)]


class Model(BaseModel):
    """A part of a manifest. Fields this code does not know are ignored; ``null`` is a field that is not there."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        strict=True,
        extra="ignore",
        use_attribute_docstrings=True,
    )


M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field. missing: it is not there at all."""

    field: str
    message: str
    missing: bool


class Problems(UserError):  # noqa: N818 - says what it is
    """An object that its model does not accept; the text names the object and every wrong field."""

    def __init__(self, text: str, found: tuple[Problem, ...]) -> None:
        super().__init__(text)
        self.found = found


def parse(model: type[M], kind: Kind, body: Object) -> M:
    """The typed form of an object.

    Raises Problems, a UserError that names the object and every field that is wrong.
    """
    try:
        return model.model_validate(body)
    except ValidationError as error:
        found = tuple(
            Problem(_path(each["loc"]), _message(each["msg"]), each["type"] == "missing")
            for each in error.errors()
            if not _follows(each, error.errors())
        )
        text = "; ".join(f"{problem.field}: {problem.message}" for problem in found)
        raise Problems(f"{_address(kind, body)}: {text}", found) from None


def _follows(each: ErrorDetails, others: list[ErrorDetails]) -> bool:
    """Whether a list is too short only because items of it are wrong: pydantic counts those that are right."""
    place = each["loc"]
    below = any(len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in others)
    return each["type"] == "too_short" and below


def _address(kind: Kind, body: Object) -> str:
    metadata: dict[str, Any] = body.get("metadata") or {}
    where = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f"{kind.kind} {where or 'without a name'}"


def _path(location: tuple[int | str, ...]) -> str:
    """``("spec", "triggers", 0, "type")`` becomes ``spec.triggers[0].type``."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _message(text: str) -> str:
    """pydantic's sentence, without its prefix for errors that our own checks raise."""
    return text.removeprefix("Value error, ")
