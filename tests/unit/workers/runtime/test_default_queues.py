"""The queues that must always be there are made where they are missing, whoever else makes them."""

import asyncio

import pytest

from tests.support.conditions import eventually
from tests.support.tables import cases
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import QUEUE, Ref
from workers.errors import AlreadyExists, NotFound
from workers.runtime import default_queues

ROOT, DEFAULT = Ref(QUEUE, "", "root"), Ref(QUEUE, "", "default")


@cases(
    ("a new cluster", (), ["root", "default"]),
    ("one is there", ("root",), ["default"]),
    ("both are", ("root", "default"), []),
)
async def test_what_is_missing_is_made_and_what_is_there_is_left(there: tuple[str, ...], made: list[str]) -> None:
    cluster = MemoryCluster()
    for name in there:
        cluster.add(QUEUE, {"metadata": {"name": name}, "spec": {"weight": 7}})
    assert await default_queues.establish(cluster) == made  # type: ignore[arg-type]
    assert cluster.log == [("create", name) for name in made]
    weights = {ref.name: body["spec"]["weight"] for ref, body in cluster.objects.items()}
    assert weights == {"root": 1, "default": 1} | dict.fromkeys(there, 7)


async def test_two_processes_may_look_at_once() -> None:
    cluster = MemoryCluster()
    cluster.refuse_with(AlreadyExists("the other one was quicker", status=409))
    assert await default_queues.establish(cluster) == []  # type: ignore[arg-type]


async def test_a_definition_that_comes_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default_queues, "RETRY", 0.001)
    cluster = MemoryCluster()
    answers = iter([NotFound("no such resource", status=404)] * 2)
    cluster.refuse = lambda _verb, _ref: next(answers, None)
    tried = asyncio.Event()
    keeping = asyncio.create_task(default_queues.keep(cluster, tried))  # type: ignore[arg-type]
    try:
        await asyncio.wait_for(tried.wait(), 10)
        assert not cluster.objects, "whoever may not make them does not wait for them for ever"
        await eventually(lambda: set(cluster.objects) == {ROOT, DEFAULT})
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
