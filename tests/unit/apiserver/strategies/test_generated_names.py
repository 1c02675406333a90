"""Generated names: their form, and the refusal when every one of them is taken."""

import re
from types import SimpleNamespace
from typing import Any, cast

from deploy.local.apiserver import api_errors
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.handlers import write
from tests.support.tables import cases, for_each
from workers.api.kinds import JOB

TARGET = cast("RequestTarget", SimpleNamespace(resource=SimpleNamespace(storage="jobs.batch"), namespace="default"))


def named(meta: dict[str, Any], taken: int) -> tuple[bool, list[str]]:
    """Returns if a name was generated, and the keys that were looked up; the first `taken` of them exist."""
    asked: list[str] = []

    def latest(_resource: str, key: str) -> object | None:
        asked.append(key)
        return object() if len(asked) <= taken else None

    ctx = cast("Context", SimpleNamespace(store=SimpleNamespace(latest=latest)))
    return write._name(ctx, TARGET, meta), asked


@cases(("short", "crunch-"), ("just fits", "a" * 58), ("too long", "a" * 100))
def test_a_name_begins_as_asked_and_ends_in_five_letters(prefix: str) -> None:
    meta = {"generateName": prefix}
    generated, asked = named(meta, 0)
    assert (generated, asked) == (True, [f"default/{meta['name']}"])
    assert re.fullmatch(f"{prefix[:58]}[bcdfghjklmnpqrstvwxz2456789]{{5}}", meta["name"])


def test_a_name_that_is_given_stays() -> None:
    meta = {"generateName": "crunch-", "name": "mine"}
    assert (named(meta, 0), meta["name"]) == ((False, []), "mine")


@for_each((1, 2), (7, 8), (100, 8))
def test_a_name_that_is_taken_is_followed_by_another_a_few_times(taken: int, tried: int) -> None:
    generated, asked = named({"generateName": "crunch-"}, taken)
    assert (generated, len(asked), len(set(asked))) == (True, tried, tried)


def test_a_failed_generation_of_a_name_asks_the_client_to_retry() -> None:
    error = api_errors.already_exists(JOB, "crunch-x", generated=True)
    assert (error.code, error.reason, error.headers) == (409, "AlreadyExists", {"Retry-After": "1"})
    assert error.message.endswith("the server was not able to generate a unique name for the object")
