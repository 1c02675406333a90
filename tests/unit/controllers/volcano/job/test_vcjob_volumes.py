"""Claims of a Volcano Job: made once under names that are known beforehand, or waited for by name."""

import pytest

from tests.unit.controllers.factories import UID
from tests.unit.controllers.volcano.job.vcjobs import MAIN, parsed, task
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, Ref
from workers.controllers.volcano.job import pods, volumes
from workers.controllers.volcano.job.names import Site

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


@pytest.mark.parametrize(
    ("given", "found", "missing"),
    [
        pytest.param([THEIRS], (), ("data",), id="not there"),
        pytest.param([THEIRS], ("data",), (), id="there"),
        pytest.param([THEIRS, {**THEIRS, "mountPath": "/again"}], (), ("data",), id="named once"),
        pytest.param([{**THEIRS, "volumeClaim": SPEC}], (), (), id="lost, but it can be made again"),
    ],
)
def test_a_claim_of_somebody_else_is_waited_for_by_name(given, found, missing):
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


@pytest.mark.parametrize("name", ["train", "a.b.c", "n" * 63, "n" * 49 + ".x"])
def test_a_volumes_name_is_one_label_whatever_the_jobs_is(name):
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
