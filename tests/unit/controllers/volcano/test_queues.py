"""Queues: every cell of the table of states, Commands, counters, and the queues above and below."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW
from workers.api.kinds import COMMAND, POD_GROUP, QUEUE, Kind, Object, Ref, ref_of
from workers.api.merge_patch import diff
from workers.controllers.volcano.queue import decide
from workers.controllers.volcano.queue.decide import ROOT, controller
from workers.controllers.volcano.queue.states import CLOSED_BY_PARENT, TABLE, Action, QueueState, state_of
from workers.decision.plan import NOTHING, Delete, MarkObject, Patch, PatchStatus, Plan, RecordEvent, Together
from workers.decision.snapshot import CachedObject, Snapshot


def entries(kind: Kind, bodies: list[Object]) -> tuple[CachedObject, ...]:
    return tuple(CachedObject(ref_of(kind, body), body, 1) for body in bodies)


def queue(
    name: str = "q",
    state: str | None = None,
    *,
    annotated: str | None = None,
    status: Object | None = None,
    **spec: Any,
) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{name}", "generation": 1, "resourceVersion": "7"}
    if annotated is not None:
        metadata["annotations"] = {CLOSED_BY_PARENT: annotated}
    told = {} if state is None else {"state": state}
    return {"metadata": metadata, "spec": {"weight": 1, "parent": "root", **spec}, "status": {**told, **(status or {})}}


def groups(*phases: str) -> list[Object]:
    return [
        {"metadata": {"name": f"g{n}", "namespace": "default", "uid": f"g{n}"}, "status": {"phase": phase}}
        for n, phase in enumerate(phases)
    ]


def command(name: str, action: str | None, *, created: str = "2026-03-01T11:59:00Z", uid: str = "uid-q") -> Object:
    target = {"apiVersion": QUEUE.api_version, "kind": "Queue", "name": "q", "uid": uid}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": created,
        "resourceVersion": "5",
    }
    return {"metadata": metadata, "target": target, **({"action": action} if action is not None else {})}


def seen(
    body: Object,
    *,
    has: list[Object] | None = None,
    commands: list[Object] | None = None,
    below: list[Object] | None = None,
    above: Object | None = None,
) -> Snapshot:
    referrers = {
        POD_GROUP.id: entries(POD_GROUP, has or []),
        COMMAND.id: entries(COMMAND, commands or []),
        QUEUE.id: entries(QUEUE, below or []),
    }
    parent = (body["spec"] or {}).get("parent")
    relatives = {Ref(QUEUE, "", parent): above} if parent else {}
    return Snapshot(ref_of(QUEUE, body), body, referrers=referrers, relatives=relatives)


def decided(body: Object, **more: Any) -> Plan:
    more.setdefault("above", queue("root", "Open"))
    return decide(seen(body, **more), NOW)


def status_of(plan: Plan) -> Object:
    (status,) = (step.status for step in plan.steps if isinstance(step, PatchStatus))
    return dict(status)


def told(plan: Plan) -> list[tuple[str, str]]:
    return [(step.type, step.reason) for step in plan.steps if isinstance(step, RecordEvent)]


def marked(plan: Plan) -> list[str]:
    return [step.ref.name for step in plan.steps if isinstance(step, MarkObject)]


def consumed(plan: Plan) -> list[str]:
    return [
        each.ref.name
        for step in plan.steps
        if isinstance(step, Together)
        for each in step.steps
        if isinstance(each, Delete)
    ]


def test_who_is_read_beside_a_queue() -> None:
    found = controller()
    assert (found.kind, found.referrers) == (QUEUE, (POD_GROUP, COMMAND, QUEUE))
    assert found.relatives(queue("q", parent="team")) == (Ref(QUEUE, "", "team"),)
    assert found.relatives(queue("root", parent=None)) == ()


# The table, cell by cell: (state before, action) -> (state without PodGroups, with one, Event).
CELLS = [
    ("", "SyncQueue", "Open", "Open", None),
    ("", "OpenQueue", "Open", "Open", None),
    ("", "CloseQueue", "Closed", "Closing", "CloseQueue"),
    ("Open", "SyncQueue", "Open", "Open", None),
    ("Open", "OpenQueue", "Open", "Open", None),
    ("Open", "CloseQueue", "Closed", "Closing", "CloseQueue"),
    ("Closed", "SyncQueue", "Closed", "Closing", None),
    ("Closed", "OpenQueue", "Open", "Open", "OpenQueue"),
    ("Closed", "CloseQueue", "Closed", "Closing", None),
    ("Closing", "SyncQueue", "Closed", "Closing", None),
    ("Closing", "OpenQueue", "Open", "Open", "OpenQueue"),
    ("Closing", "CloseQueue", "Closed", "Closing", None),
    ("Unknown", "SyncQueue", "Unknown", "Unknown", None),
    ("Unknown", "OpenQueue", "Open", "Open", "OpenQueue"),
    ("Unknown", "CloseQueue", "Closed", "Closing", "CloseQueue"),
    ("Ajar", "SyncQueue", "Unknown", "Unknown", None),
    ("Ajar", "OpenQueue", "Open", "Open", "OpenQueue"),
    ("Ajar", "CloseQueue", "Closed", "Closing", "CloseQueue"),
]


def test_the_table_has_every_cell_and_so_has_its_test() -> None:
    assert set(TABLE) == {(state, action) for state in QueueState for action in Action}
    assert {(before, action) for before, action, *_ in CELLS} == {
        (before, action) for before in (*QueueState, "Ajar") for action in Action
    }


@pytest.mark.parametrize(("before", "action", "empty", "busy", "event"), CELLS)
@cases(("without PodGroups", ()), ("with one that is completed", ("Completed",)))
def test_what_a_command_makes_of_a_state(
    phases: tuple[str, ...], before: str, action: str, empty: str, busy: str, event: str | None
) -> None:
    plan = decided(queue(state=before), has=groups(*phases), commands=[command("c", action)])
    assert status_of(plan)["state"] == (busy if phases else empty)
    assert told(plan) == [("Normal", "CommandIssued"), *([("Normal", event)] if event else [])]
    assert consumed(plan) == ["c"]


@for_each(
    (None, (), "Open"),
    ("", ("Running",), "Open"),
    ("Open", ("Running",), "Open"),
    ("Closing", ("Running",), "Closing"),
    ("Closing", (), "Closed"),
    ("Closed", ("Pending",), "Closing"),
    ("Unknown", (), "Unknown"),
)
def test_without_a_command_a_queue_is_looked_at(before: str | None, phases: tuple[str, ...], after: str) -> None:
    assert status_of(decided(queue(state=before, status={"old": 1}), has=groups(*phases)))["state"] == after


def test_all_five_phases_are_counted_and_what_others_wrote_stays() -> None:
    others = {"reservation": {"nodes": ["n"]}}
    phases = ("Pending", "Pending", "Inqueue", "Running", "Running", "Running", "Unknown", "Completed", "")
    status = {**others, "allocated": {"cpu": "2"}}
    assert status_of(decided(queue(state="Open", status=status), has=groups(*phases))) == {
        "state": "Open",
        "pending": 2,
        "inqueue": 1,
        "running": 3,
        "unknown": 1,
        "completed": 1,
        "observedGeneration": 1,
        "allocated": {},
        **others,
    }


def test_the_resources_of_groups_are_in_their_queues_status() -> None:
    each = [{"cpu": "1500m", "pods": "2"}, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "odd"}]
    taking = groups("Running", "Running", "Pending")
    for body, allocated in zip(taking, each, strict=True):
        body["status"]["allocated"] = allocated
    assert status_of(decided(queue(), has=taking))["allocated"] == {"cpu": "2", "memory": "1Gi", "pods": "2"}


def taking(name: str, levels: int | None = None, **amounts: str) -> Object:
    """A queue below, and what it says its pods take."""
    return queue(name, "Open", status={"allocated": amounts, **({"levels": levels} if levels else {})}, parent="q")


@cases(
    ("none below", [], {"cpu": "1"}, None),
    ("two", [taking("a", cpu="2"), taking("b", cpu="500m", pods="3")], {"cpu": "3500m", "pods": "3"}, 2),
    ("with others below them", [taking("a", 2, cpu="2"), taking("b", 4)], {"cpu": "3"}, 5),
    ("below without end: a circle", [taking("a", 16, cpu="2")], {"cpu": "1"}, 16),
    ("one that has no status yet", [queue("a")], {"cpu": "1"}, 2),
)
def test_a_queue_counts_what_those_below_it_take(below: list[Object], allocated: Object, levels: int | None) -> None:
    own = groups("Running")
    own[0]["status"]["allocated"] = {"cpu": "1"}
    plan = decided(queue(), has=own, below=below)
    status = status_of(plan)
    assert (status["allocated"], status.get("levels")) == (allocated, levels)
    assert MarkObject(ROOT) in plan.steps
    again = decided(queue(status=status), has=own, below=below)
    assert again == NOTHING


def test_a_queue_without_others_below_it_any_more_has_no_levels() -> None:
    assert "levels" not in status_of(decided(queue(state="Open", status={"levels": 3})))


def test_sums_of_queues_in_a_circle_come_to_an_end() -> None:
    circle = {name: queue(name, "Open", parent=above) for name, above in ("ab", "bc", "ca")}
    own = groups("Running")
    own[0]["status"]["allocated"] = {"cpu": "1"}
    for _ in range(40):
        news = False
        for name, body in circle.items():
            below = [each for each in circle.values() if each["spec"]["parent"] == name]
            has = own if name == "a" else []
            plan = decide(seen(body, has=has, below=below, above=circle[body["spec"]["parent"]]), NOW)
            for step in plan.steps:
                if isinstance(step, PatchStatus):
                    news |= step.status != body["status"]
                    circle[name] = body = {**body, "status": step.status}
    assert not news
    assert {name: body["status"]["allocated"] for name, body in circle.items()} == {"a": {"cpu": "1"}, "b": {}, "c": {}}


def test_the_root_queue_counts_what_all_take() -> None:
    everyone = groups("Running", "Running")
    for body in everyone:
        body["status"]["allocated"] = {"cpu": "1"}
    root = {**queue("root", "Open"), "spec": {"weight": 1}}
    snapshot = seen(root)
    whole = Snapshot(
        snapshot.ref, root, referrers=snapshot.referrers, cluster_wide={POD_GROUP.id: entries(POD_GROUP, everyone)}
    )
    assert status_of(decide(whole, NOW))["allocated"] == {"cpu": "2"}


def after(body: Object, plan: Plan, **more: Any) -> Object:
    """The queue as the plan leaves it."""
    result = {**body, "metadata": dict(body["metadata"])}
    for step in plan.steps:
        if isinstance(step, PatchStatus):
            result["status"] = step.status
        elif isinstance(step, Patch):
            annotations = {
                **body["metadata"].get("annotations", {}),
                **step.body.get("metadata", {}).get("annotations", {}),
            }
            if annotations:
                result["metadata"]["annotations"] = annotations
            result["spec"] = {**result["spec"], **step.body.get("spec", {})}
    return result


def test_commands_take_effect_in_the_order_in_which_they_were_made() -> None:
    first, second = command("z", "CloseQueue"), command("a", "OpenQueue", created="2026-03-01T11:59:01Z")
    plan = decided(queue(state="Open"), commands=[second, first])
    assert status_of(plan)["state"] == "Open"
    assert [reason for _, reason in told(plan)] == ["CommandIssued", "CloseQueue", "CommandIssued", "OpenQueue"]
    assert status_of(plan)["handled"] == ["uid-z", "uid-a"]
    assert sorted(consumed(plan)) == ["a", "z"]


def test_commands_of_one_second_are_ordered_by_version() -> None:
    first, second = command("z", "CloseQueue"), command("a", "OpenQueue")
    first["metadata"]["resourceVersion"], second["metadata"]["resourceVersion"] = "9", "10"
    assert status_of(decided(queue(state="Open"), commands=[second, first]))["handled"] == ["uid-z", "uid-a"]


def test_an_effect_is_written_before_its_command_is_gone_and_never_again() -> None:
    body, asked = queue(state="Open"), command("c", "CloseQueue")
    plan = decided(body, commands=[asked])
    kinds = [type(step) for step in plan.steps]
    assert kinds.index(PatchStatus) < kinds.index(Together)
    # The worker dies before the Command is deleted, and somebody opens the queue by hand.
    left = after(body, plan)
    left["status"] = {**left["status"], "state": "Open"}
    again = decided(left, commands=[asked])
    assert told(again) == []
    assert status_of(again)["state"] == "Open"
    assert consumed(again) == ["c"]


def test_what_was_handled_is_remembered_only_as_long_as_it_matters() -> None:
    body = queue(state="Open", status={"handled": ["uid-old", "uid-c"]})
    assert status_of(decided(body, has=groups("Running")))["handled"] == ["uid-old", "uid-c"]
    plan = decided(body, commands=[command("c", "CloseQueue"), command("d", "SyncQueue")])
    assert status_of(plan)["handled"] == ["uid-c", "uid-d"]
    assert status_of(plan)["state"] == "Open"


@cases(
    ("unknown", command("c", "EatQueue"), "EatQueue is none of SyncQueue, OpenQueue, CloseQueue"),
    ("of a Job", command("c", "AbortJob"), "AbortJob is none of"),
    ("no action", command("c", None), "no action is none of"),
    ("for a predecessor", command("c", "CloseQueue", uid="uid-of-another"), "for another Queue"),
)
def test_an_invalid_command_is_reported_and_deleted(asked: Object, text: str) -> None:
    plan = decided(queue(state="Open"), commands=[asked])
    (record,) = (step for step in plan.steps if isinstance(step, RecordEvent))
    assert (record.type, record.reason) == ("Warning", "CommandIgnored")
    assert text in record.message
    assert (status_of(plan)["state"], consumed(plan)) == ("Open", ["c"])


def test_the_same_wish_twice_does_nothing_twice() -> None:
    plan = decided(queue(state="Open"), commands=[command("a", "CloseQueue"), command("b", "CloseQueue")])
    assert [reason for _, reason in told(plan)] == ["CommandIssued", "CloseQueue", "CommandIssued"]
    assert consumed(plan) == ["a", "b"]


def test_the_root_queue_is_never_closed() -> None:
    root = queue("root", "Open", parent=None)
    plan = decide(seen(root, commands=[command("c", "CloseQueue", uid="uid-root")]), NOW)
    assert status_of(plan)["state"] == "Open"
    assert told(plan) == [("Normal", "CommandIssued"), ("Warning", "CloseQueue")]
    assert consumed(plan) == ["c"]


# Below another queue: own state, annotation, state above -> own state, annotation, Event.
BELOW = [
    pytest.param("Open", None, "Open", "Open", None, None, id="both are open"),
    pytest.param("", None, "Closed", "Closed", "true", "CloseQueue", id="new below a closed one"),
    pytest.param("Open", None, "Closed", "Closed", "true", "CloseQueue", id="closes with the one above"),
    pytest.param("Open", "false", "Closing", "Closed", "true", "CloseQueue", id="and while that is closing"),
    pytest.param("Unknown", None, "Closed", "Closed", "true", "CloseQueue", id="unknown, below a closed one"),
    pytest.param("Closed", "true", "Closed", "Closed", "true", None, id="stays closed with it"),
    pytest.param("Closed", "true", "Open", "Open", "false", "OpenQueue", id="opens with it"),
    pytest.param("Closing", "true", "Open", "Open", "false", "OpenQueue", id="opens before it was closed"),
    pytest.param("Closed", None, "Open", "Closed", None, None, id="closed for itself, stays"),
    pytest.param("Closed", "false", "Open", "Closed", "false", None, id="closed for itself later, stays"),
    pytest.param("Closed", None, "Closed", "Closed", None, None, id="closed for itself below a closed one"),
    pytest.param("Closed", "true", "", "Closed", "true", None, id="the one above is new"),
    pytest.param("Closed", "true", "Unknown", "Closed", "true", None, id="the one above is unknown"),
    pytest.param("Open", "true", "Open", "Open", "false", None, id="left over beside an open one"),
]


@pytest.mark.parametrize(("own", "annotated", "above", "state", "annotation", "event"), BELOW)
def test_a_queue_below_another(
    own: str, annotated: str | None, above: str, state: str, annotation: str | None, event: str | None
) -> None:
    body = queue(state=own, annotated=annotated, parent="p", status={"pending": 9})
    plan = decided(body, above=queue("p", above))
    left = after(body, plan)
    assert left["status"]["state"] == state
    assert left["metadata"].get("annotations", {}).get(CLOSED_BY_PARENT) == annotation
    assert told(plan) == ([("Normal", event)] if event else [])
    assert decided(left, above=queue("p", above)) == NOTHING


@for_each(("Open", "Closed", True), ("Closed", "Open", False))
def test_a_worker_that_dies_half_way_leaves_a_queue_that_opens_again(own: str, above: str, closed: bool) -> None:
    plan = decided(queue(state=own, annotated="true" if own == "Closed" else None, parent="p"), above=queue("p", above))
    kinds = [type(step) for step in plan.steps if isinstance(step, Patch | PatchStatus)]
    assert kinds == ([Patch, PatchStatus] if closed else [PatchStatus, Patch])


def test_no_queue_opens_below_a_closed_one() -> None:
    body = queue(state="Closed", parent="p")
    plan = decided(body, above=queue("p", "Closed"), commands=[command("c", "OpenQueue")])
    assert status_of(plan)["state"] == "Closed"
    assert told(plan) == [("Normal", "CommandIssued"), ("Warning", "OpenQueue")]
    assert CLOSED_BY_PARENT not in after(body, plan)["metadata"].get("annotations", {})


def test_a_queue_that_its_parent_closed_and_a_user_closes_opens_with_it() -> None:
    body = queue(state="Closed", annotated="true", parent="p")
    plan = decided(body, above=queue("p", "Closed"), commands=[command("c", "CloseQueue")])
    left = after(body, plan)
    assert (left["status"]["state"], left["metadata"]["annotations"]) == ("Closed", {CLOSED_BY_PARENT: "true"})


def test_a_user_who_opens_below_an_open_queue_is_asked_for_it_no_more() -> None:
    body = queue(state="Closed", annotated="true", parent="p")
    plan = decided(body, above=queue("p", "Unknown"), commands=[command("c", "OpenQueue")])
    left = after(body, plan)
    assert (left["status"]["state"], left["metadata"]["annotations"]) == ("Open", {CLOSED_BY_PARENT: "false"})


@cases(
    ("missing", queue(parent="p"), None, [("Warning", "ParentNotFound")]),
    ("there", queue(parent="p"), queue("p", "Open"), []),
    ("the root is made later", queue(), None, []),
    ("itself", queue("q", parent="q"), None, []),
)
def test_a_missing_parent_is_reported(body: Object, above: Object | None, warned: list[Any]) -> None:
    plan = decided(body, above=above)
    assert (told(plan), status_of(plan)["state"]) == (warned, "Open")
    assert decided(after(body, plan), above=above) == NOTHING


@cases(
    ("empty", queue(parent=""), "root"),
    ("absent", queue(parent=None), "root"),
    ("the root itself", queue("root", parent=None), None),
    ("given", queue(), None),
)
def test_a_queue_without_a_parent_is_put_below_the_root(body: Object, parent: str | None) -> None:
    patches = [step.body for step in decided(body).steps if isinstance(step, Patch)]
    assert patches == ([{"spec": {"parent": parent}}] if parent else [])


@cases(
    ("a new one", queue(), "new -> Open, 1 PodGroups"),
    ("as before", queue(state="Open"), "1 PodGroups"),
    ("another state", queue(state="Closed"), "Closed -> Closing, 1 PodGroups"),
)
def test_a_decision_on_a_queue_tells_why(body: Object, why: str) -> None:
    assert decided(body, has=groups("Running")).why == why


def test_a_patch_is_for_the_version_that_was_seen() -> None:
    body = queue(parent=None)
    del body["metadata"]["generation"]
    plan = decided(body)
    [patch] = [step for step in plan.steps if isinstance(step, Patch)]
    assert (patch.ref, patch.resource_version) == (ref_of(QUEUE, body), "7")
    assert status_of(plan)["observedGeneration"] == 0


def test_a_change_of_state_marks_the_queues_below_and_room_marks_the_round() -> None:
    below = [queue("a", "Open", parent="q"), queue("b", "Closed", parent="q")]
    body = queue(state="Open")
    shut = decided(body, below=below, commands=[command("c", "CloseQueue")])
    assert marked(shut) == ["a", "b", "root"]
    settled = after(body, decided(body))
    assert marked(decided(settled, below=below, has=groups("Running"))) == []
    busy = after(body, decided(body, has=groups("Running", "Running")))
    assert marked(decided(busy, below=below, has=groups("Running"))) == ["root"]
    edited = {**settled, "metadata": {**settled["metadata"], "generation": 2}}
    assert marked(decided(edited, below=below)) == ["root"]


@cases(
    ("open below a closed one", "Closed", queue("a", "Open", parent="q"), ["a"]),
    ("closed with it", "Open", queue("a", "Closed", annotated="true", parent="q"), ["a"]),
    ("closing with it", "Open", queue("a", "Closing", annotated="true", parent="q"), ["a"]),
    ("closed for itself", "Open", queue("a", "Closed", parent="q"), []),
    ("it followed", "Closed", queue("a", "Closed", annotated="true", parent="q"), []),
    ("unknown above", "Unknown", queue("a", "Closed", annotated="true", parent="q"), []),
)
def test_a_queue_below_that_has_not_followed_is_marked_again(own: str, below: Object, names: list[str]) -> None:
    """The worker died between the status and the mark."""
    body = queue(state=own)
    settled = after(body, decided(body, below=[below]))
    assert marked(decided(settled, below=[below])) == names


def test_the_root_does_not_wake_itself() -> None:
    root = queue("root", parent=None)
    assert marked(decide(seen(root, below=[queue("a", "Open")]), NOW)) == ["a"]


@for_each(True, False)
def test_what_is_gone_or_going_is_left_alone(gone: bool) -> None:
    body = queue()
    body["metadata"]["deletionTimestamp"] = "2026-03-01T11:00:00Z"
    assert decide(Snapshot(ref_of(QUEUE, body), None if gone else body), NOW) == NOTHING


def test_gangs_are_admitted_in_the_name_of_the_root_queue_alone() -> None:
    more = Plan((RecordEvent("Normal", "Admitted", "one gang"),), "a gang")
    made = controller(lambda snapshot, now: more, cluster_wide=(POD_GROUP,))
    root = seen(queue("root", parent=None))
    plan = made.decide(root, NOW)
    assert plan.steps == (*decide(root, NOW).steps, *more.steps)
    assert plan.why.endswith("; a gang")
    assert made.decide(Snapshot(ROOT, None), NOW) == NOTHING
    assert made.decide(seen(queue()), NOW) == decide(seen(queue()), NOW)
    assert made.reads_cluster_wide(queue("root"))
    assert not made.reads_cluster_wide(queue())


STATES = st.sampled_from([None, *QueueState, "Ajar"])


@given(
    own=STATES,
    above=st.none() | STATES,
    annotated=st.sampled_from([None, "true", "false"]),
    phases=st.lists(st.sampled_from(["", "Pending", "Running", "Completed"]), max_size=3),
    actions=st.lists(st.sampled_from([*Action, "Nonsense"]), max_size=4),
)
def test_a_decision_settles_at_once_and_every_command_is_consumed(
    own: str | None, above: str | None, annotated: str | None, phases: list[str], actions: list[str]
) -> None:
    body = queue(state=own, annotated=annotated, parent="p")
    asked = [command(f"c{n}", action, created=f"2026-03-01T11:59:0{n}Z") for n, action in enumerate(actions)]
    parent = queue("p", above) if above is not None else None
    plan = decided(body, above=parent, has=groups(*phases), commands=asked)
    assert consumed(plan) == [each["metadata"]["name"] for each in asked]
    left = after(body, plan)
    assert decided(left, above=parent, has=groups(*phases)) == NOTHING
    state = state_of(left)
    assert state is not QueueState.NEW
    assert not (parent and state_of(parent).shut) or state.shut
    assert (state is QueueState.CLOSED) <= (not phases)
    assert (state is QueueState.CLOSING) <= bool(phases)
    assert diff(left["status"], status_of(plan)) == {}


class QueueSimulation:
    """One queue, its Commands, and a worker that may die after any step."""

    def __init__(self, phases: list[str]) -> None:
        self.queue = queue(state="Open")
        self.commands: dict[str, Object] = {}
        self.taken: list[str] = []
        self.groups = groups(*phases)

    def work(self, steps: int | None = None) -> bool:
        """Decides, and carries out so many steps of the plan; answers whether there was anything to do."""
        plan = decided(self.queue, has=self.groups, commands=list(self.commands.values()))
        for step in plan.steps[:steps]:
            if isinstance(step, PatchStatus):
                before = self.queue["status"].get("handled", [])
                self.taken += [uid for uid in step.status.get("handled", []) if uid not in before]
            if isinstance(step, Together):
                for name in consumed(Plan((step,))):
                    del self.commands[name]
            self.queue = after(self.queue, Plan((step,)))
        return plan != NOTHING


@given(
    phases=st.lists(st.sampled_from(["Running", "Completed"]), max_size=2),
    actions_and_crashes=st.lists(st.one_of(st.sampled_from(list(Action)), st.integers(0, 6)), max_size=12),
)
def test_each_command_takes_effect_once_and_in_order(
    phases: list[str], actions_and_crashes: list[Action | int]
) -> None:
    simulation = QueueSimulation(phases)
    asked: list[Action] = []
    for each in actions_and_crashes:
        if isinstance(each, Action):
            name = f"c{len(asked):02}"
            simulation.commands[name] = command(name, each, created=f"2026-03-01T11:00:{len(asked):02}Z")
            asked.append(each)
        else:
            simulation.work(steps=each)
    for _ in range(3):
        simulation.work()
    assert not simulation.work()
    assert not simulation.commands
    assert simulation.taken == [f"uid-c{number:02}" for number in range(len(asked))]
    state = QueueState.OPEN
    for action in asked:
        state = TABLE[state, action].state(len(simulation.groups))
    assert simulation.queue["status"]["state"] == TABLE[state, Action.SYNC].state(len(simulation.groups))
