"""A pod made from a task of a Volcano Job: names, words, who places it, and nothing of the template lost."""

from tests.support.tables import cases, for_each
from tests.unit.controllers.factories import UID
from tests.unit.controllers.volcano.job.vcjobs import MAIN, parsed, task
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, Ref
from workers.controllers.volcano.job import names, pods, volumes
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


@cases(
    ("annotations stay so", {"annotations": {PREEMPTABLE: "true"}}, {PREEMPTABLE: "true"}, {}),
    ("labels stay labels", {"labels": {PREEMPTABLE: "true"}}, {}, {PREEMPTABLE: "true"}),
    ("cooldown", {"annotations": {COOLDOWN: "9s"}}, {COOLDOWN: "9s"}, {}),
    ("cooldown as a label", {"labels": {COOLDOWN: "9s"}}, {}, {COOLDOWN: "9s"}),
    ("revocable zone", {"annotations": {REVOCABLE: "*"}}, {REVOCABLE: "*"}, {}),
    ("a revocable zone is no label", {"labels": {REVOCABLE: "x"}}, {}, {}),
    ("one budget: the minimum wins", {"annotations": {LEAST: "2", MOST: "1"}}, {LEAST: "2"}, {}),
    ("the other budget", {"annotations": {MOST: "1"}}, {MOST: "1"}, {}),
    ("nothing else is handed on", {"annotations": {"team": "a"}, "labels": {"team": "a"}}, {}, {}),
    ("forwarded", {"annotations": {pods.FORWARDING: "true"}}, {pods.FORWARDING: "true"}, {pods.FORWARDING: "true"}),
    ("not forwarded", {"annotations": {pods.FORWARDING: "no"}}, {}, {}),
)
def test_what_the_job_hands_on_to_its_pods(given, annotations, labels):
    plain, metadata = built()["metadata"], built(metadata=given)["metadata"]
    for field, expected in (("annotations", annotations), ("labels", labels)):
        assert {key: text for key, text in metadata[field].items() if key not in plain[field]} == expected


@cases(
    ("gangs are admitted here, then placed as usual", None, "volcano", SITE, "default-scheduler"),
    ("Volcano's scheduler is there", None, "volcano", Site(gang_schedulers=frozenset()), "volcano"),
    ("placed by a scheduler of the house", None, "volcano", Site(scheduler="mine"), "mine"),
    ("the template's counts, and is replaced too", "volcano", "other", SITE, "default-scheduler"),
    ("another scheduler keeps its pods", "other", "volcano", SITE, "other"),
    ("nobody names one", None, None, SITE, "default-scheduler"),
    ("nobody names one, and Volcano is there", None, "", Site(gang_schedulers=frozenset()), "volcano"),
)
def test_who_places_a_pod(template, job, site, expected):
    given = {"spec": {"schedulerName": template}} if template else None
    assert built(task(template=given), schedulerName=job, site=site)["spec"]["schedulerName"] == expected


@for_each((None, "high", "high"), ("low", "high", "low"), (None, None, None), ("low", None, "low"))
def test_a_pod_without_a_priority_has_the_jobs(template, job, expected):
    given = {"spec": {"priorityClassName": template}} if template else None
    spec = built(task(template=given), **({"priorityClassName": job} if job else {}))["spec"]
    assert spec.get("priorityClassName") == expected


TIERS = ("rack", "topology.kubernetes.io/zone")
JOB = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": "default"}
FIRST = {**JOB, "volcano.sh/task-spec": "worker", names.PARTITION: "1"}
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


def together(labels, key):
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key}


@cases(
    ("none", None, None, None),
    ("the nearest tier", {"highestTierAllowed": 1}, None, {REQUIRED: [together(JOB, "rack")]}),
    ("by name", {"highestTierName": TIERS[1]}, None, {REQUIRED: [together(JOB, TIERS[1])]}),
    (
        "soft",
        {"mode": "soft", "highestTierAllowed": 2},
        None,
        {PREFERRED: [{"weight": 100, "podAffinityTerm": together(JOB, TIERS[1])}]},
    ),
    (
        "a partition in the job",
        {"highestTierAllowed": 2},
        {"highestTierAllowed": 1},
        {REQUIRED: [together(JOB, TIERS[1]), together(FIRST, "rack")]},
    ),
    ("no label for the tier", {"highestTierAllowed": 3}, {"highestTierName": "row"}, None),
    ("the node itself is no tier", {"highestTierAllowed": 0}, None, None),
    ("no tier", {}, {}, None),
)
def test_pods_stay_within_their_tier_by_affinity(job, partition, affinity):
    parts = {"totalPartitions": 2, "partitionSize": 1, **({"networkTopology": partition} if partition else {})}
    own = {"podAntiAffinity": {"own": []}}
    given = task(replicas=2, template={"spec": {"affinity": own}}, partitionPolicy=parts)
    pod = built(given, index=1, site=Site(topology=TIERS), **({"networkTopology": job} if job else {}))
    assert pod["spec"]["affinity"] == {**own, **({"podAffinity": affinity} if affinity else {})}
    plain = built(given, index=1, **({"networkTopology": job} if job else {}))
    assert plain["spec"]["affinity"] == own


@for_each((0, "0"), (1, "0"), (2, "1"), (5, "2"))
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


SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
OURS = {"mountPath": "/out", "volumeClaim": SPEC}
THEIRS = {"mountPath": "/in", "volumeClaimName": "data"}


def ref(name):
    return Ref(PERSISTENT_VOLUME_CLAIM, "default", name)


def there(*names):
    return {ref(name): {"metadata": {"name": name, "uid": f"uid-{name}"}} for name in names}


def test_a_claim_of_the_jobs_own_is_made_under_a_name_that_never_changes():
    job = parsed(volumes=[OURS])
    (step,) = volumes.claims(job, {}).making
    name = step.body["metadata"]["name"]
    assert name.startswith("train-pvc-")
    assert len(name) == len("train-pvc-") + 12
    assert (step.kind, step.body["spec"]) == (PERSISTENT_VOLUME_CLAIM, SPEC)
    assert step.body["metadata"]["ownerReferences"][0]["uid"] == UID
    assert volumes.claims(job, {}).making == (step,), "a plan that was cut short makes no second one"
    assert volumes.claims(job, {}).resources == {f"volume-pvc-{name}": name}
    done = volumes.claims(job, there(name))
    assert (done.making, done.missing, done.problem) == ((), (), None)


def test_the_same_job_made_anew_gets_new_claims():
    (first,) = volumes.wanted(parsed(volumes=[OURS]))
    (second,) = volumes.wanted(parsed(volumes=[OURS], metadata={"uid": "another"}))
    assert first != second


def test_each_volume_has_a_claim_of_its_own():
    assert len(volumes.wanted(parsed(volumes=[OURS, {**OURS, "mountPath": "/tmp"}]))) == 2


@cases(
    ("not there", [THEIRS], (), ("data",)),
    ("there", [THEIRS], ("data",), ()),
    ("named once", [THEIRS, {**THEIRS, "mountPath": "/again"}], (), ("data",)),
    ("lost, but it can be made again", [{**THEIRS, "volumeClaim": SPEC}], (), ()),
)
def test_a_missing_foreign_claim_is_waited_for_by_name(given, found, missing):
    claims = volumes.claims(parsed(volumes=given), there(*found))
    assert claims.missing == missing
    assert claims.problem == (f"pvc {', '.join(missing)} not found" if missing else None)


def test_a_stored_name_is_made_again_from_its_claim_once_however_often_it_is_mounted():
    stored = {**THEIRS, "volumeClaim": SPEC}
    claims = volumes.claims(parsed(volumes=[stored, {**stored, "mountPath": "/again"}]), {})
    assert [step.body["metadata"]["name"] for step in claims.making] == ["data"]


def pod(*given, template=None, **metadata):
    job = parsed(task(template=template), volumes=list(given), metadata=metadata)
    return pods.build(job, job.spec.tasks[0], 0, version=0, retries=0, site=Site())["spec"]


def test_every_container_mounts_the_volumes_but_not_those_that_run_before():
    containers = [{**MAIN, "volumeMounts": [{"name": "own", "mountPath": "/own"}]}, {**MAIN, "name": "side"}]
    spec = pod(
        THEIRS, template={"spec": {"containers": containers, "initContainers": [MAIN], "volumes": [{"name": "own"}]}}
    )
    own, volume = spec["volumes"]
    assert own == {"name": "own"}
    assert volume["persistentVolumeClaim"] == {"claimName": "data"}
    mount = {"name": volume["name"], "mountPath": "/in"}
    assert [one.get("volumeMounts", [])[-1] for one in spec["containers"]] == [mount, mount]
    assert spec["initContainers"] == [MAIN]


def test_of_several_mounts_of_one_claim_the_first_counts():
    spec = pod(THEIRS, {**THEIRS, "mountPath": "/again"})
    assert len(spec["volumes"]) == 1
    assert [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]] == ["/in"]


@for_each("train", "a.b.c", "n" * 63, "n" * 49 + ".x")
def test_a_volumes_name_is_one_label_for_every_job_name(name):
    (volume,) = pod(THEIRS, name=name)["volumes"]
    assert len(volume["name"]) <= 63
    assert volume["name"].replace("-", "").isalnum()
    assert "--" not in volume["name"]


def test_claims_of_its_own_need_not_be_looked_for_long():
    stored = {**OURS, "volumeClaimName": "stored"}
    job = parsed(volumes=[OURS, THEIRS, stored])
    (own,) = volumes.own(job)
    assert own.name.startswith("train-pvc-")
    assert set(volumes.wanted(job)) == {own, ref("data"), ref("stored")}
