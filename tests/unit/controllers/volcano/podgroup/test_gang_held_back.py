"""GangDecision of ordinary pods, which are there before they may start: all of them are waited for."""

import pytest

from tests.unit.controllers.volcano.podgroup.gangs import group, names, node, outcome, pod, queue, reasons


@pytest.mark.parametrize(
    ("gates", "admitted"),
    [
        pytest.param([], True, id="none is there: they are made once the gang may start"),
        pytest.param([True], False, id="one of three is held back"),
        pytest.param([True, True], False, id="two of three are"),
        pytest.param([True, True, True], True, id="all are there"),
        pytest.param([False], True, id="one was made by a Job that makes the others"),
        pytest.param([False, True], False, id="one was let go before, and one waits"),
    ],
)
def test_a_gang_whose_pods_are_held_back_starts_when_all_are_there(gates: list[bool], admitted: bool) -> None:
    pods = [pod(f"gang-{index}", gated=gated) for index, gated in enumerate(gates)]
    found = outcome(queues=[queue("root"), queue()], groups=[group(least=3)], pods=pods, nodes=[node()])
    assert names(found) == (["gang"] if admitted else [])
    assert reasons(found) == ({} if admitted else {"gang": "NotEnoughTasks"})
