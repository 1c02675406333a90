"""Properties of a scaler that are one of its fields, or a text made of some."""

from operator import attrgetter
from typing import Any


def value_of(field: str) -> Any:
    """Returns a property whose value is that of a field: ``target: ClassVar[float] = value_of("list_length")``."""
    return property(attrgetter(field))


def text_of(template: str) -> Any:
    """Returns a property made of fields: ``metric: ClassVar[str] = text_of("redis-{0.list_name}")``."""
    return property(template.format)
