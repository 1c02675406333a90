"""Requested runs: an annotation ``penstock.dev/run.<id>`` starts exactly one Job.

Its value is empty, or JSON with variables for every container: ``{"env": {"NAME": "value"}}``.
"""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from workers.api.kinds import Object

PREFIX = "penstock.dev/run."
#: Longest id that leaves room in a Job's name.
LONGEST = 20

#: A generated id has no vowels, so that it spells no word, and begins with a letter, so that it is no slot's number.
_LETTERS = "bcdfghjklmnpqrstvwxz"
_ALPHABET = _LETTERS + "2456789"
_ID = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ATTEMPT = re.compile(r".+-r[0-9]+")
_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A requested run, and the variables of its containers."""

    id: str
    env: Mapping[str, str]

    @property
    def annotation(self) -> str:
        """The annotation that requests it."""
        return PREFIX + self.id

    @property
    def value(self) -> str:
        """The annotation's value."""
        return json.dumps({"env": dict(self.env)}) if self.env else ""


@dataclass(frozen=True, slots=True)
class RefusedRun:
    """A malformed request, and the reason."""

    annotation: str
    why: str


def new_id() -> str:
    """Returns a short random id, which the sender of a request chooses: it makes the request idempotent."""
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_ALPHABET) for _ in range(7))


def is_variable(name: str) -> bool:
    """Returns True for the name of an environment variable, by Kubernetes' rule."""
    return _VARIABLE.fullmatch(name) is not None


def read(body: Object, *, retries: bool) -> tuple[tuple[RunRequest, ...], tuple[RefusedRun, ...]]:
    """Returns the requests and the malformed ones in an object's annotations, in the order of their ids.

    retries: runs of the object may have several attempts.
    """
    requests: list[RunRequest] = []
    refused: list[RefusedRun] = []
    for key, value in sorted((body["metadata"].get("annotations") or {}).items()):
        if not key.startswith(PREFIX):
            continue
        try:
            requests.append(RunRequest(_id(key.removeprefix(PREFIX), retries=retries), _env(value)))
        except ValueError as error:
            refused.append(RefusedRun(key, str(error)))
    return tuple(requests), tuple(refused)


def _id(text: str, *, retries: bool) -> str:
    if len(text) > LONGEST or not _ID.fullmatch(text):
        raise ValueError(f"the id must be a DNS label of at most {LONGEST} characters")
    if text.isdecimal():
        # It could be the name of a slot's Job.
        raise ValueError("the id must not be a number")
    if retries and _ATTEMPT.fullmatch(text):
        # It could be the name of another run's attempt.
        raise ValueError("the id must not end in -r<number>")
    return text


def _env(value: str) -> Mapping[str, str]:
    if not value.strip():
        return {}
    try:
        # It refuses half of a surrogate pair, which no Job can be written with.
        wanted = orjson.loads(value)
    except ValueError:
        raise ValueError("the value must be empty or JSON") from None
    if not isinstance(wanted, dict) or wanted.keys() - {"env"}:
        raise ValueError('the value must be an object with nothing but "env"')
    env = wanted.get("env") or {}
    if not isinstance(env, dict):
        raise ValueError("env must be an object of names and values")
    for name, each in env.items():
        if not is_variable(name):
            raise ValueError(f"env: {name!r} is no name of a variable")
        if not isinstance(each, str):
            raise ValueError(f"env: the value of {name} must be a string")
    return env
