"""Numbers as texts: quantities with a suffix, as in ``500m`` CPUs or ``1536Mi`` bytes, and plain ones."""

import math
import re
from fractions import Fraction
from functools import lru_cache

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_PLAIN = re.compile(rf"{_NUMBER}(?:[eE][+-]?[0-9]+)?")
_FORM = re.compile(rf"(?P<number>{_NUMBER})(?:[eE](?P<exponent>[+-]?[0-9]{{1,2}})|(?P<suffix>[KMGTPE]i|[numkMGTPE]?))")
#: The unit of parsed quantities is a billionth; finer amounts are rounded up.
ONE = 10**9
_BINARY = {suffix: 1024**power * ONE for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)}
_DECIMAL = {suffix: 1000**power for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))}
MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def plain(text: str) -> float:
    """Returns the value of a number without a suffix.

    Raises ValueError for anything else, as ``1_0``, blanks and digits of other scripts, which Python reads and Go does
    not.
    """
    if not _PLAIN.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _match(text: str) -> re.Match[str]:
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError(MALFORMED)
    return match


@lru_cache(maxsize=4096)
def parse(text: str) -> int:
    """Returns the value of a quantity in billionths. Raises ValueError for a malformed one."""
    match = _match(text)
    suffix = match["suffix"] or ""
    unit: Fraction = Fraction(10) ** int(match["exponent"] or 0) * (_BINARY.get(suffix) or _DECIMAL.get(suffix, ONE))
    return math.ceil(Fraction(match["number"]) * unit)


@lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Returns the canonical form of a quantity: no fraction, and the largest suffix of its own family that allows it.

    ``0.5`` is ``500m``, ``1.5Gi`` is ``1536Mi``, ``1000m`` is ``1``. Raises ValueError for a malformed quantity.
    """
    value, match = parse(text), _match(text)
    if value == 0:
        return "0"
    if match["exponent"] is not None:
        power = next(power for power in range(108, -12, -3) if value * 1000**3 % 10 ** (power + 18) == 0)
        number = value * 1000**3 // 10 ** (power + 18)
        return f"{number}e{power}" if power else str(number)
    if match["suffix"] in _BINARY and value % ONE == 0 and abs(value) >= _BINARY["Ki"]:
        fitting = [suffix for suffix, unit in _BINARY.items() if value % unit == 0]
        return f"{value // _BINARY[fitting[-1]]}{fitting[-1]}" if fitting else str(value // ONE)
    suffix = [suffix for suffix, unit in _DECIMAL.items() if value % unit == 0][-1]
    return f"{value // _DECIMAL[suffix]}{suffix}"
