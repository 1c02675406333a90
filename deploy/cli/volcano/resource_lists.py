"""Lists of resources as they are typed: ``cpu=1000m,memory=100Mi``."""

from workers.api import quantities
from workers.errors import UserError


def parse(flag: str, text: str) -> dict[str, str]:
    """The amounts by name; the empty text is none. Raises UserError that names the flag and the part that is wrong."""
    amounts: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if not name or not value or "=" in value:
            raise UserError(f"{flag}: {part!r}: NAME=QUANTITY is needed, as in cpu=500m,memory=1Gi")
        if name in amounts:
            raise UserError(f"{flag}: {name} stands twice")
        try:
            quantities.parse(value)
        except ValueError:
            raise UserError(f"{flag}: {name}: {value!r} is no quantity; one looks like 500m, 2 or 1Gi") from None
        amounts[name] = value
    return amounts
