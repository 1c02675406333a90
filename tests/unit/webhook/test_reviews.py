"""AdmissionReviews of API servers, and their answers."""

import base64
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver.patch.patches import json_patch
from deploy.webhook import json_patch as differences
from deploy.webhook import reviews
from deploy.webhook.registration import MUTATING, VALIDATING, Place, wanted
from tests.support.tables import cases, for_each
from tests.unit.admission.bodies import group, job, known, queue, task
from tests.unit.controllers.factories import scaled_job
from workers.admission.admission_options import AdmissionOptions
from workers.admission.findings import Finding
from workers.admission.lookup import Known
from workers.admission.rules import RULES
from workers.admission.volcano import job as rules
from workers.api.kinds import NAMESPACE, POD_GROUP, QUEUE, Ref

KEYS = st.sampled_from(["a", "~", "/", "a/b~"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_the_patch_makes_one_document_out_of_another(old, new):
    operations = differences.patch(old, new)
    assert exact(json_patch({"root": copy.deepcopy(old)}, differences.patch({"root": old}, {"root": new}))) == exact(
        {"root": new}
    )
    assert bool(operations) is (exact(old) != exact(new))


def exact(value):
    """JSON, in which 1 and true differ."""
    return json.dumps(value, sort_keys=True)


def asked(plural, group_, version, body, old=None, operation="CREATE", **more):
    """A question."""
    resource = {"group": group_, "version": version, "resource": plural}
    request = {"uid": "u", "operation": operation, "resource": resource, "object": body, "oldObject": old, **more}
    return reviews.read({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def job_asked(body, old=None, operation="CREATE", **more):
    return asked("jobs", "batch.volcano.sh", "v1alpha1", body, old, operation, **more)


def queue_asked(body, old=None, operation="CREATE"):
    return asked("queues", "scheduling.volcano.sh", "v1beta1", body, old, operation)


OPTIONS = AdmissionOptions()
BAD = job(task(minAvailable=2))


def response(answer):
    """Returns the response of an answer without its fixed fields."""
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"].pop("uid") == "u"
    return answer["response"]


def test_a_new_job_is_filled_in_by_a_patch():
    answer = response(job_asked(job()).mutation(known(), OPTIONS))
    assert (answer["allowed"], answer["patchType"]) == (True, "JSONPatch")
    assert json_patch(job(), json.loads(base64.b64decode(answer["patch"]))) == rules.defaulted(job())


def test_an_object_is_where_it_was_asked_about():
    body = group()
    del body["metadata"]["namespace"]
    review = asked("podgroups", "scheduling.volcano.sh", "v1beta1", body, namespace="team")
    assert review.mutating_needs == (Ref(NAMESPACE, "", "team"),)
    assert review.namespace == "team"
    lookup = Known({Ref(NAMESPACE, "", "team"): {"metadata": {"name": "team"}}})
    answer = response(review.mutation(lookup, OPTIONS))
    assert json.loads(base64.b64decode(answer["patch"])) == [{"op": "add", "path": "/spec/queue", "value": "default"}]


@cases(
    ("complete", job_asked(rules.defaulted(job()))),
    ("changed", job_asked(job(), job(), "UPDATE")),
    ("its status", job_asked(job(), subResource="status")),
    ("another version", asked("jobs", "batch.volcano.sh", "v2", BAD)),
    ("another kind", asked("jobs", "batch", "v1", BAD)),
)
def test_a_complete_object_gets_no_patch(review):
    assert response(review.mutation(known(), OPTIONS)) == {"allowed": True}


@cases(
    ("right", job_asked(job()), None),
    ("wrong", job_asked(BAD), (422, "Invalid", ["spec.tasks[0].minAvailable"])),
    ("wrong, but somebody else's", asked("jobs", "batch", "v1", BAD), None),
    ("wrong, but its status", job_asked(BAD, subResource="status"), None),
    ("changed", job_asked(BAD, job(), "UPDATE"), (422, "Invalid", ["spec.tasks[0].minAvailable"])),
    ("deleted", job_asked(None, BAD, "DELETE"), None),
    ("a queue that must stay", queue_asked(None, queue("default"), "DELETE"), (403, "Forbidden", ["metadata.name"])),
    ("a queue that may go", queue_asked(None, queue("idle"), "DELETE"), None),
)
def test_an_answer_names_every_field(review, expected):
    answer = response(review.validation(known(queue("idle")), OPTIONS))
    assert answer["allowed"] is (expected is None)
    if expected:
        status = answer["status"]
        causes = [cause["field"] for cause in status["details"]["causes"]]
        assert (status["code"], status["reason"], causes) == expected
        assert all(field in status["message"] for field in causes)


MQ = {"type": "ibmmq", "metadata": {}}
UNSUPPORTED = ["spec.triggers[0].type: trigger type ibmmq is not supported yet"]


@cases(
    ("nothing to say", scaled_job(), None, None),
    ("a type of KEDA's", scaled_job(triggers=[MQ]), None, UNSUPPORTED),
    ("a changed spec", scaled_job(triggers=[MQ]), scaled_job(), UNSUPPORTED),
    ("the same spec", scaled_job(triggers=[MQ]), scaled_job(triggers=[MQ], metadata={"labels": {}}), None),
)
def test_an_accepted_object_may_be_warned_of(body, old, expected):
    operation = "UPDATE" if old else "CREATE"
    answer = response(asked("scaledjobs", "keda.sh", "v1alpha1", body, old, operation).validation(known(), OPTIONS))
    assert (answer["allowed"], answer.get("warnings")) == (True, expected)


def test_the_api_servers_findings_on_templates_are_in_the_answer():
    review = job_asked(job())
    found = [Finding("spec.tasks[0].template.spec.containers[0].image", "Required value")]
    assert response(review.validation(known(), OPTIONS, found))["status"]["message"] == str(found[0])
    wrong = job_asked(job(task(minAvailable=2)))
    twice = [Finding("spec.tasks[0].minAvailable", "in other words"), *found]
    causes = response(wrong.validation(known(), OPTIONS, twice))["status"]["details"]["causes"]
    assert [cause["field"] for cause in causes] == ["spec.tasks[0].minAvailable", found[0].field]
    assert [path for path, _ in review.templates] == ["spec.tasks[0].template"]
    assert job_asked(job(), job(), "UPDATE").templates == ()
    assert job_asked(job(), subResource="status").templates == ()


@cases(
    ("a job", job_asked(job()), (), (QUEUE,)),
    ("a job's status", job_asked(job(), subResource="status"), (), ()),
    ("a queue", queue_asked(queue()), (), (QUEUE,)),
    ("a queue to be deleted", queue_asked(None, queue(), "DELETE"), (), (QUEUE, POD_GROUP)),
    (
        "a group",
        asked("podgroups", "scheduling.volcano.sh", "v1beta1", group()),
        (Ref(NAMESPACE, "", "default"),),
        (QUEUE,),
    ),
    ("a pod", asked("pods", "", "v1", {"metadata": {}}), (), ()),
)
def test_a_review_needs_only_the_objects_of_its_rules(review, looks, judges):
    assert (review.mutating_needs, review.validating_needs) == (looks, judges)


@for_each(None, [], "x", {}, {"kind": "Pod", "apiVersion": "v1"}, {"request": 1})
def test_an_invalid_review_is_rejected(document):
    with pytest.raises(reviews.NotAReview):
        reviews.read(document)


PLACE = Place("system", "hook")


def webhooks(place):
    """All webhooks of both configurations, by name."""
    found = wanted(place, OPTIONS, "bundle")
    assert [ref.kind for ref in found] == [MUTATING, VALIDATING]
    return {each["name"]: each for body in found.values() for each in body["webhooks"]}


def test_every_rule_is_asked_for():
    found = webhooks(PLACE)
    asked_for = {name: (each["rules"][0]["resources"], each["rules"][0]["apiGroups"]) for name, each in found.items()}
    for known_rules in RULES.values():
        kind = known_rules.kind
        names = [name for name, what in asked_for.items() if what == ([kind.plural], [kind.group])]
        assert len(names) == 1 + known_rules.fills_in
    assert len(set(found)) == len(RULES) + sum(each.fills_in for each in RULES.values())
    assert {each["sideEffects"] for each in found.values()} == {"None"}
    changing = {name for name, each in found.items() if "UPDATE" in each["rules"][0]["operations"]}
    assert changing == {name for name in found if name.startswith("validate-") and "-pods-core" not in name}
    deleting = [name for name, each in found.items() if "DELETE" in each["rules"][0]["operations"]]
    assert deleting == ["validate-queues-scheduling-volcano-sh.penstock.dev"]


@for_each(True, False)
def test_foreign_pods_start_without_the_webhook(choosing):
    for name, each in webhooks(Place("system", "hook", match_conditions=choosing)).items():
        if "-pods-core" not in name:
            # Of these kinds the controller says what is wrong, as KEDA's does without its webhook.
            warned = any(part in name for part in ("-keda-sh", "-penstock-dev.", "-jobtemplates-"))
            assert each["failurePolicy"] == ("Ignore" if warned else "Fail")
            continue
        assert each["failurePolicy"] == ("Fail" if choosing else "Ignore")
        assert ("matchConditions" in each) is choosing
        (excluded,) = each["namespaceSelector"]["matchExpressions"]
        assert excluded["values"] == ["kube-system", "system"]


def test_the_configuration_holds_the_webhooks_address():
    service = {"namespace": "system", "name": "hook", "path": "/validate", "port": 443}
    own = webhooks(PLACE)["validate-pods-core.penstock.dev"]["clientConfig"]
    assert own == {"service": service, "caBundle": base64.b64encode(b"bundle").decode()}
    other = webhooks(Place("system", "hook", "https://10.0.0.7:8443/"))["mutate-pods-core.penstock.dev"]["clientConfig"]
    assert other["url"] == "https://10.0.0.7:8443/mutate"
