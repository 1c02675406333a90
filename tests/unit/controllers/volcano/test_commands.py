"""Commands without a target are reported and deleted; the others are left to their controllers."""

from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from workers.api.kinds import COMMAND, QUEUE, VC_JOB, Object, Ref
from workers.controllers.volcano.commands import CONTROLLER, RECHECK, decide
from workers.decision.plan import NOTHING, ComeBack, Delete, RecordEvent, Together
from workers.decision.snapshot import Snapshot

ON_QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": "q", "uid": "u"}
ON_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}


def command(target: Object | None, **metadata: Any) -> Object:
    made = {"metadata": {"name": "c", "namespace": "team", "uid": "uid-c", **metadata}, "action": "Do"}
    return {**made, "target": target} if target is not None else made


def seen(body: Object | None, *, there: bool) -> Snapshot:
    relatives = dict.fromkeys(CONTROLLER.relatives(body), {"metadata": {}} if there else None) if body else {}
    return Snapshot(Ref(COMMAND, "team", "c"), body, relatives=relatives)


@cases(
    ("queue", ON_QUEUE, Ref(QUEUE, "", "q")),
    ("job", ON_JOB, Ref(VC_JOB, "team", "j")),
    ("another version", {**ON_JOB, "apiVersion": "batch.volcano.sh/v1beta9"}, Ref(VC_JOB, "team", "j")),
)
def test_a_command_with_a_target_is_left_to_its_controller_while_the_target_is_there(
    target: Object, expected: Ref
) -> None:
    body = command(target)
    assert CONTROLLER.relatives(body) == (expected,)
    assert decide(seen(body, there=True), NOW).steps == (ComeBack(NOW + RECHECK),)


@cases(
    ("no such queue", ON_QUEUE, "Do: Queue q does not exist"),
    ("no such job", ON_JOB, "Do: Job team/j does not exist"),
    ("a Job of Kubernetes", {**ON_JOB, "apiVersion": "batch/v1"}, "Do: Job j takes no commands"),
    ("a pod", {**ON_JOB, "kind": "Pod", "apiVersion": "v1"}, "Do: Pod j takes no commands"),
    ("an unknown kind", {**ON_JOB, "kind": "Boat"}, "Do: Boat j takes no commands"),
    ("nobody's name", {**ON_JOB, "name": ""}, "Do: Job takes no commands"),
    ("no target", None, "Do: nothing takes no commands"),
)
def test_a_command_without_a_target_is_reported_and_deleted(target: Object | None, text: str) -> None:
    told, together = decide(seen(command(target), there=False), NOW).steps
    assert isinstance(told, RecordEvent)
    assert (told.type, told.reason) == ("Warning", "CommandDropped")
    assert told.message.startswith(text)
    assert isinstance(together, Together)
    assert together.steps == (Delete(Ref(COMMAND, "team", "c"), "uid-c"),)


@for_each(None, command(ON_QUEUE, deletionTimestamp="2026-03-01T11:00:00Z"))
def test_what_is_gone_or_going_is_left_alone(body: Object | None) -> None:
    assert decide(seen(body, there=False), NOW) == NOTHING
