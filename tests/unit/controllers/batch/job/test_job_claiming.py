"""Adoption and release of a Job's pods, and pods that have lost their Job."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import NOW, UID, at, condition, entry, job, job_snapshot, pod
from tests.unit.controllers.plans import back, shape, staged
from workers.api.kinds import JOB, POD, Ref, owner_reference
from workers.controllers.batch.job import controller, decide, orphans
from workers.controllers.batch.job.pods import TRACKING
from workers.controllers.label_selectors import selects
from workers.controllers.pod_names import pod_name
from workers.decision.plan import NOTHING, Create, MarkObject, Patch, Plan, Together, Unfinalize
from workers.decision.snapshot import Snapshot

STARTED = {"startTime": at(-60), "ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
SELECTOR = {"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}
MINE = {"batch.kubernetes.io/controller-uid": UID, "job-name": "crunch"}
GOING = {"deletionTimestamp": at(-1)}
OWN = "example.com/own"
CREATED = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "name": "r", "uid": "u"}


def selected(**more):
    return job(status=STARTED, selector=SELECTOR, **more)


OURS = owner_reference(JOB, selected())


def run(body, *pods, unowned=()):
    return decide(job_snapshot(body, *pods, unowned=tuple(unowned)), NOW)


def unowned(name="lost", phase="Running", **metadata):
    return pod(name, phase, metadata={"labels": MINE, "finalizers": [], **metadata})


def owned(name="own", phase="Running", **metadata):
    return pod(name, phase, metadata={"labels": MINE, "ownerReferences": [OURS], **metadata})


def patches(plan):
    return {step.ref.name: step.body["metadata"] for step in staged(plan, Patch)}


def test_a_pod_that_nobody_controls_is_adopted_before_anything_else():
    plan = run(selected(), unowned=[unowned()])
    assert shape(plan) == ["Patch", "Patchs", "ComeBack"]
    assert plan.steps[0] == Patch(Ref(JOB, "default", "crunch"), {"metadata": {"uid": UID}}, "7")
    metadata = {"ownerReferences": [OURS], "finalizers": [TRACKING]}
    assert plan.steps[1] == Together((Patch(Ref(POD, "default", "lost"), {"metadata": metadata}, "5"),))
    assert back(plan) == 0


@cases(
    ("its own finalizers stay", {"finalizers": [OWN]}, [OURS], [OWN, TRACKING]),
    ("one that is tracked already", {"finalizers": [TRACKING]}, [OURS], None),
    ("other owners stay", {"ownerReferences": [CREATED]}, [CREATED, OURS], [TRACKING]),
    ("a finished one may have been counted before", {"phase": "Succeeded"}, [OURS], None),
    ("also if it still holds the finalizer", {"phase": "Failed", "finalizers": [TRACKING]}, [OURS], None),
    ("no labels", {"labels": {}}, None, None),
    ("another Job's", {"labels": {**MINE, "batch.kubernetes.io/controller-uid": "another"}}, None, None),
    ("one that is being deleted", GOING, None, None),
)
def test_what_adoption_writes(given, owners, finalizers):
    written = patches(run(selected(), unowned=[unowned(**given)])).get("lost", {})
    expected = {"ownerReferences": owners, "finalizers": finalizers}
    assert written == {field: value for field, value in expected.items() if value is not None}


RELEASED = {"ownerReferences": [], "finalizers": []}
SHARED = {"finalizers": [TRACKING, OWN], "ownerReferences": [CREATED, OURS]}


@cases(
    ("it matches", owned(), None),
    ("it matches no longer", owned(labels={}), RELEASED),
    ("whatever else becomes of it", owned(labels={}, **GOING), RELEASED),
    ("what is not ours stays", owned(labels={}, **SHARED), {"ownerReferences": [CREATED], "finalizers": [OWN]}),
)
def test_what_release_writes(found, metadata):
    plan = run(selected(), found)
    assert patches(plan).get("own") == metadata
    assert [type(step) for step in plan.steps].count(Patch) == 0


def test_a_job_on_its_way_out_or_finished_claims_nothing():
    for body in (
        selected(metadata=GOING),
        {**selected(), "status": {**STARTED, "conditions": [condition("Complete")]}},
    ):
        assert patches(run(body, owned(labels={}), unowned=[unowned()])) == {}


def test_the_name_of_a_released_pod_is_not_asked_for_again():
    body = selected()
    released = unowned(pod_name(body, "", 0), labels={})
    (step,) = staged(run(body, unowned=[released]), Create)
    assert step.body["metadata"]["name"] == pod_name(body, "", 1)


def test_a_job_with_a_selector_of_its_own_looks_for_pods_and_gives_them_no_labels():
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "main"}]}}
    body = job(status=STARTED, manualSelector=True, selector={"matchLabels": {"app": "x"}}, template=template)
    plan = run(body)
    assert back(plan) == 5
    assert staged(plan, Create)[0].body["metadata"]["labels"] == {"app": "x"}
    assert patches(run(body, unowned=[unowned(labels={"app": "x"})])) != {}
    done = [condition("SuccessCriteriaMet"), condition("Complete")]
    assert run({**body, "status": {**STARTED, "conditions": done}}) == NOTHING


def expression(key, operator, *values):
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


@for_each(
    ({}, {}, True),
    ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
    ({"matchLabels": {"a": "b", "c": "d"}}, {"a": "b"}, False),
    (expression("a", "In", "b", "c"), {"a": "c"}, True),
    (expression("a", "In", "b"), {}, False),
    (expression("a", "NotIn", "b"), {}, True),
    (expression("a", "NotIn", "b"), {"a": "b"}, False),
    (expression("a", "Exists"), {"a": ""}, True),
    (expression("a", "Exists"), {"b": ""}, False),
    (expression("a", "DoesNotExist"), {"a": ""}, False),
    (expression("a", "Greater"), {"a": "9"}, False),
    ({"matchLabels": {"a": "b"}, **expression("c", "Exists")}, {"a": "b"}, False),
)
def test_which_labels_a_selector_matches(selector, labels, matches):
    assert selects(selector)({"metadata": {"labels": labels}}) is matches
    assert selects(selector)({"metadata": {"labels": None}}) is selects(selector)({"metadata": {}})


# Pods that have lost their Job


JOB_REF = Ref(JOB, "default", "crunch")
LETTING_GO = Plan((Unfinalize(Ref(POD, "default", "x"), "uid-x", TRACKING),), "no Job will count it")
TELLING = Plan((MarkObject(JOB_REF),), "its Job may take it back")


def decided(orphan, owner, jobs="all"):
    relatives = dict.fromkeys(orphans(jobs).relatives(orphan.body), owner)
    return orphans(jobs).decide(Snapshot(orphan.ref, orphan.body, relatives=relatives), NOW)


def tracked(**metadata):
    """A pod without a controller that still holds the finalizer."""
    return unowned("x", finalizers=[TRACKING], **metadata)


def owned_by(deletionTimestamp=None, **owner):  # noqa: N803 - the field's name
    """A pod whose owner differs from the Job in these fields."""
    return owned("x", ownerReferences=[{**OURS, **owner}], deletionTimestamp=deletionTimestamp)


def ended(type_):
    return {**selected(), "status": {"conditions": [condition(type_)]}}


FOREIGN = selected(managedBy="example.com/other")


@cases(
    ("its Job's own affair", owned("x"), False, JOB_REF),
    ("being deleted, its Job may be gone", owned("x", **GOING), True, JOB_REF),
    ("but nothing holds it", owned("x", finalizers=[], **GOING), False, JOB_REF),
    ("another kind's", owned("x", ownerReferences=[{**CREATED, "controller": True}], **GOING), False, None),
    ("another group's Job", owned_by(apiVersion="batch.volcano.sh/v1alpha1", **GOING), False, None),
    ("an owner that does not control it", owned_by(controller=False), True, JOB_REF),
    ("tracked, without a controller", tracked(), True, JOB_REF),
    ("tracked and without a name", tracked(labels={}), True, None),
    ("its Job may want it", unowned("x"), True, JOB_REF),
    ("not any more", unowned("x", **GOING), False, JOB_REF),
    ("named by the newer label", unowned("x", labels={"batch.kubernetes.io/job-name": "crunch"}), True, JOB_REF),
    ("without any label of a Job", unowned("x", labels={"app": "x"}), False, None),
)
def test_which_pods_are_looked_at(found, accepted, relative):
    assert orphans("all").accepts(found.body) is accepted
    assert orphans("all").relatives(found.body) == ((relative,) if relative else ())


@cases(
    ("its Job is gone", owned("x", **GOING), None, LETTING_GO),
    ("another Job has its name", owned("x", **GOING), selected(metadata={"uid": "another"}), LETTING_GO),
    ("its Job has finished", owned("x", **GOING), ended("Failed"), LETTING_GO),
    ("its Job will count it", owned("x", **GOING), selected(), NOTHING),
    ("its Job is another controller's", owned("x", **GOING), FOREIGN, NOTHING),
    ("the Job it names is gone", tracked(), None, LETTING_GO),
    ("the Job it names may take it back", tracked(), selected(), TELLING),
    ("also without the finalizer", unowned("x"), selected(), TELLING),
    ("nothing holds it", unowned("x"), None, NOTHING),
    ("the Job it names is going", tracked(), selected(metadata=GOING), LETTING_GO),
    ("it is going itself", tracked(**GOING), selected(), LETTING_GO),
    ("the Job it names does not select it", tracked(labels={"job-name": "crunch"}), selected(), LETTING_GO),
    ("the Job it names has finished", tracked(), ended("Complete"), LETTING_GO),
    ("the Job it names is another controller's", tracked(), FOREIGN, NOTHING),
    ("it names none", tracked(labels={}), None, LETTING_GO),
)
def test_what_becomes_of_a_pod_without_its_job(found, owner, plan):
    assert decided(found, owner) == plan


def test_pods_of_jobs_that_are_not_ours_are_left_alone():
    for found in (owned("x", **GOING), tracked()):
        finished = ended("Complete")
        assert decided(found, finished, "managed") == NOTHING
        ours = {**finished, "spec": {**finished["spec"], "managedBy": "penstock.dev/job-controller"}}
        assert decided(found, ours, "managed") == LETTING_GO


def test_a_pod_that_is_gone_needs_nothing():
    assert orphans("all").decide(Snapshot(Ref(POD, "default", "x"), None), NOW) == NOTHING


def test_the_controller_sees_pods_that_nobody_controls():
    assert (controller("all").children, controller("all").adopts) == ((POD,), (POD,))
    assert run(selected(), entry(POD, "gone", None), unowned=[unowned(labels={})]).steps != ()
