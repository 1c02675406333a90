"""Quantities: numbers with a suffix, as in ``500m`` CPUs or ``1536Mi`` bytes."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_FORM = re.compile(r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?P<suffix>[eE][+-]?[0-9]+|[KMGTPE]i|[numkMGTPE]|)")
_BINARY = {suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {
    suffix: Decimal(1000) ** power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
}
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)
def parse(text: str) -> Decimal:
    """The number a quantity stands for, exact down to nano. Raises ValueError for a malformed one."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(MALFORMED)
    number, suffix = Decimal(match["number"]), match["suffix"]
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix not in _BINARY:
        value = number.scaleb(int(suffix[1:]))
    else:
        value = number * (_BINARY.get(suffix) or _DECIMAL[suffix])
    return value.quantize(_DECIMAL["n"], rounding=ROUND_CEILING) if value % _DECIMAL["n"] else value


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """The quantity in its canonical form: no fraction, and the largest suffix of its own family that allows it.

    ``0.5`` is ``500m``, ``1.5Gi`` is ``1536Mi``, ``1000m`` is ``1``. Raises ValueError for a malformed quantity.
    """
    value = parse(text)
    suffix = _FORM.fullmatch(text)["suffix"]  # type: ignore[index]
    if value == 0:
        return "0"
    if suffix in _BINARY and abs(value) >= 1024 and value % 1 == 0:
        fitting = [name for name, unit in _BINARY.items() if value % unit == 0]
        return f"{int(value / _BINARY[fitting[-1]])}{fitting[-1]}" if fitting else f"{int(value)}"
    if suffix[:1] in ("e", "E") and len(suffix) > 1 and suffix not in _BINARY:
        power = next(power for power in range(18, -12, -3) if value % Decimal(10) ** power == 0)
        return f"{int(value.scaleb(-power))}e{power}" if power else f"{int(value)}"
    name = [name for name, unit in _DECIMAL.items() if value % unit == 0][-1]
    return f"{int(value / _DECIMAL[name])}{name}"
