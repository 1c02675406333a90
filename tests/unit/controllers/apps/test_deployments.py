"""Deployments from one template to the next, decided on again and again in a cluster that plays along."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.apps.apps_cluster import AppsCluster, rolling, template
from workers.api.kinds import POD, REPLICA_SET, Object, Ref
from workers.controllers.apps.rolling import RolloutLimits, resolve

REVISION = "deployment.kubernetes.io/revision"


def image(pod: Object) -> str:
    return str(pod["spec"]["containers"][0]["image"])


def settled(**spec: Any) -> AppsCluster:
    cluster = AppsCluster(**spec)
    cluster.settle()
    return cluster


def test_a_new_deployment_runs_its_pods_and_says_that_it_is_complete():
    cluster = settled(replicas=3)
    numbers = {name: cluster.status[name] for name in ("replicas", "updatedReplicas", "readyReplicas")}
    assert numbers == {"replicas": 3, "updatedReplicas": 3, "readyReplicas": 3}
    assert cluster.status["availableReplicas"] == 3
    assert "unavailableReplicas" not in cluster.status
    assert cluster.status["observedGeneration"] == 1
    assert cluster.condition("Available") == ("True", "MinimumReplicasAvailable")
    assert cluster.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert cluster.root["metadata"]["annotations"] == {REVISION: "1"}
    (replica_set,) = cluster.of(REPLICA_SET)
    hash_ = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{hash_}"
    assert {pod["metadata"]["labels"]["pod-template-hash"] for pod in cluster.of(POD)} == {hash_}
    assert cluster.events == [f"Scaled up replica set web-{hash_} from 0 to 3", "Created 3 pods"]


@given(
    replicas=st.integers(0, 7),
    after=st.integers(0, 7),
    surge=st.sampled_from([0, 1, 3, "0%", "25%", "100%"]),
    unavailable=st.sampled_from([0, 1, 3, "0%", "25%", "100%"]),
    lag=st.integers(0, 3),
    at=st.integers(0, 6),
)
def test_a_rollout_keeps_its_limits_and_comes_to_its_end(
    replicas: int, after: int, surge: int | str, unavailable: int | str, lag: int, at: int
):
    """It may also be scaled while it is under way: then the looser of the two limits holds."""
    cluster = AppsCluster(replicas=replicas, strategy=rolling(surge, unavailable), lag=lag)
    cluster.settle()
    cluster.edit(template=template("two"))
    limits = [RolloutLimits.of(number, surge, unavailable) for number in (replicas, after)]
    most = max(number + limit.surge for number, limit in zip((replicas, after), limits, strict=True))
    least = min(number - limit.unavailable for number, limit in zip((replicas, after), limits, strict=True))

    def keeps() -> None:
        if cluster.second >= edited + at and cluster.root["spec"]["replicas"] != after:
            cluster.edit(replicas=after)
        there = [pod for pod in cluster.of(POD) if "deletionTimestamp" not in pod["metadata"]]
        assert len(there) <= most
        assert cluster.available() >= least

    edited = cluster.second
    cluster.watch = keeps
    cluster.settle()
    cluster.watch = lambda: None
    cluster.edit(replicas=after)
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "two": after}
    assert [image(pod) for pod in cluster.of(POD)] == ["two"] * after
    assert cluster.condition("Progressing") == ("True", "NewReplicaSetAvailable")
    assert not [event for event in cluster.events if event.startswith("refused")]


def test_recreate_lets_the_last_old_pod_end_before_the_first_new_one_begins():
    cluster = AppsCluster(replicas=3, strategy={"type": "Recreate"}, lag=3)
    cluster.settle()

    def apart() -> None:
        assert len({image(pod) for pod in cluster.of(POD)}) <= 1

    cluster.watch = apart
    cluster.edit(template=template("two"))
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "two": 3}
    cluster.edit(template=template("one"))
    cluster.settle()
    assert cluster.sizes() == {"one": 3, "two": 0}
    most = {
        body["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] for body in cluster.of(REPLICA_SET)
    }
    assert most == {"3"}, "never more at once"


def test_a_broken_template_stops_the_rollout_and_its_deadline_says_so():
    cluster = AppsCluster(replicas=4, progressDeadlineSeconds=30, healthy=lambda pod: image(pod) != "broken")
    cluster.settle()
    cluster.edit(template=template("broken"))
    cluster.settle()
    assert cluster.available() == 3
    assert cluster.condition("Progressing") == ("True", "ReplicaSetUpdated")
    cluster.second += 60
    cluster.settle()
    assert cluster.condition("Progressing") == ("False", "ProgressDeadlineExceeded")
    cluster.edit(template=template("two"))
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "broken": 0, "two": 4}
    assert cluster.condition("Progressing") == ("True", "NewReplicaSetAvailable")


def test_going_back_makes_an_old_set_current_again_under_a_new_number():
    cluster = settled(replicas=2)
    for name in ("two", "three", "one"):
        cluster.edit(template=template(name))
        cluster.settle()
    sets = {image({"spec": one["spec"]["template"]["spec"]}): one["metadata"] for one in cluster.of(REPLICA_SET)}
    numbers = {name: one["annotations"][REVISION] for name, one in sets.items()}
    assert numbers == {"two": "2", "three": "3", "one": "4"}
    assert sets["one"]["annotations"]["deployment.kubernetes.io/revision-history"] == "1"
    assert cluster.root["metadata"]["annotations"][REVISION] == "4"
    assert cluster.sizes() == {"one": 2, "two": 0, "three": 0}


def test_what_is_paused_is_scaled_but_not_rolled():
    cluster = settled(replicas=2)
    cluster.edit(paused=True, template=template("two"), replicas=5)
    cluster.settle()
    assert cluster.sizes() == {"one": 5}
    assert cluster.condition("Progressing") == ("Unknown", "DeploymentPaused")
    cluster.edit(paused=False)
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "two": 5}
    assert cluster.condition("Progressing") == ("True", "NewReplicaSetAvailable")


@for_each((0, {"three"}), (1, {"two", "three"}), (10, {"one", "two", "three"}))
def test_as_many_old_revisions_are_kept_as_the_limit_says(limit: int, left: set[str]):
    cluster = settled(revisionHistoryLimit=limit)
    for name in ("two", "three"):
        cluster.edit(template=template(name))
        cluster.settle()
    assert set(cluster.sizes()) == left


def test_pods_serve_only_when_they_have_been_ready_for_long_enough():
    cluster = AppsCluster(replicas=2, minReadySeconds=20, strategy=rolling(1, 0))
    cluster.settle()
    assert cluster.status["readyReplicas"] == 2
    assert "availableReplicas" not in cluster.status
    assert cluster.condition("Available") == ("False", "MinimumReplicasUnavailable")
    cluster.second += 20
    cluster.settle()
    assert cluster.status["availableReplicas"] == 2
    cluster.edit(minReadySeconds=0)
    cluster.settle()
    (replica_set,) = cluster.of(REPLICA_SET)
    assert not replica_set["spec"].get("minReadySeconds")


def test_sets_and_pods_without_a_controller_are_adopted_again():
    cluster = settled(replicas=3)
    before = {pod["metadata"]["name"] for pod in cluster.of(POD)}
    for kind in (REPLICA_SET, POD):
        for body in cluster.of(kind):
            key = Ref(kind, "default", body["metadata"]["name"]).key
            cluster.objects[key] = {**body, "metadata": {**body["metadata"], "ownerReferences": []}}
    cluster.settle()
    assert len(cluster.of(REPLICA_SET)) == 1
    assert {pod["metadata"]["name"] for pod in cluster.of(POD)} == before


def test_a_pod_whose_labels_no_longer_match_is_let_go_and_replaced():
    cluster = settled(replicas=2)
    odd = cluster.of(POD)[0]["metadata"]["name"]
    key = Ref(POD, "default", odd).key
    body = cluster.objects[key]
    cluster.objects[key] = {**body, "metadata": {**body["metadata"], "labels": {"app": "other"}}}
    cluster.settle()
    assert len(cluster.of(POD)) == 3
    assert cluster.objects[key]["metadata"]["ownerReferences"] == []


@cases(
    ("a number", 3, 10, True, 3),
    ("a share is rounded up", "25%", 10, True, 3),
    ("a share is rounded down", "25%", 10, False, 2),
    ("the whole", "100%", 7, True, 7),
    ("nothing", "0%", 7, True, 0),
    ("not said", None, 7, True, 0),
)
def test_amounts(value: int | str | None, total: int, up: bool, answer: int):
    assert resolve(value, total, up=up) == answer


@cases(
    ("the defaults", 10, "25%", "25%", RolloutLimits(3, 2)),
    ("one pod is replaced before it goes", 1, "25%", "25%", RolloutLimits(1, 0)),
    ("never nothing at all", 3, 0, "10%", RolloutLimits(0, 1)),
    ("no more than there are", 3, 0, 5, RolloutLimits(0, 3)),
)
def test_limits(replicas: int, surge: int | str, unavailable: int | str, limits: RolloutLimits):
    assert RolloutLimits.of(replicas, surge, unavailable) == limits
