"""What authenticationRef supplies to a trigger."""

from collections.abc import Mapping

from workers.api.kinds import Object
from workers.errors import UserError


def parameters(trigger: Object) -> Mapping[str, str]:
    """The parameters that a trigger's authenticationRef resolves to.

    Raises UserError for a trigger that has one: measuring without the credentials it asks for would be a silent
    mistake.
    """
    if trigger.get("authenticationRef"):
        raise UserError("authenticationRef is not supported yet")
    return {}
