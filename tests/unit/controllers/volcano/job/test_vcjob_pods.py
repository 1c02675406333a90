"""A pod made from a task of a Volcano Job: names, words, who places it, and nothing of the template lost."""

import pytest

from tests.unit.controllers.factories import UID
from tests.unit.controllers.volcano.job.vcjobs import MAIN, parsed, task
from workers.controllers.volcano.job import names, pods
from workers.controllers.volcano.job.names import Site

SITE = Site()


def built(*tasks, index=0, of=0, site=SITE, version=0, retries=0, **more):
    job = parsed(*tasks, **more)
    return pods.build(job, job.spec.tasks[of], index, version=version, retries=retries, site=site)


def test_a_pod_says_where_it_belongs():
    pod = built(task(replicas=3), index=2, version=4, retries=1)
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    metadata = pod["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("train-worker-2", "default")
    assert metadata["ownerReferences"] == [
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert metadata["annotations"] == {
        "volcano.sh/task-spec": "worker",
        "scheduling.k8s.io/group-name": f"train-{UID}",
        "volcano.sh/job-name": "train",
        "volcano.sh/queue-name": "default",
        "volcano.sh/job-version": "4",
        "volcano.sh/template-uid": "train-worker",
        "volcano.sh/task-index": "2",
        "volcano.sh/job-retry-count": "1",
    }
    assert metadata["labels"] == {
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "default",
        "volcano.sh/task-spec": "worker",
        "volcano.sh/queue-name": "default",
        "volcano.sh/task-index": "2",
    }
    assert pod["spec"] == {"containers": [MAIN], "restartPolicy": "Never", "schedulerName": "default-scheduler"}


def test_the_templates_own_words_stay_and_its_finalizers_too():
    template = {
        "metadata": {
            "labels": {"app": "net", "volcano.sh/job-name": "lie"},
            "annotations": {"note": "n"},
            "finalizers": ["f"],
        },
        "spec": {"nodeSelector": {"gpu": "yes"}},
    }
    metadata = built(task(template=template))["metadata"]
    assert metadata["labels"]["app"] == "net"
    assert metadata["labels"]["volcano.sh/job-name"] == "train", "selectors must find every pod of the job"
    assert metadata["annotations"]["note"] == "n"
    assert metadata["finalizers"] == ["f"]
    assert built(task(template=template))["spec"]["nodeSelector"] == {"gpu": "yes"}


PREEMPTABLE, COOLDOWN, REVOCABLE = "volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone"
LEAST, MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"


@pytest.mark.parametrize(
    ("given", "annotations", "labels"),
    [
        pytest.param({"annotations": {PREEMPTABLE: "true"}}, {PREEMPTABLE: "true"}, {}, id="annotations stay so"),
        pytest.param({"labels": {PREEMPTABLE: "true"}}, {}, {PREEMPTABLE: "true"}, id="labels stay labels"),
        pytest.param({"annotations": {COOLDOWN: "9s"}}, {COOLDOWN: "9s"}, {}, id="cooldown"),
        pytest.param({"labels": {COOLDOWN: "9s"}}, {}, {COOLDOWN: "9s"}, id="cooldown as a label"),
        pytest.param({"annotations": {REVOCABLE: "*"}}, {REVOCABLE: "*"}, {}, id="revocable zone"),
        pytest.param({"labels": {REVOCABLE: "x"}}, {}, {}, id="a revocable zone is no label"),
        pytest.param({"annotations": {LEAST: "2", MOST: "1"}}, {LEAST: "2"}, {}, id="one budget: the minimum wins"),
        pytest.param({"annotations": {MOST: "1"}}, {MOST: "1"}, {}, id="the other budget"),
        pytest.param({"annotations": {"team": "a"}, "labels": {"team": "a"}}, {}, {}, id="nothing else is handed on"),
        pytest.param(
            {"annotations": {pods.FORWARDING: "true"}},
            {pods.FORWARDING: "true"},
            {pods.FORWARDING: "true"},
            id="forwarded",
        ),
        pytest.param({"annotations": {pods.FORWARDING: "no"}}, {}, {}, id="not forwarded"),
    ],
)
def test_what_the_job_hands_on_to_its_pods(given, annotations, labels):
    plain, metadata = built()["metadata"], built(metadata=given)["metadata"]
    for field, expected in (("annotations", annotations), ("labels", labels)):
        assert {key: text for key, text in metadata[field].items() if key not in plain[field]} == expected


@pytest.mark.parametrize(
    ("template", "job", "site", "expected"),
    [
        pytest.param(None, "volcano", SITE, "default-scheduler", id="gangs are admitted here, then placed as usual"),
        pytest.param(None, "volcano", Site(gang_schedulers=frozenset()), "volcano", id="Volcano's scheduler is there"),
        pytest.param(None, "volcano", Site(scheduler="mine"), "mine", id="placed by a scheduler of the house"),
        pytest.param("volcano", "other", SITE, "default-scheduler", id="the template's counts, and is replaced too"),
        pytest.param("other", "volcano", SITE, "other", id="another scheduler keeps its pods"),
        pytest.param(None, None, SITE, "default-scheduler", id="nobody names one"),
        pytest.param(
            None, "", Site(gang_schedulers=frozenset()), "volcano", id="nobody names one, and Volcano is there"
        ),
    ],
)
def test_who_places_a_pod(template, job, site, expected):
    given = {"spec": {"schedulerName": template}} if template else None
    assert built(task(template=given), schedulerName=job, site=site)["spec"]["schedulerName"] == expected


@pytest.mark.parametrize(
    ("template", "job", "expected"),
    [(None, "high", "high"), ("low", "high", "low"), (None, None, None), ("low", None, "low")],
)
def test_a_pod_without_a_priority_has_the_jobs(template, job, expected):
    given = {"spec": {"priorityClassName": template}} if template else None
    spec = built(task(template=given), **({"priorityClassName": job} if job else {}))["spec"]
    assert spec.get("priorityClassName") == expected


@pytest.mark.parametrize(("index", "expected"), [(0, "0"), (1, "0"), (2, "1"), (5, "2")])
def test_a_pod_knows_its_partition(index, expected):
    parts = {"totalPartitions": 3, "partitionSize": 2}
    assert (
        built(task(replicas=6, partitionPolicy=parts), index=index)["metadata"]["labels"][names.PARTITION] == expected
    )


def test_a_numa_policy_is_an_annotation():
    key = "volcano.sh/numa-topology-policy"
    assert built(task(topologyPolicy="best-effort"))["metadata"]["annotations"][key] == "best-effort"
    assert key not in built()["metadata"]["annotations"]


def test_a_queues_name_that_is_no_label_is_an_annotation_only():
    queue = "q" * 64
    metadata = built(queue=queue)["metadata"]
    assert metadata["annotations"][names.QUEUE] == queue
    assert names.QUEUE not in metadata["labels"]


def test_building_a_pod_changes_nothing_of_the_job():
    plugins = {name: [] for name in ("env", "svc", "ssh", "pytorch", "tensorflow", "mpi", "hcclrank")}
    job = parsed(task("master"), task("worker", 2), plugins=plugins, volumes=[{"mountPath": "/d", "volumeClaim": {}}])
    before = job.model_dump_json()
    first = pods.build(job, job.spec.tasks[1], 1, version=0, retries=0, site=SITE)
    assert job.model_dump_json() == before
    assert pods.build(job, job.spec.tasks[1], 1, version=0, retries=0, site=SITE) == first
