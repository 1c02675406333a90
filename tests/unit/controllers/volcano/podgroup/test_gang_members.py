"""The pods of a gang as a scheduler counts them."""

from tests.support.tables import cases
from tests.unit.controllers.factories import at
from tests.unit.controllers.volcano.podgroup.gangs import pod
from workers.controllers.volcano.podgroup.members import member


@cases(
    ("it waits", "Pending", "", False, "waiting", False, False),
    ("it has a node", "Pending", "one", False, "bound", True, True),
    ("it runs", "Running", "one", False, "running", True, True),
    ("it succeeded", "Succeeded", "one", False, "succeeded", True, False),
    ("it failed", "Failed", "one", False, "failed", True, False),
    ("it waits and goes", "Pending", "", True, "releasing", False, False),
    ("it runs and goes", "Running", "one", True, "releasing", True, True),
    ("it succeeded and goes: it holds nothing any more", "Succeeded", "one", True, "succeeded", True, False),
    ("it failed and goes: it holds nothing any more", "Failed", "one", True, "failed", True, False),
)
def test_a_pod_counts_by_its_phase_its_node_and_its_deletion(
    phase: str, node: str, going: bool, state: str, placed: bool, occupies: bool
) -> None:
    body = pod("a", "gang", node=node, phase=phase)
    if going:
        body["metadata"]["deletionTimestamp"] = at(0)
    found = member(body)
    assert (found.state, found.placed, found.occupies) == (state, placed, occupies)
