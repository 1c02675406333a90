"""The formats of texts that a real API server judges in custom resources; other formats restrict nothing."""

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

Test = Callable[[str], bool]

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")
_GO_DURATION = re.compile(r"[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_PART_OF_DURATION = re.compile(
    r"[0-9]+\s*(ns|nano.*|us|µs|micro.*|ms|milli.*|s|sec.*|m|min.*|h|hr|hour.*|d|day.*|w|wk|week.*)", re.IGNORECASE
)
_NUMBER_AND_UNIT = re.compile(r"(?<![0-9])[0-9]+\s*[A-Za-zµ]+")
#: A name of one label has a hyphen after its first letter only, as the pattern of a real server says.
_HOSTNAME = re.compile(
    r"[a-z0-9](-?[a-z0-9]{0,62})|([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", re.IGNORECASE | re.ASCII
)
_LETTER = r"[^\s\x00-\x1f\x7f()<>\[\]:;@\\,.\"]"
_ATOM = f"{_LETTER}+"
_QUOTED = r'"([^"\\\x00-\x1f\x7f]|\\[\x20-\x7e])*"'
_ADDRESS = rf"({_ATOM}(\.{_ATOM})*|{_QUOTED})@({_ATOM}(\.{_ATOM})*|\[[^\[\]\\]+\])"
_EMAIL = re.compile(rf"({_ADDRESS}|({_LETTER}|{_QUOTED}|[.\s])*<{_ADDRESS}>)\s*(\([^()\\]*\)\s*)*")
_MAC = re.compile(
    r"([0-9a-f]{2}:){5}(([0-9a-f]{2}:){2}(([0-9a-f]{2}:){12})?)?[0-9a-f]{2}"
    r"|([0-9a-f]{2}-){5}(([0-9a-f]{2}-){2}(([0-9a-f]{2}-){12})?)?[0-9a-f]{2}"
    r"|([0-9a-f]{4}\.){2}([0-9a-f]{4}\.(([0-9a-f]{4}\.){6})?)?[0-9a-f]{4}",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"([^%]|%[0-9A-Fa-f]{2})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*:)?(?P<rest>.*)", re.DOTALL)
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_HOST = re.compile(r"(\[[^\[\]]*\]|([A-Za-z0-9._~!$&'()*+,;=<>\"\x80-\U0010ffff-]|%[89A-Fa-f][0-9A-Fa-f])*)(:[0-9]*)?")
_COLOR = r"\s*(0|[1-9][0-9]?|1[0-9]{2}|2[0-4][0-9]|25[0-5])\s*"


def of(form: Any) -> Test | None:
    """Returns the test of a format by its name in a schema, hyphens or not; None for one that restricts nothing."""
    return _TESTS.get(form.replace("-", "")) if isinstance(form, str) else None


def _matching(pattern: str) -> Test:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _is_date(text: str) -> bool:
    if (found := _DATE.fullmatch(text)) is None:
        return False
    year, month, day = map(int, found.groups())
    try:
        # The year 0 is one, and Python begins with 1; the calendar repeats after 400 years.
        date(year % 400 + 400, month, day)
    except ValueError:
        return False
    return True


def _is_instant(text: str) -> bool:
    return text[10:11] in ("T", "t") and _is_date(text[:10]) and _CLOCK.fullmatch(text, 11) is not None


def _is_duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text):
        return True
    return any(_PART_OF_DURATION.fullmatch(found[0]) for found in _NUMBER_AND_UNIT.finditer(text))


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def _is_network(text: str) -> bool:
    address, _, length = text.partition("/")
    if not (_is_address(address) and re.fullmatch("[0-9]{1,3}", length)):
        return False
    return int(length) <= (128 if ":" in address else 32)


def _is_hostname(text: str) -> bool:
    # Letters and symbols of any script count as letters.
    plain = "".join(
        "a" if not (char.isascii() and char.isalnum()) and unicodedata.category(char)[0] in "LS" else char
        for char in text
    )
    return len(text) <= 255 and _HOSTNAME.fullmatch(plain) is not None and max(map(len, text.split("."))) <= 63


def _is_uri(text: str) -> bool:
    """True for an absolute URI or an absolute path."""
    if text == "*":
        return True
    found = _URI.fullmatch(text)
    if not text or found is None or _CONTROL.search(text):
        return False
    before, _, _ = found["rest"].partition("?")
    if not before.startswith("/"):
        return bool(found["scheme"])
    if not (found["scheme"] and before.startswith("//")):
        return _ESCAPED.fullmatch(before) is not None
    authority, _, path = before[2:].partition("/")
    user, _, host = authority.rpartition("@")
    matches = _USER.fullmatch(user), _HOST.fullmatch(host), *(map(_ESCAPED.fullmatch, (user, path)))
    return all(matches)


def _is_book(text: str, *lengths: int) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if len(digits) not in lengths or re.fullmatch(r"[0-9]{9}[0-9X]|[0-9]{13}", digits) is None:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    if len(values) == 10:
        return sum((10 - at) * value for at, value in enumerate(values)) % 11 == 0
    return sum((3 if at % 2 else 1) * value for at, value in enumerate(values)) % 10 == 0


def _is_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]", "", text)
    doubled = (int(digit) * (2 if at % 2 else 1) for at, digit in enumerate(reversed(digits)))
    return 13 <= len(digits) <= 16 and sum(value // 10 + value % 10 for value in doubled) % 10 == 0


_BASE64 = "[A-Za-z0-9+/]"
_HEX = "[0-9A-Fa-f]"
_TESTS: Mapping[str, Test] = {
    "bsonobjectid": _matching(f"{_HEX}{{24}}"),
    "byte": _matching(f"({_BASE64}{{4}})*({_BASE64}{{2}}==|{_BASE64}{{3}}=|{_BASE64}{{4}})"),
    "cidr": _is_network,
    "creditcard": _is_card,
    "date": _is_date,
    "datetime": _is_instant,
    "duration": _is_duration,
    "email": lambda text: _EMAIL.fullmatch(text.strip()) is not None,
    "hexcolor": _matching(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _is_address(text),
    "ipv6": lambda text: ":" in text and _is_address(text),
    "isbn": lambda text: _is_book(text, 10, 13),
    "isbn10": lambda text: _is_book(text, 10),
    "isbn13": lambda text: _is_book(text, 13),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "rgbcolor": _matching(rf"rgb\({_COLOR},{_COLOR},{_COLOR}\)"),
    "ssn": _matching(r"[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "uri": _is_uri,
    "uuid": _matching(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid3": _matching(f"{_HEX}{{8}}-?{_HEX}{{4}}-?3{_HEX}{{3}}-?{_HEX}{{4}}-?{_HEX}{{12}}"),
    "uuid4": _matching(f"{_HEX}{{8}}-?{_HEX}{{4}}-?4{_HEX}{{3}}-?[89ABab]{_HEX}{{3}}-?{_HEX}{{12}}"),
    "uuid5": _matching(f"{_HEX}{{8}}-?{_HEX}{{4}}-?5{_HEX}{{3}}-?[89ABab]{_HEX}{{3}}-?{_HEX}{{12}}"),
}
