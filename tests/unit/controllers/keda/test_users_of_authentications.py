"""Lists of users of an authentication follow the references of objects."""

from dataclasses import replace

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, at, reading, sample, scaled_job
from tests.unit.controllers.factories import snapshot as of_job
from tests.unit.controllers.keda.scaledobject.scaledobjects import TRIGGER, scale, scaled_object
from tests.unit.controllers.keda.scaledobject.scaledobjects import snapshot as of_object
from workers.api.kinds import CLUSTER_TRIGGER_AUTHENTICATION, TRIGGER_AUTHENTICATION, Object, Ref
from workers.controllers.keda.scaledjob import decide as decide_job
from workers.controllers.keda.scaledobject import decide as decide_object
from workers.decision.plan import EditList, Patch, PatchStatus, Plan

LOGIN = Ref(TRIGGER_AUTHENTICATION, "default", "login")
SHARED = Ref(CLUSTER_TRIGGER_AUTHENTICATION, "", "shared")


def trigger(*references: Object) -> list[Object]:
    return [{**TRIGGER, "name": f"t{place}", "authenticationRef": each} for place, each in enumerate(references)]


def samples(number: int) -> list:
    return [sample(0, name=f"s{place}") for place in range(number)]


def lists(plan: Plan) -> list[EditList]:
    return [step for step in plan.steps if isinstance(step, EditList)]


@cases(
    ("a first one", [{"name": "login"}], "", [(LOGIN, "work", True)]),
    ("twice the same", [{"name": "login"}] * 2, "", [(LOGIN, "work", True)]),
    (
        "one that all namespaces share: users by their namespace",
        [{"name": "shared", "kind": "ClusterTriggerAuthentication"}],
        "",
        [(SHARED, "default/work", True)],
    ),
    ("nothing new", [{"name": "login"}], "login", []),
    (
        "one less: its kind is unknown",
        [{"name": "login"}],
        "shared,login",
        [
            (LOGIN, "work", True),
            (replace(LOGIN, name="shared"), "work", False),
            (SHARED, "default/work", False),
            (replace(SHARED, name="login"), "default/work", False),
        ],
    ),
    ("none", [{}], "login", [(LOGIN, "work", False), (replace(SHARED, name="login"), "default/work", False)]),
    ("a kind that is none", [{"name": "x", "kind": "Secret"}], "", []),
)
def test_lists_follow_the_spec(references: list, observed: str, expected: list) -> None:
    status = {"authenticationsTypes": observed}
    found = scaled_object(triggers=trigger(*(each or None for each in references)), status=status)
    plan = decide_object(of_object(found, scale(0), reading(*samples(len(references)))), NOW)
    assert lists(plan) == [EditList(ref, "scaledobjects", *rest) for ref, *rest in expected]
    (status_step,) = (place for place, step in enumerate(plan.steps) if isinstance(step, PatchStatus))
    if expected and "x" not in str(references):
        assert plan.steps.index(lists(plan)[-1]) == status_step - 1, "just before the status that says so"


def test_names_may_come_without_namespaces() -> None:
    shared = [{"name": "shared", "kind": "ClusterTriggerAuthentication"}]
    bare = frozenset({"bare-user-names"})
    found = scaled_object(triggers=trigger(*shared))
    plan = decide_object(of_object(found, scale(0), reading(*samples(1))), NOW, bare)
    assert lists(plan) == [EditList(SHARED, "scaledobjects", "work")]
    going = {"deletionTimestamp": at(-1), "finalizers": ["finalizer.keda.sh"]}
    plan = decide_job(of_job(scaled_job(metadata=going, triggers=trigger(*shared))), NOW, bare)
    assert lists(plan) == [EditList(SHARED, "scaledjobs", "work", present=False)]


def test_scaled_jobs_have_a_list_of_their_own() -> None:
    body = scaled_job(triggers=trigger({"name": "login"}))
    plan = decide_job(of_job(body, reading=reading(*samples(1))), NOW)
    assert lists(plan) == [EditList(LOGIN, "scaledjobs", "work")]
    paused = scaled_job(
        triggers=trigger({"name": "login"}), metadata={"annotations": {"autoscaling.keda.sh/paused": "true"}}
    )
    assert lists(decide_job(of_job(paused), NOW)) == [EditList(LOGIN, "scaledjobs", "work")]


@for_each("job", "object")
def test_who_goes_is_in_no_list_any_more(kind: str) -> None:
    going = {"deletionTimestamp": at(-1), "finalizers": ["finalizer.keda.sh"]}
    triggers = trigger({"name": "login"})
    if kind == "job":
        plan = decide_job(of_job(scaled_job(metadata=going, triggers=triggers)), NOW)
    else:
        plan = decide_object(of_object(scaled_object(metadata=going, triggers=triggers), scale(1)), NOW)
    assert lists(plan) == [EditList(LOGIN, f"scaled{kind}s", "work", present=False)]
    assert isinstance(plan.steps[plan.steps.index(lists(plan)[-1]) + 1], Patch), "before it may go"
