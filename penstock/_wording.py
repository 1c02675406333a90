"""The problems that a validation found, in the words of manifests and settings: pydantic's own name Python's types.

Internal: everything that tells a user what a model refused reads it from here.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError

#: Templates by pydantic's type of error; the error's context fills them in.
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "none_required": "must be absent",
    "string_type": "must be a string",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "set_type": "must be a list",
    "frozen_set_type": "must be a list",
    "iterable_type": "must be a list",
    "dict_type": "must be an object with fields",
    "mapping_type": "must be an object with fields",
    "model_type": "must be an object with fields",
    "model_attributes_type": "must be an object with fields",
    "dataclass_type": "must be an object with fields",
    "literal_error": "must be {expected}",
    "enum": "must be {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "multiple_of": "must be a multiple of {multiple_of}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "value_error": "{error}",
    "assertion_error": "{error}",
    "path_type": "must be a path",
}
#: How pydantic names the alternatives of a value in a path, with the types of error that end there.
_ALTERNATIVES = {"int": "int_", "float": "float_", "str": "string_", "bool": "bool_"}


class WordedProblem(NamedTuple):
    """One problem. path: of the field. value: what was refused there; it may be secret."""

    path: tuple[str | int, ...]
    message: str
    type: str
    value: Any


def findings(error: "ValidationError") -> list[WordedProblem]:
    """Returns what is wrong, one problem per field even where a value may have several types."""
    found: dict[tuple[object, ...], WordedProblem] = {}
    for number, each in enumerate(error.errors(include_url=False)):
        path, text = each["loc"], message(each)
        if path and each["type"].startswith(_ALTERNATIVES.get(str(path[-1]), "-")):
            path = path[:-1]
            if (same := found.get(("alternatives", path))) is not None:
                text = f"{same.message} or {text.removeprefix('must be ')}"
            found["alternatives", path] = WordedProblem(path, text, each["type"], each["input"])
        else:
            found["alone", number] = WordedProblem(path, text, each["type"], each["input"])
    return list(found.values())


def message(error: Mapping[str, Any]) -> str:
    """Returns the message of one of pydantic's errors; that of a type of our own as it is."""
    template = _MESSAGES.get(error["type"])
    if template is not None:
        return template.format(**error.get("ctx") or {})
    return "is malformed" if error["type"] in _foreign() else str(error["msg"])


def _foreign() -> Iterable[str]:
    from typing import get_args

    from pydantic_core.core_schema import ErrorType

    return get_args(ErrorType)
