"""What a model refuses is said in the words of manifests, whatever is wrong with an object of any kind."""

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from penstock import _wording
from tests.support.paths import ROOT
from tests.support.tables import cases
from workers.api.keda import scaledjob, scaledobject, triggerauthentication
from workers.api.kinds import TRIGGER_AUTHENTICATION, Object
from workers.api.model import Problems
from workers.api.penstock_dev import scalepolicy, scheduledjob
from workers.api.volcano import cronjob, jobflow, podtemplate, queue
from workers.api.volcano import job as vcjob
from workers.errors import UserError

PYTHON = re.compile(
    r"\b([Ii]nput should|Field required|Extra inputs|Value error|tuple|dict|dictionary|mapping|int|str|bool|float|"
    r"(?<!')None|instance|iterable|attribute|pydantic|valid (string|integer|list|number|boolean))\b|function-|\[type="
)


def test_a_type_of_error_without_words_tells_none_of_pydantics() -> None:
    assert _wording.message({"type": "decimal_type", "msg": "Input should be a decimal"}) == "is malformed"
    own = PydanticCustomError("problem", "{text}", {"text": "must be even"})
    assert _wording.message({"type": own.type, "msg": own.message()}) == "must be even"


class Sample(BaseModel, strict=True):
    count: int | str = 0
    mode: Literal["a", "b"] = "a"
    names: dict[str, str] = {}


@cases(
    ("alternatives are one problem", {"count": []}, [(("count",), "must be a whole number or a string")]),
    ("a choice", {"mode": "c"}, [(("mode",), "must be 'a' or 'b'")]),
    ("a key named as a type", {"names": {"int": 1}}, [(("names", "int"), "must be a string")]),
    (
        "each its own",
        {"names": [], "mode": 1},
        [(("mode",), "must be 'a' or 'b'"), (("names",), "must be an object with fields")],
    ),
)
def test_problems(given: Object, found: list[Any]) -> None:
    with pytest.raises(ValidationError) as refused:
        Sample.model_validate(given)
    assert [(each.path, each.message) for each in _wording.findings(refused.value)] == found


PARSERS: dict[str, Callable[[Object], Any]] = {
    "ScaledJob": scaledjob.parse,
    "ScaledObject": scaledobject.parse,
    "TriggerAuthentication": partial(triggerauthentication.parse, TRIGGER_AUTHENTICATION),
    "Queue": queue.parse,
    "ScheduledJob": scheduledjob.parse,
    "CronJob": scheduledjob.parse,
    "ScalePolicy": scalepolicy.parse,
    "Job.batch.volcano.sh": vcjob.parse,
    "CronJob.batch.volcano.sh": cronjob.parse,
    "JobFlow": jobflow.parse,
    "template": podtemplate.readable,
}
#: One value of each type of JSON; most are wrong wherever they stand.
VALUES: tuple[Any, ...] = (None, True, -7, 1.5, "\u0000?", [], ["?"], {}, {"?": 1})


def examples() -> Iterator[tuple[str, Object]]:
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        for body in yaml.safe_load_all(path.read_text()):
            kind, group = body["kind"], body["apiVersion"].rpartition("/")[0]
            name = f"{kind}.{group}" if f"{kind}.{group}" in PARSERS else kind
            if name in PARSERS:
                yield name, body
            for task in body.get("spec", {}).get("tasks", ()):
                yield "template", task["template"]


def places(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all values below."""
    for key, below in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(below, *path, key)


def broken(body: Object) -> Iterator[Object]:
    """The object with one value replaced by each of VALUES, or left out."""
    for path in places(body):
        if "apiVersion" in body and path[0] != "spec":
            continue  # an API server vouches for the rest
        for value in (*VALUES, ...):
            spoilt = copy.deepcopy(body)
            place = spoilt
            for part in path[:-1]:
                place = place[part]
            if value is ...:
                del place[path[-1]]
            else:
                place[path[-1]] = value
            yield spoilt


def test_no_broken_object_of_any_kind_is_refused_in_words_of_python() -> None:
    told, seen = set(), set()
    for name, body in examples():
        for spoilt in broken(body):
            seen.add(name)
            try:
                PARSERS[name](spoilt)
            except (Problems, UserError, ValueError) as error:
                told.add(str(error))
    assert {text for text in told if PYTHON.search(text)} == set()
    assert len(told) > 500
    assert seen == PARSERS.keys(), json.dumps(sorted(seen))
