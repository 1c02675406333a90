"""Which class measures which trigger type."""

from importlib.metadata import EntryPoint, EntryPoints
from typing import ClassVar

import pytest

from penstock.scaler import Scaler
from scalers import scaler_registry
from scalers.scaler_registry import REGISTRY, ScalerRegistry
from scalers.sources.redis.lists import RedisLists
from tests.support.tables import cases
from workers.errors import UserError


class One(Scaler):
    """A scaler of a test."""

    metric: ClassVar[str] = "one"
    target: ClassVar[float] = 1.0


class Two(One):
    """Another."""


def test_the_lists_of_redis_are_found_by_their_entry_point() -> None:
    assert REGISTRY.find("redis") is RedisLists
    assert "redis" in REGISTRY.known()


def test_a_registered_class_is_found_and_may_be_registered_twice() -> None:
    own = ScalerRegistry()
    for _ in range(2):
        assert own.register("one")(One) is One
    assert own.find("one") is One


def test_registering_a_different_class_twice_is_an_error() -> None:
    own = ScalerRegistry()
    own.register("one")(One)
    with pytest.raises(ValueError, match="one is registered twice: by One and by Two"):
        own.register("one")(Two)


@cases(
    ("KEDA has it", "aws-sqs-queue", "aws-sqs-queue is not supported yet; supported are .*redis"),
    ("nobody has it", "redsi", "there is no trigger type redsi; known are .*redis"),
)
def test_an_unknown_type_lists_what_there_is(type: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        ScalerRegistry().find(type)


def test_an_entry_point_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = EntryPoint("broken", "no.such:Thing", scaler_registry.GROUP)
    monkeypatch.setattr(scaler_registry, "entry_points", lambda **wanted: EntryPoints([broken]).select(**wanted))
    with pytest.raises(UserError, match=r"type broken \(no.such:Thing\) cannot be loaded: No module named 'no'"):
        ScalerRegistry().find("broken")


def test_installed_packages_are_read_again_for_a_type_alone_that_none_of_them_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed = [EntryPoint("redis", f"{__name__}:One", scaler_registry.GROUP)]
    reads = []

    def read(**wanted: str) -> EntryPoints:
        reads.append(wanted)
        return EntryPoints(installed).select(**wanted)

    monkeypatch.setattr(scaler_registry, "entry_points", read)
    own = ScalerRegistry()
    assert [own.unknown("redis") for _ in range(3)] == [None] * 3
    assert own.find("redis").metric == "one"
    assert len(reads) == 1
    assert own.unknown("theirs") == "there is no trigger type theirs"
    installed.append(EntryPoint("theirs", f"{__name__}:Two", scaler_registry.GROUP))
    assert own.unknown("theirs") is None
    assert own.find("theirs").__name__ == "Two"
    assert len(reads) == 3
