"""Whether everything of a flow that could start does, and what is waited for."""

from collections.abc import Mapping
from itertools import islice

from workers.controllers.volcano.jobflow import phases, starting
from workers.controllers.volcano.jobflow.observed import ObservedFlow
from workers.controllers.volcano.jobflow.starting import StartRound
from workers.controllers.volcano.jobflow.status import FlowReady
from workers.controllers.volcano.jobflow.tracks import Track

#: Reconciles in a row that must have failed before it is worth a condition.
FAILING = 3
#: Entries that a message names at most.
NAMED = 3
#: Reasons of a flow that goes on as it should and says what for.
_WAITS = frozenset({"WaitsForProbe", "EntryGone"})


def of(sight: ObservedFlow, made: StartRound, known: Mapping[str, Track]) -> FlowReady:
    """The Ready condition. made: what becomes of the nodes in this decision. known: how far each is afterwards."""
    if sight.phase in phases.FINAL:
        return FlowReady("True", "Finished", "the flow is over")
    if made.missing:
        named = ", ".join(f"{name} (entry {entry})" for name, entry in sorted(made.missing.items()))
        return FlowReady("False", "MissingTemplate", f"there is no JobTemplate {named}")
    if taken := [node for node in sight.nodes if known[node.id].taken]:
        return FlowReady("False", "NameTaken", f"job {known[taken[0].id].job} exists and belongs to somebody else")
    if sight.snapshot.failures >= FAILING:
        return FlowReady("False", "ReconcileFailing", f"the last attempt failed: {sight.snapshot.last_error}")
    if sight.spec.suspend:
        return FlowReady("False", "Suspended", "nothing new starts while the flow is suspended")
    if waiting := list(islice(starting.unanswered(sight, known), NAMED)):
        return FlowReady("True", "WaitsForProbe", "; ".join(waiting))
    if left := sight.left_over(known):
        running = ", ".join(job["metadata"]["name"] for job in left[:NAMED])
        return FlowReady("True", "EntryGone", f"job {running} still runs, and its entry is no longer there")
    return FlowReady("True", "AsSpecified", "entries start when what they depend on has happened")


def says_why(ready: FlowReady) -> bool:
    """Whether it is worth a word in the flow's state, and an Event."""
    return ready.status == "False" or ready.reason in _WAITS
