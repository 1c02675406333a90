"""Formats of names, labels and keys. Each function returns the problems of a text, empty for a valid one.

The rules are RFC 1123's and RFC 1035's as Kubernetes narrows them; the sentences are part of its protocol. Results are
cached, because the same few names recur.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
_NAME_PART = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_LABEL = re.compile(DNS_LABEL)
_SUBDOMAIN = re.compile(DNS_SUBDOMAIN)
_DNS_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(_NAME_PART)
_LABEL_VALUE = re.compile(f"({_NAME_PART})?")
#: Since Kubernetes 1.32; older servers allow the names that shells allow, with dots and hyphens.
_ENV = re.compile("[ -<>-~]+")
_CONFIG_KEY = re.compile("[-._a-zA-Z0-9]+")
_HTTP_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PORT_NAME = re.compile("[-a-z0-9]+")

#: Characters of the longest value of a label.
_LONGEST_VALUE = 63

#: Keys and names of variables recur. Names of objects do not, and each that is kept holds on to memory around it.
_cached = lru_cache(maxsize=512)


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"


def _checked(text: str, limit: int, pattern: re.Pattern[str], malformed: str) -> tuple[str, ...]:
    problems = [] if len(text) <= limit else [_too_long(limit)]
    return tuple(problems if pattern.fullmatch(text) else [*problems, malformed])


@_cached
def dns_label(text: str) -> tuple[str, ...]:
    """Checks an RFC 1123 label: at most 63 characters."""
    if "." in text and _SUBDOMAIN.fullmatch(text):
        return (*((_too_long(63),) if len(text) > 63 else ()), "must not contain dots")
    return _checked(
        text,
        63,
        _LABEL,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        f"'{DNS_LABEL}')",
    )


def unusual(name: str) -> list[str]:
    """Returns the warning about an object's name that is no DNS label although its pods' host names contain it."""
    problems = dns_label(name)
    if not problems:
        return []
    return [
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(problems)}]"
    ]


@_cached
def dns_subdomain(text: str) -> tuple[str, ...]:
    """Checks RFC 1123 labels joined by dots: at most 253 characters."""
    return _checked(
        text,
        253,
        _SUBDOMAIN,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        f"'{DNS_SUBDOMAIN}')",
    )


@_cached
def dns_1035_label(text: str) -> tuple[str, ...]:
    """Checks an RFC 1035 label: starts with a letter, at most 63 characters."""
    return _checked(
        text,
        63,
        _DNS_1035,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for "
        "validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
    )


@_cached
def qualified_name(text: str) -> tuple[str, ...]:
    """Checks a label or annotation key: ``name`` or ``example.com/name``."""
    prefix, slash, name = text.rpartition("/")
    part = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
        f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_PART}')"
    )
    if "/" in prefix:
        return (f"a qualified name {part} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",)
    problems: list[str] = []
    if slash:
        problems = (
            ["prefix part must be non-empty"] if not prefix else [f"prefix part {p}" for p in dns_subdomain(prefix)]
        )
    if not name:
        problems.append("name part must be non-empty")
    elif len(name) > 63:
        problems.append(f"name part {_too_long(63)}")
    if not _QUALIFIED.fullmatch(name):
        problems.append(f"name part {part}")
    return tuple(problems)


def fitting_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Returns those labels whose values are short enough: an API server would refuse an object with the others."""
    return {key: value for key, value in labels.items() if len(value) <= _LONGEST_VALUE}


@_cached
def label_value(text: str) -> tuple[str, ...]:
    """Checks a label's value: may be empty, at most 63 characters."""
    return _checked(
        text,
        _LONGEST_VALUE,
        _LABEL_VALUE,
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
        f"for validation is '({_NAME_PART})?')",
    )


@_cached
def env_name(text: str) -> tuple[str, ...]:
    """Checks the name of an environment variable."""
    if _ENV.fullmatch(text):
        return ()
    return ("a valid environment variable name must consist only of printable ASCII characters other than '='",)


@_cached
def config_key(text: str) -> tuple[str, ...]:
    """Checks a key of a ConfigMap's or a Secret's data."""
    problems: list[str] = [] if len(text) <= 253 else [_too_long(253)]
    if not _CONFIG_KEY.fullmatch(text):
        problems.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    if text in (".", ".."):
        problems.append(f"must not be '{text}'")
    elif text.startswith(".."):
        problems.append("must not start with '..'")
    return tuple(problems)


@_cached
def port_name(text: str) -> tuple[str, ...]:
    """Checks a port's name: at most 15 characters, a letter in it, no hyphen at an end or twice in a row."""
    problems: list[str] = [] if len(text) <= 15 else [_too_long(15)]
    if not _PORT_NAME.fullmatch(text):
        problems.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        problems.append("must contain at least one letter or number (a-z, 0-9)")
    if "--" in text:
        problems.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        problems.append("must not begin or end with a hyphen")
    return tuple(problems)


@_cached
def domain_path(text: str) -> tuple[str, ...]:
    """Checks ``example.com/path``: a subdomain, a slash and a path."""
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        return ('must be a domain-prefixed path (such as "acme.io/foo")',)
    problems = list(dns_subdomain(domain))
    if not _HTTP_PATH.fullmatch(path):
        problems.append("Invalid path")
    return tuple(problems)
