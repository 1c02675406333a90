"""The decision about an EventJob, case by case."""

from dataclasses import replace
from typing import Any

import orjson

from tests.support.tables import cases, for_each
from tests.unit.controllers.eventjob.manifests import (
    COUNTS,
    claim,
    event_job,
    event_text,
    job_of,
    ledger,
    reading_of,
    snapshot,
)
from tests.unit.controllers.factories import NOW, UID, at, condition, micros
from workers.api import job_annotations
from workers.api.kinds import SCALED_JOB, Object, Ref
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.eventjob import decide, jobs
from workers.controllers.eventjob.decide import CONTROLLER, FINALIZER
from workers.decision.claims import DELIVERIES, ClaimedItem, ClaimLedger, ClaimOrder, ClaimSettlement
from workers.decision.plan import (
    ComeBack,
    Create,
    Delete,
    Figure,
    Patch,
    PatchStatus,
    Plan,
    PollNow,
    RecordEvent,
    Together,
)
from workers.decision.snapshot import CachedObject


def order_in(plan: Plan) -> ClaimOrder | None:
    return next((step.order for step in plan.steps if isinstance(step, PollNow)), None)


def created(plan: Plan) -> list[Object]:
    together = [each for step in plan.steps if isinstance(step, Together) for each in step.steps]
    return [each.body for each in together if isinstance(each, Create)]


def status_in(plan: Plan) -> Object:
    [written] = [step.status for step in plan.steps if isinstance(step, PatchStatus)]
    return written


def ready(plan: Plan) -> tuple[str, str, str]:
    [found] = [each for each in status_in(plan)["conditions"] if each["type"] == "Ready"]
    return found["status"], found["reason"], found["message"]


def suspended(plan: Plan) -> tuple[str, str]:
    [found] = [each for each in status_in(plan)["conditions"] if each["type"] == "Suspended"]
    return found["status"], found["reason"]


def reasons(plan: Plan) -> list[str]:
    return [step.reason for step in plan.steps if isinstance(step, RecordEvent)]


def test_a_new_object_gets_its_finalizer_and_is_read() -> None:
    plan = decide(snapshot(event_job(metadata={"finalizers": []})), NOW)
    [patch] = [step for step in plan.steps if isinstance(step, Patch)]
    assert patch.body == {"metadata": {"finalizers": [FINALIZER]}}
    assert PollNow() in plan.steps
    assert ready(plan)[:2] == ("Unknown", "NotRead")
    assert reasons(plan) == []


def test_orders_rise_though_the_clock_was_set_back() -> None:
    before = ClaimOrder(micros(3600), "events", 3)
    plan = decide(snapshot(event_job(concurrency={"total": 5}), ledger(order=before.id), order=before), NOW)
    order = order_in(plan)
    assert order
    assert order.id == before.id + 1


@cases(
    ("the same", {}, False),
    ("another limit", {"limit": 9}, True),
    ("other settlements", {"settlements": (ClaimSettlement("1-0", "done"),)}, True),
    ("the same, but polls have begun since and carried out another one", {"id": micros(-2)}, True),
)
def test_an_order_is_not_given_again_before_a_poll_could_carry_it_out(given: dict[str, Any], again: bool) -> None:
    # Otherwise no reading is ever one of the last order: each decision would give another one, and ask for a poll.
    before = ClaimOrder(**{"id": micros(-0.5), "of": "events", "limit": 10, **given})
    plan = decide(snapshot(event_job(), ledger(order=5), order=before), NOW)
    assert (order_in(plan) is not None) is again


def test_a_deletion_waits_for_the_poll_that_its_order_asked_for() -> None:
    body = event_job(metadata=DELETED)
    seen = snapshot(body, reading=replace(reading_of(ledger(limit=0)), generation=2))
    before = ClaimOrder(micros(-0.5), "events", 0)
    assert order_in(decide(replace(seen, order=before), NOW)) is None
    carried_out = replace(reading_of(ledger(limit=0, order=before.id)), generation=2)
    [gone] = decide(replace(seen, reading=carried_out, order=before), NOW).steps
    assert isinstance(gone, Patch)


@cases(("as many as may be", claim_outcomes.CARRIED, False), ("one more", claim_outcomes.CARRIED + 1, True))
def test_an_order_says_whose_items_are_not_needed_once_polls_read_many_for_nothing(number: int, ordered: bool) -> None:
    held = [claim(f"{place + 1}-0") for place in range(number)]
    running = [job_of(each) for each in held]
    body = event_job(concurrency={"total": 100})
    order = order_in(decide(snapshot(body, ledger(*held, limit=100), *running), NOW))
    assert (order is not None) is ordered
    if order:
        assert (order.bound, order.settlements, order.limit) == (tuple(each.id for each in held), (), 100)
        told = [replace(each, item=None) for each in held]
        assert order_in(decide(snapshot(body, ledger(*told, limit=100), *running), NOW)) is None


def test_a_first_reading_orders_claims_and_every_claim_gets_a_job() -> None:
    plan = decide(snapshot(event_job(concurrency={"total": 3}), ledger(limit=None)), NOW)
    order = order_in(plan)
    assert order
    assert (order.of, order.limit) == ("events", 3)
    plan = decide(snapshot(event_job(), ledger(claim("1-0"), claim("2-0"))), NOW)
    assert [orjson.loads(each["metadata"]["annotations"][job_annotations.EVENT])["id"] for each in created(plan)] == [
        "1-0",
        "2-0",
    ]
    assert ready(plan)[0] == "True"
    assert reasons(plan) == ["EventJobReady"]


def test_a_plan_tells_all_that_it_does() -> None:
    plan = decide(snapshot(event_job(concurrency={"total": 3}), ledger(claim("1-0"), claim("2-0"))), NOW)
    together, written, told = [step for step in plan.steps if not isinstance(step, PollNow)]
    assert isinstance(together, Together)
    assert together.then == RecordEvent("Normal", "JobsCreated", "Created {done} Jobs")
    assert together.otherwise == RecordEvent("Warning", "JobCreateFailed", "Creating a Job failed: {error}")
    message = "takes the events of channel orders"
    assert told == RecordEvent("Normal", "EventJobReady", message)
    stated = (
        ("Ready", "True", "EventJobReady", message),
        ("Suspended", "False", "NotSuspended", "Jobs are created"),
        ("Parked", "False", "NothingParked", "no event is parked"),
    )
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    assert written == PatchStatus(
        {
            "conditions": [dict(zip(names, (*each, at(0)), strict=True)) for each in stated],
            "observedGeneration": 1,
            "channel": "orders",
            "events": COUNTS,
            "active": 2,
            "lastEventTime": at(-60),
            "lastJob": jobs.name({"name": "orders", "uid": UID}, claim("2-0")),
        }
    )
    assert plan.why == "2 claimed, 0 to settle, 2 to create"
    assert plan.figures == (
        *(Figure(f"{name} events", COUNTS[name]) for name in ("waiting", "delayed", "retrying", "parked")),
        Figure("events with a claim", 2),
        Figure("most Jobs (concurrency.total)", 3),
        Figure("Jobs not finished", 0),
        Figure("claims without a Job", 2),
        Figure("to create", 2, "min(2, 3 - 0)"),
    )


def test_what_is_not_ready_is_told_once_while_it_lasts() -> None:
    found, problem = ledger(), "the channel's key holds a string"
    reading = reading_of(replace(found, claims=None), problem=problem)
    plan = decide(snapshot(event_job(), reading=reading), NOW)
    assert ready(plan) == ("False", "ChannelUnreadable", problem)
    assert reasons(plan) == ["ChannelUnreadable"]
    again = event_job(status=status_in(plan))
    assert reasons(decide(snapshot(again, reading=reading), NOW)) == []
    other = reading_of(replace(found, claims=None), problem="another one")
    assert reasons(decide(snapshot(again, reading=other), NOW)) == ["ChannelUnreadable"]


@cases(
    ("completed", job_of(claim("1-0"), "Complete"), None, ("done", "", 0, 0)),
    ("failed", job_of(claim("1-0"), "Failed"), None, ("parked", "BackoffLimitExceeded: too many", 0, 0)),
    (
        "failed with a retry left",
        job_of(claim("1-0"), "Failed"),
        {"limit": 2, "delaySeconds": 5},
        ("retried", "BackoffLimitExceeded: too many", 1, 5000),
    ),
    ("is gone", job_of(claim("1-0"), gone=True), {"limit": 2}, ("returned", "", 0, 0)),
    ("runs", job_of(claim("1-0")), None, None),
)
def test_an_event_is_settled_as_its_job_ends(job: CachedObject, retry: Any, settlement: Any) -> None:
    plan = decide(snapshot(event_job(retry=retry), ledger(claim("1-0")), job), NOW)
    order = order_in(plan)
    found = order.settlements if order else ()
    if settlement is None:
        assert found == ()
        return
    how, reason, attempt, delay = settlement
    whole = f"Job {job.ref.name} failed: {reason}" if reason else ""
    assert found == (ClaimSettlement("1-0", how, whole, attempt, delay, job.ref.name),)


@cases(("the second", 1, 20_000), ("the third", 2, 25_000), ("far beyond", 900, 25_000))
def test_the_delay_doubles_up_to_its_limit(attempt: int, delay: int) -> None:
    held = claim("1-0", attempt=attempt)
    body = event_job(retry={"limit": 1000, "delaySeconds": 10, "maxDelaySeconds": 25})
    plan = decide(snapshot(body, ledger(held), job_of(held, "Failed")), NOW)
    order = order_in(plan)
    assert order
    assert order.settlements[0].delay == delay


def test_the_last_attempt_parks_the_event_and_says_so_once() -> None:
    held = claim("1-0", attempt=2)
    seen = snapshot(event_job(retry={"limit": 2}), ledger(held), job_of(held, "Failed"))
    plan = decide(seen, NOW)
    order = order_in(plan)
    assert order
    assert order.settlements[0].how == "parked"
    assert "EventParked" in reasons(plan)
    [told] = [each for each in plan.steps if isinstance(each, RecordEvent) and each.reason == "EventParked"]
    assert not told.message.endswith("more")
    again = snapshot(event_job(retry={"limit": 2}), ledger(held), job_of(held, "Failed"), order=order)
    assert "EventParked" not in reasons(decide(again, NOW))


def parkings(plan: Plan) -> list[str]:
    return [each.message for each in plan.steps if isinstance(each, RecordEvent) and each.reason == "EventParked"]


LISTED = "penstock events list orders --state parked"
UNROUTED = f"before a Job could be made: see {LISTED}"


@cases(
    ("the first", {}, 1, [f"An event was parked {UNROUTED}"]),
    ("more", {"parked": 2}, 5, [f"3 events were parked {UNROUTED}"]),
    ("as many", {"parked": 2}, 2, []),
    ("fewer, after a replay", {"parked": 2}, 1, []),
)
def test_events_that_polls_park_are_told_once(known: dict[str, int], parked: int, told: list[str]) -> None:
    body = event_job(status={"events": known})
    plan = decide(snapshot(body, ledger(counts={**COUNTS, "parked": parked})), NOW)
    assert parkings(plan) == told
    again = event_job(status=status_in(plan))
    assert parkings(decide(snapshot(again, ledger(counts={**COUNTS, "parked": parked})), NOW)) == []


def test_events_that_were_told_when_their_attempts_ended_are_not_told_again() -> None:
    order = ClaimOrder(5, DELIVERIES, 10, settlements=(ClaimSettlement("1-0", "parked", "why"),))
    body = event_job(status={"events": {"parked": 0}})
    for parked, told in ((1, []), (2, [f"An event was parked {UNROUTED}"])):
        found = ledger(counts={**COUNTS, "parked": parked}, order=order.id)
        plan = decide(snapshot(body, found, order=order), NOW)
        assert parkings(plan) == told
        # What the next readings find parked is no work of that order.
        renewed = order_in(plan)
        assert renewed
        assert (renewed.limit, renewed.settlements) == (10, ())
        later = ledger(counts={**COUNTS, "parked": parked}, order=renewed.id)
        assert order_in(decide(snapshot(body, later, order=renewed), NOW)) is None


@cases(
    ("room for all", {"concurrency": {"total": 5}}, 5, 2),
    ("room for one beside one that runs", {"concurrency": {"total": 2}}, 2, 1),
    ("no room", {"concurrency": {"total": 1}}, 1, 0),
    ("suspended", {"suspend": True}, 0, 0),
)
def test_jobs_are_bounded(spec: Any, limit: int, made: int) -> None:
    held = (claim("1-0"), claim("2-0"), claim("3-0"))
    plan = decide(snapshot(event_job(**spec), ledger(*held, limit=9), job_of(held[0])), NOW)
    order = order_in(plan)
    assert order
    assert (order.limit, len(created(plan))) == (limit, made)


def _ended(held: ClaimedItem) -> CachedObject:
    return job_of(held, "Complete", seen=-10)


def test_a_settled_job_is_let_go_and_one_that_no_poll_knows_of_yet_is_not() -> None:
    settled, unsettled = _ended(claim("1-0")), job_of(claim("2-0"), "Complete", seen=0)
    plan = decide(snapshot(event_job(), ledger(), settled, unsettled), NOW)
    let_go = [each for step in plan.steps if isinstance(step, Together) for each in step.steps]
    assert [each.ref.name for each in let_go if not isinstance(each, Create)] == [settled.ref.name]


@cases(
    ("a malformed manifest", event_job(concurrency={"total": 0}), "InvalidSpec", "spec.concurrency.total"),
    ("an expression", event_job(filter={"cel": "event.type =="}), "InvalidSpec", "spec.filter.cel: line 1"),
    (
        "a forbidden place",
        event_job(jobTemplate={"spec": {"template": {"spec": {"nodeName": "$(event.id)", "containers": []}}}}),
        "InvalidSpec",
        "nodeName: $(event…) may not stand here",
    ),
)
def test_a_spec_that_cannot_work_is_not_ready(body: Object, reason: str, message: str) -> None:
    plan = decide(snapshot(body, ledger(claim("1-0"))), NOW)
    assert created(plan) == []
    assert ready(plan)[:2] == ("False", reason)
    assert message in ready(plan)[2]
    order = order_in(plan)
    assert order is None or order.limit == 0


@cases(
    ("push", {"type": "push", "metadata": {}}, True),
    ("push with the same stream", {"type": "push", "metadata": {"stream": "{penstock}:events:default/orders"}}, True),
    ("push with another stream", {"type": "push", "metadata": {"stream": "{penstock}:events:default/other"}}, False),
    ("push on another server", {"type": "push", "metadata": {"address": "elsewhere:6379"}}, False),
    ("another type", {"type": "redis", "metadata": {}}, False),
)
def test_a_channel_that_a_scaledjob_takes_is_refused(trigger: Object, taken: bool) -> None:
    scaled = {"metadata": {"name": "orders", "namespace": "default"}, "spec": {"triggers": [trigger]}}
    relatives = {Ref(SCALED_JOB, "default", "orders"): scaled}
    plan = decide(snapshot(event_job(), ledger(claim("1-0")), relatives=relatives), NOW)
    assert (ready(plan)[1] == "ChannelTaken") is taken
    assert bool(created(plan)) is not taken
    assert any(isinstance(step, ComeBack) for step in plan.steps) is taken


@for_each("orders", "other")
def test_a_scaledjob_of_another_name_takes_the_channel_that_its_trigger_names(channel: str) -> None:
    triggers = [{"type": "push", "metadata": {"stream": f"{{penstock}}:events:default/{channel}"}}]
    scaled = {"metadata": {"name": "work", "namespace": "default"}, "spec": {"triggers": triggers}}
    peers = (CachedObject(Ref(SCALED_JOB, "default", "work"), scaled, 0),)
    plan = decide(replace(snapshot(event_job(), ledger(claim("1-0"))), peers=peers), NOW)
    assert (ready(plan)[1] == "ChannelTaken") is (channel == "orders")


@cases(
    ("no text for a label", claim("1-0", item=event_text("1-0", subject="a b")), "is no value of a label"),
    ("nothing for a path", claim("1-0"), "$(event.subject): the event has none"),
    ("too large", claim("1-0", size=200_000), "200000 bytes"),
)
def test_an_event_that_does_not_fit_its_template_is_parked_with_the_reason(held: ClaimedItem, reason: str) -> None:
    template = {
        "metadata": {"labels": {"subject": "$(event.subject)"}},
        "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}},
    }
    plan = decide(snapshot(event_job(jobTemplate=template), ledger(held)), NOW)
    order = order_in(plan)
    assert order
    [settlement] = order.settlements
    assert (settlement.how, created(plan)) == ("parked", [])
    assert reason in settlement.reason


@cases(
    ("an unreadable ledger", ClaimLedger("events"), "connection refused"),
    ("a ledger of a namesake", ledger(claim("1-0")), None),
)
def test_what_is_not_known_creates_nothing(found: ClaimLedger, problem: str | None) -> None:
    reading = reading_of(found, problem=problem, uid=UID if problem else "another")
    plan = decide(snapshot(event_job(), reading=reading), NOW)
    assert created(plan) == []
    assert ready(plan)[0] != "True"
    assert "events" not in status_in(plan)


def test_the_status_says_what_a_reading_counted() -> None:
    held = claim("1-0")
    status = status_in(decide(snapshot(event_job(), ledger(held), job_of(held)), NOW))
    assert status["events"]["waiting"] == 2
    assert (status["channel"], status["active"], status["lastEventTime"]) == ("orders", 1, at(-60))
    assert [(each["type"], each["status"]) for each in status["conditions"]] == [
        ("Ready", "True"),
        ("Suspended", "False"),
        ("Parked", "False"),
    ]
    again = event_job(status=status)
    assert not [
        step for step in decide(snapshot(again, ledger(held), job_of(held)), NOW).steps if isinstance(step, PatchStatus)
    ]


@cases(
    ("some", 3, ("True", "EventsParked", f"events are parked: see {LISTED}")),
    (
        "as many as may be",
        5,
        (
            "True",
            "DeadLetterFull",
            "5 events are parked, and deadLetter.limit is 5: replay or drop some, nothing runs before",
        ),
    ),
    ("none", 0, ("False", "NothingParked", "no event is parked")),
)
def test_parked_events_are_a_condition(parked: int, told: tuple[str, str, str]) -> None:
    plan = decide(snapshot(event_job(deadLetter={"limit": 5}), ledger(counts={"parked": parked})), NOW)
    [found] = [each for each in status_in(plan)["conditions"] if each["type"] == "Parked"]
    assert (found["status"], found["reason"], found["message"]) == told


DELETED = {"deletionTimestamp": at(0), "generation": 2}


def test_a_deleted_object_stops_its_jobs_and_stays_until_its_deliveries_are_gone() -> None:
    held = claim("1-0")
    plan = decide(snapshot(event_job(metadata=DELETED), ledger(held), job_of(held)), NOW)
    order = order_in(plan)
    assert order
    assert order.limit == 0
    deletes = [each for step in plan.steps if isinstance(step, Together) for each in step.steps]
    assert [type(each) for each in deletes] == [Delete]
    assert not [step for step in plan.steps if isinstance(step, Patch)]


@cases(
    ("a poll since the deletion has removed them", 2, 0, True),
    ("the last poll was before the deletion", 1, 0, False),
    ("polls may still claim", 2, 10, False),
)
def test_the_finalizer_goes_once_a_poll_has_removed_the_deliveries(generation: int, limit: int, gone: bool) -> None:
    reading = reading_of(ledger(limit=limit), generation=generation)
    body = event_job(metadata={**DELETED, "finalizers": [FINALIZER, "another"]})
    plan = decide(snapshot(body, reading=reading), NOW)
    patches = [step.body for step in plan.steps if isinstance(step, Patch)]
    assert patches == [{"metadata": {"finalizers": ["another"]}}] * gone
    assert any(isinstance(step, PollNow) for step in plan.steps) is not gone


def test_a_deletion_that_waits_for_the_broker_says_so() -> None:
    reading = reading_of(ClaimLedger("events"), problem="connection refused", generation=2)
    plan = decide(snapshot(event_job(metadata=DELETED), reading=reading), NOW)
    assert ready(plan)[:2] == ("False", "DeletionWaits")
    assert "connection refused" in ready(plan)[2]
    assert suspended(plan) == ("Unknown", "Deleted")


def test_a_malformed_manifest_is_not_ready() -> None:
    plan = decide(snapshot(event_job(concurrency={"total": "many"}), ledger(claim("1-0"))), NOW)
    assert ready(plan)[:2] == ("False", "InvalidSpec")
    assert "spec.concurrency.total" in ready(plan)[2]
    assert suspended(plan) == ("Unknown", "InvalidSpec")


@cases(
    ("its own channel", {}, "orders"),
    ("another channel", {"channel": "sales"}, "sales"),
    ("no text", {"channel": 7}, None),
)
def test_the_scaledjob_of_its_channel_is_looked_up(spec: Object, name: str | None) -> None:
    refs = CONTROLLER.optional_relatives(event_job(**spec))
    assert refs == ((Ref(SCALED_JOB, "default", name),) if name else ())


def test_jobs_of_an_object_that_is_gone_are_let_go() -> None:
    plan = decide(snapshot(None, None, _ended(claim("1-0"))), NOW)
    assert len(plan.steps) == 1


def build(held: ClaimedItem, container: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "x", **(container or {})}
    template = {"spec": {"template": {"spec": {"containers": [main]}}}}
    [job] = created(decide(snapshot(event_job(jobTemplate=template, **spec), ledger(held)), NOW))
    return job


def test_a_job_is_its_template_with_the_event() -> None:
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "n"}}
    pod = {"metadata": {"labels": {"pod": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    template = {"metadata": metadata, "spec": {"backoffLimit": 0, "template": pod}}
    [job] = created(decide(snapshot(event_job(jobTemplate=template), ledger(claim("1-0"))), NOW))
    carried = {
        **{"penstock.dev/claim": "1-0", "penstock.dev/claim-attempt": "0"},
        "penstock.dev/event": event_text("1-0"),
    }
    event = {"fieldRef": {"fieldPath": "metadata.annotations['penstock.dev/event']"}}
    variables = [
        {"name": "PENSTOCK_CLAIM", "value": "1-0"},
        {"name": "PENSTOCK_ATTEMPT", "value": "1"},
        {"name": "PENSTOCK_EVENT", "valueFrom": event},
        {"name": "PENSTOCK_EVENT_ID", "value": "1-0"},
        {"name": "PENSTOCK_EVENT_SOURCE", "value": "/shop"},
        {"name": "PENSTOCK_EVENT_TYPE", "value": "order.placed"},
    ]
    mount = {"name": "penstock-event", "mountPath": "/var/run/penstock", "readOnly": True}
    owner = {"apiVersion": "penstock.dev/v1alpha1", "kind": "EventJob", "name": "orders", "uid": UID}
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": jobs.name({"name": "orders", "uid": UID}, claim("1-0")),
            "namespace": "default",
            "labels": {"team": "a", job_annotations.EVENT_JOB: "orders"},
            "annotations": {"note": "n", **carried},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            "finalizers": ["penstock.dev/claim"],
        },
        "spec": {
            "ttlSecondsAfterFinished": 3600,
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": {"pod": "b", job_annotations.EVENT_JOB: "orders"}, "annotations": carried},
                "spec": {
                    "containers": [{"name": "main", "image": "x", "env": variables, "volumeMounts": [mount]}],
                    "restartPolicy": "Never",
                    "volumes": [
                        {"name": "penstock-event", "downwardAPI": {"items": [{"path": "event", **event}]}},
                    ],
                },
            },
        },
    }


def test_a_job_has_the_event_in_every_container() -> None:
    text = event_text("4711", subject="$(HOME)", data='{"total": 12}', traceparent=f"00-{'a' * 32}-{'b' * 16}-01")
    job = build(claim("1-0", item=text, attempt=1))
    metadata, pod = job["metadata"], job["spec"]["template"]["spec"]
    assert metadata["finalizers"] == [binding.FINALIZER]
    assert metadata["labels"] == {job_annotations.EVENT_JOB: "orders"}
    assert orjson.loads(metadata["annotations"][job_annotations.EVENT])["data"] == {"total": 12}
    assert job["spec"]["ttlSecondsAfterFinished"] == 3600
    variables = {each["name"]: each.get("value") or each["valueFrom"] for each in pod["containers"][0]["env"]}
    assert variables["PENSTOCK_EVENT_ID"] == "4711"
    assert variables["PENSTOCK_EVENT_SUBJECT"] == "$$(HOME)", "Kubernetes expands it otherwise"
    assert variables["PENSTOCK_EVENT"] == {"fieldRef": {"fieldPath": "metadata.annotations['penstock.dev/event']"}}
    assert variables["PENSTOCK_EVENT_DATA"] == {
        "fieldRef": {"fieldPath": "metadata.annotations['penstock.dev/event-data']"}
    }
    assert metadata["annotations"][job_annotations.EVENT_DATA] == '{"total": 12}'
    assert (variables["PENSTOCK_CLAIM"], variables["PENSTOCK_ATTEMPT"]) == ("1-0", "2")
    assert variables["TRACEPARENT"] == metadata["annotations"][job_annotations.TRACEPARENT]
    [volume] = pod["volumes"]
    assert volume["downwardAPI"]["items"][0]["path"] == "event"


def test_a_containers_own_variable_stays() -> None:
    job = build(claim("1-0"), {"env": [{"name": "PENSTOCK_EVENT_ID", "value": "own"}]})
    found = [
        each for each in job["spec"]["template"]["spec"]["containers"][0]["env"] if each["name"] == "PENSTOCK_EVENT_ID"
    ]
    assert found == [{"name": "PENSTOCK_EVENT_ID", "value": "own"}]


@cases(
    ("short data", "x", {"PENSTOCK_EVENT", "PENSTOCK_EVENT_DATA"}),
    ("long data", "x" * 70_000, {"PENSTOCK_EVENT"}),
    ("longer data", "x" * 120_000, set()),
    ("a NUL", "a\0b", {"PENSTOCK_EVENT"}),
)
def test_what_no_process_can_be_given_is_in_the_file_only(data: str, variables: set[str]) -> None:
    job = build(claim("1-0", item=event_text("1", data=data)))
    names = {each["name"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert names & {"PENSTOCK_EVENT", "PENSTOCK_EVENT_DATA"} == variables


@cases(("a NUL", "a\0b", False), ("as long as may be", "x" * 4096, True), ("longer", "x" * 4095 + "ä", False))
def test_an_attribute_that_no_process_can_be_given_is_in_the_file_only(subject: str, given: bool) -> None:
    job = build(claim("1-0", item=event_text("1", subject=subject)))
    names = {each["name"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert ("PENSTOCK_EVENT_SUBJECT" in names) is given


@cases(("nothing", {}, "Never"), ("one", {"restartPolicy": "OnFailure"}, "OnFailure"))
def test_containers_are_not_restarted_unless_the_template_says_so(asked: Object, policy: str) -> None:
    template = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}], **asked}}}}
    [job] = created(decide(snapshot(event_job(jobTemplate=template), ledger(claim("1-0"))), NOW))
    assert job["spec"]["template"]["spec"]["restartPolicy"] == policy


def test_the_state_of_a_trace_goes_with_it() -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    job = build(claim("1-0", item=event_text("1", traceparent=trace, tracestate="a=$(X)")))
    given = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [each for each in given if each["name"].startswith("TRACE")] == [
        {"name": "TRACEPARENT", "value": trace},
        {"name": "TRACESTATE", "value": "a=$$(X)"},
    ]


@for_each((0, True), (1, False))
def test_an_event_of_the_length_of_a_variable_is_one(more: int, given: bool) -> None:
    empty = orjson.loads(event_text("1", data=""))
    spare = binding.LONGEST_VARIABLE - len(orjson.dumps(empty))
    job = build(claim("1-0", item=event_text("1", data="x" * (spare + more))))
    annotation = job["metadata"]["annotations"][job_annotations.EVENT]
    assert len(annotation) == binding.LONGEST_VARIABLE + more
    names = {each["name"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert ("PENSTOCK_EVENT" in names) is given


def test_a_malformed_trace_is_left_out() -> None:
    job = build(claim("1-0", item=event_text("1", traceparent="$(X)", tracestate="a=b")))
    names = {each["name"] for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert not names & {"TRACEPARENT", "TRACESTATE"}


def test_jobs_of_two_objects_of_one_name_have_other_names() -> None:
    held = claim("1700000000000-0-3", attempt=999)
    names = {jobs.name({"name": "n" * 253, "uid": uid}, held) for uid in ("a", "b")}
    assert len(names) == 2
    assert all(len(name) <= 63 for name in names)


@for_each("True", "False")
def test_suspending_and_resuming_are_events(status: str) -> None:
    before = {"conditions": [condition("Ready"), condition("Suspended", status)]}
    plan = decide(snapshot(event_job(status=before, suspend=status == "False"), ledger()), NOW)
    assert reasons(plan) == ["EventJobSuspended" if status == "False" else "EventJobResumed"]
