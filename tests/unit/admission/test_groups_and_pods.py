"""PodGroups, ordinary pods and CronJobs."""

import copy

import pytest

from tests.support.tables import cases
from tests.unit.admission.bodies import fields, group, job, known, queue, task
from workers.admission import pod
from workers.admission.admission_options import AdmissionOptions
from workers.admission.lookup import Known, Unseen
from workers.admission.volcano import cronjob, podgroup
from workers.api.kinds import NAMESPACE, QUEUE, Ref
from workers.api.references import GANG_GATE, QUEUE_NAME

OURS = {QUEUE_NAME: "team"}
QUEUES = {
    "none": (None, {}, "default"),
    "an empty text": ("", {}, "default"),
    "the default": ("default", {}, "default"),
    "its own": ("own", {}, "own"),
    "none, and the namespace's": (None, OURS, "team"),
    "the default, and the namespace's": ("default", OURS, "team"),
    "its own, and the namespace's": ("own", OURS, "own"),
}


@cases(QUEUES)
def test_a_group_goes_into_the_queue_of_its_namespace_if_it_names_none(named, annotations, expected):
    body = group(queue=named)
    before = copy.deepcopy(body)
    cluster = known(annotations=annotations)
    filled = podgroup.defaulted(body, cluster)
    assert body == before
    assert filled["spec"]["queue"] == expected
    assert podgroup.defaulted(filled, cluster) == filled


@cases(
    ("a group's", group(), "default"),
    ("another", {"metadata": {"namespace": "team"}}, "team"),
    ("none", {"metadata": {}}, "default"),
)
def test_the_namespace_that_is_looked_at(body, name):
    assert podgroup.namespace_of(body) == Ref(NAMESPACE, "", name)


TIERS = {"highestTierAllowed": 0, "highestTierName": "rack"}
GROUPS = {
    "an open queue": (group(queue="open"), []),
    "no queue": (group(), []),
    "a queue with others below it": (group(queue="root"), []),
    "a queue that is closed": (group(queue="closed"), ["spec.queue"]),
    "a queue that is not there": (group(queue="nowhere"), ["spec.queue"]),
    "both ways to name a tier": (group(networkTopology=TIERS), ["spec.networkTopology"]),
    "both ways to name a part's tier": (
        group(subGroupPolicy=[{"name": "a"}, {"name": "b", "networkTopology": TIERS}]),
        ["spec.subGroupPolicy[1].networkTopology"],
    ),
    "amounts": (group(minResources={"cpu": "1500m", "pods": 3, "memory": "0"}), []),
    "an amount below 0": (group(minResources={"cpu": "-1", "pods": "1"}), ["spec.minResources[cpu]"]),
    "no amount": (group(minResources={"cpu": "abc"}), ["spec.minResources[cpu]"]),
    "as many pods as a Job has": (group(minMember=150_000), []),
    "more": (group(minMember=150_001), ["spec.minMember"]),
    "one way to name a tier": (group(networkTopology={"highestTierAllowed": 1}), []),
}


@cases(GROUPS)
def test_a_new_group_needs_an_open_queue(body, expected):
    cluster = known(queue("open"), queue("closed", "Closed"))
    assert fields(podgroup.problems(body, None, cluster)) == expected
    assert podgroup.problems(body, body, cluster) == []


def a_pod(scheduler="volcano", owner=None, annotations=None, **spec):
    """A pod."""
    metadata = {"name": "p", "namespace": "default", "annotations": annotations or {}}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": owner[0], "kind": owner[1], "name": "o", "controller": True}]
    return {"metadata": metadata, "spec": {"schedulerName": scheduler, **spec}}


GATE, OTHER = {"name": GANG_GATE}, {"name": "example.com/wait"}
OPTIONS = AdmissionOptions(schedulers=("volcano", "gang"), pod_scheduler="plain")
PODS = {
    "ours": (a_pod(), "plain", [GATE]),
    "ours by another name": (a_pod("gang"), "plain", [GATE]),
    "somebody else's": (a_pod("default-scheduler"), "default-scheduler", []),
    "with another gate": (a_pod(schedulingGates=[OTHER]), "plain", [OTHER, GATE]),
    "with our gate": (a_pod(schedulingGates=[GATE]), "plain", [GATE]),
    "with a node": (a_pod(nodeName="n"), "plain", []),
    "a ReplicaSet's": (a_pod(owner=("apps/v1", "ReplicaSet")), "plain", [GATE]),
    "a batch Job's": (a_pod(owner=("batch/v1", "Job")), "plain", [GATE]),
    "a Volcano Job's": (a_pod(owner=("batch.volcano.sh/v1alpha1", "Job")), "volcano", []),
}


@cases(PODS)
def test_pods_of_our_schedulers_are_held_back(body, scheduler, gates):
    before = copy.deepcopy(body)
    filled = pod.defaulted(body, OPTIONS)
    assert body == before
    assert filled["spec"]["schedulerName"] == scheduler
    assert filled["spec"].get("schedulingGates") == (gates or None)
    assert pod.defaulted(filled, OPTIONS) == filled


def test_no_pod_is_gated_without_gang_admission():
    assert pod.defaulted(a_pod(), AdmissionOptions(gangs=False)) == a_pod()


LEAST, MOST = (f"metadata.annotations[{name}]" for name in (pod.MIN_AVAILABLE, pod.MAX_UNAVAILABLE))
BUDGETS = {
    **{f"least {amount}": ({pod.MIN_AVAILABLE: amount}, []) for amount in ("1", "30", "1%", "99%")},
    **{
        f"not least {amount}": ({pod.MIN_AVAILABLE: amount}, [LEAST]) for amount in ("0", "-1", "1.5", "0%", "100%", "")
    },
    **{f"not most {amount}": ({pod.MAX_UNAVAILABLE: amount}, [MOST]) for amount in ("many", "%", "5 ")},
    "most": ({pod.MAX_UNAVAILABLE: "50%"}, []),
    "both": ({pod.MIN_AVAILABLE: "1", pod.MAX_UNAVAILABLE: "1"}, ["metadata.annotations"]),
}


@cases(BUDGETS)
def test_how_many_pods_must_stay_is_a_number_or_a_percentage(annotations, expected):
    held_back = pod.defaulted(a_pod(annotations=annotations), OPTIONS)
    for body in (a_pod(annotations=annotations), held_back):
        assert fields(pod.problems(body, None, OPTIONS)) == expected
        assert pod.problems(body, body, OPTIONS) == []
    assert pod.problems(a_pod("default-scheduler", annotations=annotations), None, OPTIONS) == []


def cron_job(name="nightly", template=None, **spec):
    """A CronJob of Volcano."""
    found = {"schedule": "0 2 * * *", "jobTemplate": {"spec": (template or job())["spec"]}, **spec}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": found}


CRON_JOBS = {
    "five fields": (cron_job(), []),
    "a word": (cron_job(schedule="@every 90m"), []),
    "six fields": (cron_job(schedule="0 0 2 * * *"), ["spec.schedule"]),
    "no schedule": (cron_job(schedule="now and then"), ["spec.schedule"]),
    "a zone in the schedule": (cron_job(schedule="TZ=UTC 0 2 * * *"), ["spec.schedule"]),
    "a zone in the schedule in other words": (cron_job(schedule="CRON_TZ=UTC 0 2 * * *"), ["spec.schedule"]),
    "a zone": (cron_job(timeZone="Europe/Berlin"), []),
    "no zone": (cron_job(timeZone="Middle/Earth"), ["spec.timeZone"]),
    "an empty zone": (cron_job(timeZone=""), ["spec.timeZone"]),
    "the machine's zone": (cron_job(timeZone="Local"), ["spec.timeZone"]),
    "the longest name": (cron_job("n" * 47), []),
    "a name without room for the time": (cron_job("n" * 53), ["metadata.name"]),
    "a name without room for the pods": (cron_job("n" * 52), ["spec.jobTemplate.spec.tasks[0].name"]),
    "a Job that would be refused": (
        cron_job(template=job(task(minAvailable=2))),
        ["spec.jobTemplate.spec.tasks[0].minAvailable", "spec.jobTemplate.spec.minAvailable"],
    ),
    "a Job without a task": (cron_job(template=job(tasks=[])), ["spec.jobTemplate.spec.tasks"]),
    "a Job in no queue": (cron_job(template=job(queue="nowhere")), []),
    "a deadline below 0": (cron_job(startingDeadlineSeconds=-1), ["spec.startingDeadlineSeconds"]),
    "a policy that is none": (cron_job(concurrencyPolicy="Sometimes"), ["spec.concurrencyPolicy"]),
}


@cases(CRON_JOBS)
def test_a_cron_job_whose_jobs_can_never_be_made_is_refused(body, expected):
    assert fields(cronjob.problems(body)) == expected
    assert cronjob.problems(body, body) == []


def test_an_unobserved_object_is_not_absent():
    with pytest.raises(Unseen):
        Known().every(QUEUE)
    with pytest.raises(Unseen):
        Known().get(Ref(QUEUE, "", "default"))
    assert Known(whole={QUEUE.id: []}).get(Ref(QUEUE, "", "default")) is None
