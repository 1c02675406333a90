"""Claims: what a Job is given, what becomes of every claim, and when ledgers are opened and closed."""

from dataclasses import replace
from typing import Any

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, child, gone, micros, sample, scaled_job, snapshot
from tests.unit.controllers.keda.scaledjob.claims_cluster import ANNOTATION, OF, TRIGGER, bound, claim, name
from tests.unit.controllers.plans import condition, statuses
from workers.api import job_annotations
from workers.api.kinds import Object
from workers.controllers.claims import binding, claim_outcomes
from workers.controllers.claims.claim_outcomes import ClaimRules
from workers.controllers.keda.scaledjob import decide
from workers.decision.claims import LARGEST, LEDGER, ClaimedItem, ClaimLedger, ClaimOrder, ClaimSettlement, How
from workers.decision.plan import (
    NOTHING,
    ComeBack,
    Create,
    Delete,
    Patch,
    Plan,
    PollNow,
    Step,
    Together,
    Unfinalize,
)
from workers.decision.snapshot import CachedObject, Reading

CLAIMING = {"strategy": "claim"}


_RULES = ClaimRules()


def judge(
    *held: ClaimedItem, jobs: tuple[CachedObject, ...] = (), rules: ClaimRules = _RULES, **more: Any
) -> claim_outcomes.ClaimVerdict:
    return claim_outcomes.judge(
        ClaimLedger(OF, 3, held), jobs, micros(-5), lambda each: name(each.id, each.attempt), rules, **more
    )


@cases(
    ("complete", bound("1", "Complete"), 0, ClaimSettlement("1", "done")),
    ("complete and being deleted", bound("1", "Complete", deleted=True), 0, ClaimSettlement("1", "done")),
    ("failed, and may be retried", bound("1", "Failed"), 1, ClaimSettlement("1", "retried", attempt=1)),
    ("failed for good", bound("1", "Failed"), 0, ClaimSettlement("1", "parked", f"Job {name('1')} failed")),
    ("gone", gone(name("1")), 0, ClaimSettlement("1", "returned")),
    ("running", bound("1"), 0, None),
    ("being deleted, unfinished", bound("1", deleted=True), 0, None),
)
def test_a_claim_is_settled_as_its_job_ends(
    job: CachedObject, retries: int, settlement: ClaimSettlement | None
) -> None:
    verdict = judge(claim("1"), jobs=(job,), rules=ClaimRules(retries))
    assert verdict.settlements == ([settlement] if settlement else [])
    assert verdict.missing == []


@cases(
    ("gets a Job", claim("1"), False, None, 1, False),
    ("goes back when no Jobs are wanted", claim("1"), True, "returned", 0, False),
    ("is read when it was left out", claim("1", item=None), False, None, 0, True),
    ("is too large", claim("1", item=None, size=LARGEST + 1), False, "parked", 0, False),
    ("was lost by its queue", claim("1", item=None, size=-1), True, "parked", 0, False),
    ("is empty", claim("1", item="", size=0), False, None, 1, False),
    ("is as large as may be", claim("1", size=LARGEST), False, None, 1, False),
)
def test_a_claim_without_a_job(
    held: ClaimedItem, closing: bool, settlement: str | None, missing: int, unclear: bool
) -> None:
    verdict = judge(held, closing=closing)
    assert [(each.id, each.how) for each in verdict.settlements] == ([("1", settlement)] if settlement else [])
    assert (len(verdict.missing), verdict.unclear) == (missing, unclear)


def test_while_a_ledger_closes_nothing_is_tried_again() -> None:
    verdict = judge(claim("1"), jobs=(bound("1", "Failed"),), rules=ClaimRules(5), closing=True)
    assert [(each.id, each.how) for each in verdict.settlements] == [("1", "parked")]


@cases(("is being returned by a poll", ("1",), True), ("another one is", ("2",), False))
def test_a_claim_that_may_be_going_gets_no_job(leaving: tuple[str, ...], unclear: bool) -> None:
    verdict = judge(claim("1"), leaving=leaving)
    assert (len(verdict.missing), verdict.unclear, verdict.owed) == (0 if unclear else 1, unclear, 1)


def test_returned_items_go_to_the_front_youngest_first_after_all_else() -> None:
    verdict = judge(claim("1"), claim("2"), claim("3"), jobs=(gone(name("1")), bound("2", "Complete"), gone(name("3"))))
    assert [(each.id, each.how) for each in verdict.settlements] == [
        ("2", "done"),
        ("3", "returned"),
        ("1", "returned"),
    ]


def _another_name(job: CachedObject) -> CachedObject:
    return replace(job, ref=replace(job.ref, name="another"))


def test_what_is_owed_are_the_claims_that_need_a_job_now_or_later() -> None:
    failed = tuple(bound(id, "Failed") for id in ("1", "2"))
    verdict = judge(claim("1"), claim("2"), claim("3"), claim("4"), jobs=(*failed, bound("4")), rules=ClaimRules(1))
    assert verdict.owed == 3


@cases(
    ("finished", bound("9", "Complete"), True, 0, False),
    ("being deleted", bound("9", deleted=True), True, 0, False),
    ("finished since the poll began", bound("9", "Complete", seen=-1.0), False, 0, True),
    ("finished as the poll began", bound("9", "Complete", seen=-5.0), False, 0, True),
    ("this attempt, under another name", _another_name(bound("1", "Failed", attempt=1)), False, 0, True),
    ("free already", bound("9", "Complete", free=True), False, 0, False),
    ("running", bound("9"), False, 1, False),
    ("an earlier attempt", bound("1", "Failed", attempt=0, seen=-1.0), True, 0, False),
    ("of no claim", child("other", "Complete"), False, 0, False),
)
def test_a_job_that_no_claim_asks_for(job: CachedObject, freed: bool, strays: int, unclear: bool) -> None:
    verdict = judge(claim("1", attempt=1), jobs=(job,))
    assert (verdict.freed == [job], verdict.strays, verdict.unclear) == (freed, strays, unclear)


def test_a_job_is_given_its_item() -> None:
    container = {
        "name": "main",
        "env": [{"name": "A", "value": "1"}],
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    pod = {"containers": [container], "initContainers": [{"name": "first"}], "volumes": [{"name": "v", "emptyDir": {}}]}
    template = {"metadata": {"annotations": {"mine": "1"}}, "spec": pod}
    job = {"metadata": {"name": "work-1", "annotations": {"a": "b"}}, "spec": {"template": template}}
    made = binding.bind(job, ClaimedItem("7", 2, 1, "item", "json"))
    given = {
        job_annotations.CLAIM: "7",
        job_annotations.CLAIM_ATTEMPT: "2",
        job_annotations.ITEM: "item",
        job_annotations.ITEM_ENCODING: "json",
    }
    assert made["metadata"]["annotations"] == {"a": "b", **given}
    assert made["metadata"]["finalizers"] == [binding.FINALIZER]
    assert made["spec"]["template"]["metadata"]["annotations"] == {"mine": "1", **given}
    spec = made["spec"]["template"]["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["v", "penstock-item"]
    for each in (*spec["containers"], *spec["initContainers"]):
        variables = {one["name"]: one for one in each["env"]}
        assert variables["PENSTOCK_CLAIM"]["value"] == "7"
        assert variables["PENSTOCK_ITEM"]["valueFrom"]["fieldRef"]["fieldPath"].endswith("['penstock.dev/item']")
        assert each["volumeMounts"][-1]["mountPath"] == "/var/run/penstock"
    assert spec["containers"][0]["env"][0] == {"name": "A", "value": "1"}
    assert spec["containers"][0]["volumeMounts"][0] == {"name": "v", "mountPath": "/v"}
    assert pod["volumes"] == [{"name": "v", "emptyDir": {}}], "what was read is not changed"


@for_each((100_000, True), (100_001, False))
def test_a_large_item_is_a_file_only(size: int, there: bool) -> None:
    template = {"metadata": {}, "spec": {"containers": [{"name": "main"}]}}
    job = {"metadata": {"annotations": {}}, "spec": {"template": template}}
    made = binding.bind(job, ClaimedItem("7", 0, size, "x" * size))
    [container] = made["spec"]["template"]["spec"]["containers"]
    assert ("PENSTOCK_ITEM" in [each["name"] for each in container["env"]]) is there


def read(*held: ClaimedItem, limit: int | None = 100, waiting: float = 0, of: str = OF, known: bool = True) -> Reading:
    """A reading of the ledger."""
    one = sample(waiting, claimable=True) if known else sample(error="away", claimable=True)
    return Reading(36, micros(-1), 1, (one,), uid="u", ledger=ClaimLedger(of, limit, held if known else None))


def owner(*, ledger: str | None = ANNOTATION, metadata: Object | None = None, **spec: Any) -> Object:
    annotations = {**({LEDGER: ledger} if ledger else {}), **((metadata or {}).pop("annotations", {}))}
    given = {"scalingStrategy": CLAIMING, "rollout": {"strategy": "gradual"}, **spec}
    return scaled_job(metadata={"annotations": annotations, **(metadata or {})}, **given)


def writes(plan: Plan) -> list[Step]:
    """All steps one by one, without what only tells."""
    steps = [each for step in plan.steps for each in (step.steps if isinstance(step, Together) else (step,))]
    return [step for step in steps if isinstance(step, Create | Delete | Patch | PollNow | Unfinalize)]


def orders(plan: Plan) -> list[ClaimOrder | None]:
    return [step.order for step in plan.steps if isinstance(step, PollNow)]


def test_a_ledger_is_opened_by_the_annotation() -> None:
    reading = Reading(36, micros(-1), 1, (sample(3, claimable=True),), uid="u")
    first, second = writes(decide(snapshot(owner(ledger=None), reading=reading), NOW))
    assert isinstance(first, Patch)
    assert first.body == {"metadata": {"annotations": {LEDGER: ANNOTATION}}}
    assert second == PollNow()


def test_claims_get_jobs_and_an_order_that_stands_is_not_given_again() -> None:
    plan = decide(snapshot(owner(), bound("1"), reading=read(claim("1"), claim("2"))), NOW)
    [create] = writes(plan)
    assert isinstance(create, Create)
    assert create.body["metadata"]["name"] == name("2")
    assert LEDGER not in create.body["metadata"]["annotations"]


@cases(("returned", "returned", []), ("done", "done", [Create]))
def test_an_item_that_an_order_returns_gets_no_job_meanwhile(how: How, made: list[type[Step]]) -> None:
    order = ClaimOrder(7, OF, 100, settlements=(ClaimSettlement("1", how),))
    plan = decide(snapshot(owner(), reading=read(claim("1")), order=order), NOW)
    assert [type(step) for step in writes(plan) if isinstance(step, Create)] == made


@cases(
    ("a Job is missing", owner(), (bound("1"),), read(claim("1"), claim("2")), "2 claimed, 0 to settle, 1 to create"),
    ("a Job failed", owner(), (bound("1", "Failed"),), read(claim("1")), "1 claimed, 1 to settle, 0 to create"),
    (
        "the ledger is closed",
        owner(scalingStrategy={}),
        (),
        read(claim("1"), limit=0),
        "1 claimed, 1 to settle, 0 to create, closing the ledger",
    ),
    ("nothing is claimed", owner(scalingStrategy={}), (), read(limit=0), "the ledger is closed"),
    ("it cannot be read", owner(), (), read(known=False), "the ledger could not be read"),
)
def test_a_decision_on_claims_tells_why(body: Object, jobs: tuple[CachedObject, ...], found: Reading, why: str) -> None:
    assert decide(snapshot(body, *jobs, reading=found), NOW).why == why


def test_a_failed_claim_is_parked_without_retries() -> None:
    [order] = orders(decide(snapshot(owner(), bound("1", "Failed"), reading=read(claim("1"))), NOW))
    assert order is not None
    assert order.settlements == (ClaimSettlement("1", "parked", f"Job {name('1')} failed"),)


@for_each((0, "False"), (1, "True"))
def test_what_claims_is_active_while_one_item_waits(waiting: int, active: str) -> None:
    plan = decide(snapshot(owner(), reading=read(waiting=waiting)), NOW)
    assert condition(plan, "Active")["status"] == active
    [status] = statuses(plan)
    assert status["triggersTypes"] == "redis"
    assert ("lastActiveTime" in status) is (active == "True")


@cases(
    ("none was carried out", (), read(limit=None), 5),
    ("another maximum stands", (), read(limit=7), 5),
    ("a Job runs whose claim was lost", (bound("9"),), read(limit=5), 4),
    ("the reading is of another ledger", (), read(of="another", limit=5), 5),
)
def test_the_number_of_claims_is_ordered(jobs: tuple[CachedObject, ...], reading: Reading, limit: int) -> None:
    [order] = orders(decide(snapshot(owner(maxReplicaCount=5), *jobs, reading=reading), NOW))
    assert order == ClaimOrder(micros(0), OF, limit)


@cases(("by default", {}, False), ("head", {"takeFrom": "Head"}, False), ("tail", {"takeFrom": "Tail"}, True))
def test_items_are_taken_from_the_end_that_is_asked_for(settings: Object, tail: bool) -> None:
    spec = owner(scalingStrategy={**CLAIMING, "claim": settings})
    [order] = orders(decide(snapshot(spec, reading=read(limit=None)), NOW))
    assert order is not None
    assert order.tail is tail


def test_nothing_is_made_or_ordered_while_the_ledger_cannot_be_read() -> None:
    plan = decide(snapshot(owner(), bound("1", "Complete"), reading=read(known=False)), NOW)
    assert writes(plan) == []
    assert condition(plan, "Ready")["status"] == "False"


def test_a_deleted_job_is_released_by_a_patch_of_the_observed_version() -> None:
    job = bound("1", deleted=True)
    [patch] = writes(decide(snapshot(owner(), job, reading=read(claim("1"))), NOW))
    assert patch == Patch(job.ref, {"metadata": {"finalizers": ["other"]}}, "9")


def test_history_is_kept_until_claims_are_settled() -> None:
    jobs = (bound("1", "Complete"), bound("2", "Complete"), bound("3", "Complete", free=True))
    plan = decide(snapshot(owner(successfulJobsHistoryLimit=0), *jobs, reading=read(claim("1"))), NOW)
    deleted = [step.ref.name for step in writes(plan) if isinstance(step, Delete)]
    assert sorted(deleted) == sorted([name("2"), name("3")])
    [order] = orders(plan)
    assert order is not None
    assert order.settlements == (ClaimSettlement("1", "done"),)


def test_while_it_is_paused_claims_are_settled_and_nothing_is_taken_or_made() -> None:
    paused = owner(metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}})
    plan = decide(snapshot(paused, bound("1", "Complete"), reading=read(claim("1"), claim("2"))), NOW)
    [poll] = writes(plan)
    assert isinstance(poll, PollNow)
    assert poll.order is not None
    assert (poll.order.limit, poll.order.settlements) == (0, (ClaimSettlement("1", "done"),))


OTHER = {**TRIGGER, "metadata": {**TRIGGER["metadata"], "listName": "other"}}  # type: ignore[dict-item]


@cases(
    ("another list", {"triggers": [OTHER]}),
    ("another strategy", {"scalingStrategy": {}}),
    ("a second trigger", {"triggers": [TRIGGER, OTHER]}),
    ("a minimum", {"minReplicaCount": 1}),
)
def test_a_ledger_is_closed_before_another_one_or_none_is_used(spec: Object) -> None:
    body = owner(**spec)
    [order] = orders(decide(snapshot(body, reading=read()), NOW))
    assert order == ClaimOrder(micros(0), OF, 0), "nothing more is to be taken"
    [order] = orders(decide(snapshot(body, reading=read(claim("1"))), NOW))
    assert order == ClaimOrder(micros(0), OF, 0, bound=("1",)), "nothing goes back while items are still taken"
    [order] = orders(decide(snapshot(body, reading=read(claim("1"), limit=0)), NOW))
    assert order is not None
    assert order.settlements == (ClaimSettlement("1", "returned"),)
    assert writes(decide(snapshot(body, bound("1"), reading=read(claim("1"), limit=0)), NOW)) == []
    [patch, poll] = writes(decide(snapshot(body, reading=read(limit=0)), NOW))
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"annotations": {LEDGER: None}}}
    assert poll == PollNow()
    assert decide(snapshot(body, reading=read(limit=0)), NOW).steps[-1] == ComeBack(NOW)


def test_a_fallback_of_nothing_and_a_cool_down_of_none_are_no_contradiction() -> None:
    reading = Reading(36, micros(-1), 1, (sample(3, claimable=True),), uid="u")
    body = owner(ledger=None, fallback={"behavior": "none"}, jobCreationCooldownSeconds=0)
    plan = decide(snapshot(body, reading=reading), NOW)
    assert [step.body["metadata"]["annotations"] for step in plan.steps if isinstance(step, Patch)] == [
        {LEDGER: ANNOTATION}
    ]


def test_jobs_of_claims_are_told_what_asked_for_them() -> None:
    reading = Reading(36, micros(-1), 1, (sample(3),), uid="u", ledger=ClaimLedger(OF, 5, (claim("1"),)))
    plan = decide(snapshot(owner(passTrigger=True), reading=reading), NOW)
    (job,) = (
        each.body
        for step in plan.steps
        if isinstance(step, Together)
        for each in step.steps
        if isinstance(each, Create)
    )
    told = {each["name"]: each.get("value") for each in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    expected = {"PENSTOCK_TRIGGER": "s0-redis-work", "PENSTOCK_QUEUE_LENGTH": "3", "PENSTOCK_READING": "36"}
    assert expected.items() <= told.items()
    assert "PENSTOCK_ITEM" in told


@cases(
    ("several triggers", {"triggers": [TRIGGER, OTHER]}, "claimed from one trigger"),
    ("a minimum", {"minReplicaCount": 1}, "minReplicaCount must be 0"),
    ("a fallback", {"fallback": {"replicas": 2}}, "there can be no fallback"),
    ("a cool-down", {"jobCreationCooldownSeconds": 9}, "jobCreationCooldownSeconds must be 0"),
    ("a trigger without items", {}, "items of trigger type redis cannot be claimed"),
    (
        "all of it at once",
        {"triggers": [TRIGGER, OTHER], "minReplicaCount": 1, "fallback": {"replicas": 2}},
        "there are several; minReplicaCount must be 0, because there is a Job for an item only; there can be",
    ),
)
def test_what_cannot_be_claimed_is_said(spec: Object, message: str) -> None:
    reading = Reading(36, micros(-1), 1, (sample(3),), uid="u")
    plan = decide(snapshot(owner(ledger=None, **spec), reading=reading), NOW)
    assert writes(plan) == []
    assert condition(plan, "Ready")["status"] == "False"
    assert message in condition(plan, "Ready")["message"]


def leaving(**more: Any) -> Object:
    return owner(metadata={"deletionTimestamp": "2026-03-01T12:00:00Z", **more})


def test_a_deleted_object_gives_its_items_back_before_it_goes() -> None:
    first = decide(snapshot(leaving(), bound("1"), reading=read(claim("1"))), NOW)
    poll, delete = writes(first)
    assert poll == PollNow(ClaimOrder(micros(0), OF, 0, bound=("1",)))
    assert isinstance(delete, Delete)
    dying = bound("1", deleted=True)
    [patch] = writes(decide(snapshot(leaving(), dying, reading=read(claim("1"), limit=0)), NOW))
    assert isinstance(patch, Patch)
    assert patch.ref == dying.ref
    [order] = orders(decide(snapshot(leaving(), gone(name("1")), reading=read(claim("1"), limit=0)), NOW))
    assert order is not None
    assert order.settlements == (ClaimSettlement("1", "returned"),)
    [last] = writes(decide(snapshot(leaving(), gone(name("1")), reading=read(limit=0)), NOW))
    assert isinstance(last, Patch)
    assert last.body == {"metadata": {"finalizers": [], "annotations": {LEDGER: None}}}


def test_a_deleted_object_waits_for_a_server_that_is_away_and_says_so() -> None:
    plan = decide(snapshot(leaving(), reading=read(known=False)), NOW)
    assert writes(plan) == []
    assert "deletion waits for that: away" in condition(plan, "Ready")["message"]


def test_jobs_of_an_object_that_is_gone_are_let_go() -> None:
    body = owner()
    seen = snapshot(body, bound("1"), bound("2", free=True))
    plan = decide(type(seen)(ref=seen.ref, body=None, children=seen.children), NOW)
    assert [step.ref.name for step in writes(plan) if isinstance(step, Unfinalize)] == [name("1")]
    assert decide(type(seen)(ref=seen.ref, body=None), NOW) == NOTHING
