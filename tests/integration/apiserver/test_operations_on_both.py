"""Random operations on the embedded and the real server: the same answers, causes and objects."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings

from tests.integration.apiserver.client import DEFINITIONS, Answer, Api, definition, until
from tests.integration.apiserver.on_both import (
    KINDS,
    SHRUB,
    SUBRESOURCES,
    OnBoth,
    Operation,
    Side,
    comparable,
    operations,
    sequence_name,
)
from tests.support.embedded import Embedded

pytestmark = pytest.mark.real_apiserver

EXAMPLES = settings.default.max_examples if settings.default else 100
#: Only HYPOTHESIS_PROFILE=hunt draws other sequences each time: a server's oddity is no failure of the next change.
HUNTING = EXAMPLES > 100


def _rounded(value: Any) -> Any:
    """The value with floats in place of numbers that need more than 53 bits."""
    if isinstance(value, dict):
        return {key: _rounded(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(each) for each in value]
    return float(value) if isinstance(value, int) and abs(value) >= 2**53 else value


#: Differences that are meant, with their reasons: true for an operation and two answers that it explains.
ALLOWED: dict[str, Callable[[Operation, Answer, Answer], bool]] = {
    "1.20 calls an unreadable version its own fault": lambda operation, ours, theirs: (
        (operation.verb, ours.code, theirs.code) == ("list", 400, 500)
    ),
    "Go reads bytes from a list of numbers, too": lambda operation, ours, theirs: (
        ours.code == 400 and b"[]uint8" in ours.text and theirs.code < 300
    ),
    "1.20 writes a Job's labels with its status": lambda operation, ours, theirs: (
        operation.verb == "status" and ours.code == theirs.code == 200 and ours.body["kind"] == "Job"
    ),
    "a value of a wrong type is not compared with the enumeration, too": lambda operation, ours, theirs: (
        ours.code == theirs.code == 422
        and set(comparable(ours)[-1]) < set(comparable(theirs)[-1])
        and {"FieldValueNotSupported"}
        == {reason for reason, _ in set(comparable(theirs)[-1]) - set(comparable(ours)[-1])}
        and b"must be of type" in ours.text
    ),
    "a Deployment without a selector is not told that its template lacks the labels": lambda operation, ours, theirs: (
        ours.code == theirs.code == 422
        and set(comparable(theirs)[-1]) - set(comparable(ours)[-1])
        == {("FieldValueInvalid", "spec.template.metadata.labels")}
        and ("FieldValueRequired", "spec.selector") in comparable(ours)[-1]
    ),
    "Go makes a float of a whole number beyond 64 bits, and we keep it": lambda operation, ours, theirs: (
        ours.code == theirs.code < 300 and _rounded(comparable(ours)) == _rounded(comparable(theirs))
    ),
}


@pytest.fixture(scope="module")
def both(embedded: Embedded, real: Path) -> Iterator[tuple[Api, Api]]:
    """The embedded and the real server, with a kind of the test's own."""
    servers = Api(embedded.kubeconfig), Api(real)
    for api in servers:
        api.create(DEFINITIONS, definition("shrubs", SHRUB, subresources=SUBRESOURCES))
        until(lambda api=api: api.get(KINDS[-1].path("default")).code == 200, "the definition is served")
    yield servers
    for api in servers:
        api("DELETE", f"{DEFINITIONS}/shrubs.test.penstock.dev")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_both_servers_answer_the_same(kind: OnBoth, both: tuple[Api, Api]) -> None:
    def compared(sequence: list[Operation]) -> None:
        name = sequence_name()
        ours, theirs = (Side(api, kind, name) for api in both)
        for operation in sequence:
            mine, real = ours.carry_out(operation), theirs.carry_out(operation)
            if comparable(mine) != comparable(real):
                assert any(explains(operation, mine, real) for explains in ALLOWED.values()), (
                    operation,
                    comparable(mine),
                    comparable(real),
                    mine.text[:600],
                    real.text[:600],
                )
                # The objects may differ from here on.
                return

    phases = [Phase.generate, Phase.shrink] if HUNTING else [Phase.generate]
    drawn = settings(max_examples=EXAMPLES // 4, phases=phases)(given(operations(kind))(compared))
    (drawn if HUNTING else seed(11)(drawn))()
