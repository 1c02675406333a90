"""StatefulSets: numbered pods in order, updates from the last to the first, revisions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.tables import cases, for_each
from tests.unit.controllers.apps.apps_cluster import AppsCluster, template
from tests.unit.controllers.plans import deleted
from workers.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET, Object, Ref
from workers.controllers.apps.statefulset import ordinal_of


def stateful(**spec: Any) -> AppsCluster:
    return AppsCluster(STATEFUL_SET, **spec)


def rolling(partition: int) -> Object:
    return {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}


def images(cluster: AppsCluster) -> dict[str, str]:
    found = {pod["metadata"]["name"]: str(pod["spec"]["containers"][0]["image"]) for pod in cluster.of(POD)}
    return dict(sorted(found.items()))


def names(cluster: AppsCluster) -> list[str]:
    return sorted(images(cluster))


def test_pods_have_numbers_names_and_the_revision_they_are_of():
    cluster = stateful(replicas=2)
    cluster.settle()
    first, second = cluster.of(POD)
    revision = cluster.status["currentRevision"]
    assert first["metadata"]["labels"] == {
        "app": "web",
        "controller-revision-hash": revision,
        "statefulset.kubernetes.io/pod-name": "web-0",
        "apps.kubernetes.io/pod-index": "0",
    }
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "web")
    assert second["metadata"]["name"] == "web-1"
    (kept,) = cluster.of(CONTROLLER_REVISION)
    assert (kept["metadata"]["name"], kept["revision"]) == (revision, 1)
    assert kept["data"]["spec"]["template"] == {**template(), "$patch": "replace"}
    fields = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")
    assert [cluster.status[field] for field in fields] == [2] * 5
    assert cluster.status["updateRevision"] == revision


@given(replicas=st.integers(0, 5), after=st.integers(0, 5), lag=st.integers(0, 3))
def test_in_order_each_pod_waits_for_the_one_before_it(replicas: int, after: int, lag: int):
    cluster = stateful(replicas=replicas, lag=lag)

    def in_order() -> None:
        numbers = sorted(int(name.rpartition("-")[2]) for name in names(cluster))
        assert numbers == list(range(len(numbers)))
        served = [bool((pod.get("status") or {}).get("conditions")) for pod in cluster.of(POD)]
        assert all(served[:-1])
        assert sum("deletionTimestamp" in pod["metadata"] for pod in cluster.of(POD)) <= 1

    cluster.watch = in_order
    cluster.settle()
    assert len(names(cluster)) == replicas
    cluster.edit(replicas=after)
    cluster.settle()
    assert names(cluster) == [f"web-{number}" for number in range(after)]


def test_side_by_side_all_begin_and_end_at_once():
    cluster = stateful(replicas=3, podManagementPolicy="Parallel", lag=2)
    cluster.sync(STATEFUL_SET)
    assert names(cluster) == ["web-0", "web-1", "web-2"]
    cluster.edit(replicas=0)
    assert deleted(cluster.plan(cluster.root, STATEFUL_SET)) == ["web-2", "web-1", "web-0"]
    cluster.sync(STATEFUL_SET)
    assert all("deletionTimestamp" in pod["metadata"] for pod in cluster.of(POD))


@given(replicas=st.integers(1, 5), policy=st.sampled_from(["OrderedReady", "Parallel"]), lag=st.integers(0, 3))
def test_an_update_replaces_one_pod_at_a_time_from_the_last_to_the_first(replicas: int, policy: str, lag: int):
    cluster = stateful(replicas=replicas, podManagementPolicy=policy, lag=lag)
    cluster.settle()
    before = cluster.status["currentRevision"]
    cluster.edit(template=template("two"))

    def one_at_a_time() -> None:
        assert cluster.available() >= replicas - 1
        order = [image for _, image in sorted(images(cluster).items())]
        assert order == sorted(order)

    cluster.watch = one_at_a_time
    cluster.settle()
    assert set(images(cluster).values()) == {"two"}
    assert cluster.status["currentRevision"] == cluster.status["updateRevision"] != before


def test_the_status_says_zero_only_where_kubernetes_does():
    cluster = stateful(replicas=0)
    cluster.root["status"] = {"collisionCount": 0}
    cluster.settle()
    revision = cluster.status["updateRevision"]
    assert cluster.status == {
        **{"observedGeneration": 1, "replicas": 0, "availableReplicas": 0, "collisionCount": 0},
        **{"currentRevision": revision, "updateRevision": revision},
    }


def test_what_is_one_too_many_goes_before_anything_is_replaced():
    cluster = stateful(replicas=3, lag=3)
    cluster.settle()

    def one_leaves() -> None:
        assert sum("deletionTimestamp" in pod["metadata"] for pod in cluster.of(POD)) <= 1

    cluster.watch = one_leaves
    cluster.edit(replicas=2, template=template("two"))
    cluster.settle()
    assert images(cluster) == {"web-0": "two", "web-1": "two"}


def test_below_the_partition_pods_stay_as_they_are_also_when_they_are_lost():
    cluster = stateful(replicas=3, updateStrategy=rolling(2))
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.settle()
    assert images(cluster) == {"web-0": "one", "web-1": "one", "web-2": "two"}
    assert cluster.status["currentRevision"] != cluster.status["updateRevision"]
    assert (cluster.status["currentReplicas"], cluster.status["updatedReplicas"]) == (2, 1)
    for name in ("web-1", "web-2"):
        cluster.delete(Ref(POD, "default", name))
    cluster.settle()
    assert images(cluster) == {"web-0": "one", "web-1": "one", "web-2": "two"}
    cluster.edit(updateStrategy=rolling(0))
    cluster.settle()
    assert set(images(cluster).values()) == {"two"}


def test_on_delete_pods_are_replaced_when_a_client_deletes_them():
    cluster = stateful(replicas=2, updateStrategy={"type": "OnDelete"})
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.settle()
    assert set(images(cluster).values()) == {"one"}
    cluster.delete(Ref(POD, "default", "web-0"))
    cluster.settle()
    assert images(cluster) == {"web-0": "two", "web-1": "one"}


def test_a_broken_template_is_replaced_by_the_next_one():
    cluster = stateful(replicas=3, healthy=lambda pod: pod["spec"]["containers"][0]["image"] != "broken")
    cluster.settle()
    cluster.edit(template=template("broken"))
    cluster.settle()
    assert images(cluster) == {"web-0": "one", "web-1": "one", "web-2": "broken"}
    cluster.edit(template=template("two"))
    cluster.settle()
    assert set(images(cluster).values()) == {"two"}


@for_each("one", "one && more")
def test_going_back_gives_an_old_revision_the_newest_number(first: str):
    cluster = stateful(template=template(first))
    cluster.settle()
    (before,) = cluster.of(CONTROLLER_REVISION)
    for image in ("two", first):
        cluster.edit(template=template(image))
        cluster.settle()
    found = {
        each["data"]["spec"]["template"]["spec"]["containers"][0]["image"]: each
        for each in cluster.of(CONTROLLER_REVISION)
    }
    assert {image: each["revision"] for image, each in found.items()} == {first: 3, "two": 2}
    kept = ("name", "labels", "ownerReferences")
    assert [found[first]["metadata"][key] for key in kept] == [before["metadata"][key] for key in kept]
    assert images(cluster) == {"web-0": first}


@for_each((0, 1), (1, 2), (10, 3))
def test_as_many_old_revisions_are_kept_as_the_limit_says(limit: int, left: int):
    cluster = stateful(revisionHistoryLimit=limit)
    cluster.settle()
    for image in ("two", "three"):
        cluster.edit(template=template(image))
        cluster.settle()
    assert len(cluster.of(CONTROLLER_REVISION)) == left


def test_numbers_may_begin_elsewhere():
    cluster = stateful(replicas=2, ordinals={"start": 5})
    cluster.settle()
    assert names(cluster) == ["web-5", "web-6"]


def test_a_pod_that_has_ended_is_made_again():
    cluster = stateful(replicas=2)
    cluster.settle()
    key = Ref(POD, "default", "web-0").key
    before = cluster.objects[key]
    cluster.objects[key] = {**before, "status": {"phase": "Failed"}}
    cluster.settle()
    assert cluster.objects[key]["metadata"]["uid"] != before["metadata"]["uid"]
    assert cluster.available() == 2


@for_each(("web-0", 0), ("web-12", 12), ("other-3", None), ("web-03", None), ("web-x", None), ("web-٣", None))
def test_only_a_pod_of_that_name_has_a_number(name: str, number: int | None):
    assert ordinal_of({"metadata": {"name": "web"}}, {"metadata": {"name": name}}) == number


@for_each("one", "one && more")
def test_what_was_left_behind_is_adopted_again(image: str):
    cluster = stateful(replicas=2, template=template(image))
    cluster.settle()
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.of(POD)}
    (revision,) = cluster.of(CONTROLLER_REVISION)
    for key, body in cluster.objects.items():
        cluster.objects[key] = {**body, "metadata": {**body["metadata"], "ownerReferences": []}}
    cluster.settle()
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in cluster.of(POD)} == pods
    owners = {each["name"] for body in cluster.of(POD) for each in body["metadata"]["ownerReferences"]}
    assert owners == {"web"}
    (adopted,) = cluster.of(CONTROLLER_REVISION)
    kept = ("name", "labels", "ownerReferences")
    assert [adopted["metadata"][key] for key in kept] == [revision["metadata"][key] for key in kept]
    assert (adopted["data"], adopted["revision"]) == (revision["data"], revision["revision"])


DATA = {
    "metadata": {"name": "data", "labels": {"disk": "fast"}, "annotations": {"kind": "ssd"}},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}


def claims(cluster: AppsCluster) -> dict[str, str]:
    """The claims, each with its uid."""
    found = {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in cluster.of(PERSISTENT_VOLUME_CLAIM)}
    return dict(sorted(found.items()))


def test_every_pod_has_a_claim_of_its_own_which_stays_when_the_pod_goes():
    pod = template()
    pod["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    cluster = stateful(replicas=2, template=pod, volumeClaimTemplates=[DATA])
    cluster.settle()
    before = claims(cluster)
    assert list(before) == ["data-web-0", "data-web-1"]
    claim = cluster.objects[Ref(PERSISTENT_VOLUME_CLAIM, "default", "data-web-1").key]
    assert claim["metadata"]["labels"] == {"disk": "fast", "app": "web"}
    assert claim["metadata"]["annotations"] == {"kind": "ssd"}
    assert "ownerReferences" not in claim["metadata"]
    assert claim["spec"] == DATA["spec"]
    mounted = {one["metadata"]["name"]: one["spec"]["volumes"] for one in cluster.of(POD)}
    data = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}
    assert mounted["web-1"] == [data, {"name": "tmp", "emptyDir": {}}]
    for replicas in (0, 2):
        cluster.edit(replicas=replicas)
        cluster.settle()
        assert claims(cluster) == before


def test_a_pod_is_made_after_its_claims():
    cluster = stateful(volumeClaimTemplates=[DATA])
    made = [one.kind for step in cluster.plan(cluster.root, STATEFUL_SET).steps for one in getattr(step, "steps", ())]
    assert made.index(PERSISTENT_VOLUME_CLAIM) < made.index(POD)


@given(policy=st.sampled_from(["OrderedReady", "Parallel"]), lag=st.integers(0, 3))
def test_claims_of_pods_too_many_go_with_them_when_the_set_says_so(policy: str, lag: int):
    kept = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    given = {"volumeClaimTemplates": [DATA], "persistentVolumeClaimRetentionPolicy": kept}
    cluster = stateful(replicas=3, podManagementPolicy=policy, lag=lag, **given)
    cluster.settle()
    before = claims(cluster)
    cluster.delete(Ref(POD, "default", "web-2"))
    cluster.settle()
    assert claims(cluster) == before, "a pod that is replaced keeps its claim"
    cluster.edit(replicas=1)
    cluster.settle()
    assert claims(cluster) == {"data-web-0": before["data-web-0"]}
    cluster.edit(replicas=2)
    cluster.settle()
    assert list(claims(cluster)) == ["data-web-0", "data-web-1"]
    assert claims(cluster)["data-web-1"] != before["data-web-1"]


def test_a_new_pod_waits_for_the_claim_of_the_one_before_it_to_go():
    kept = {"whenScaled": "Delete", "whenDeleted": "Retain"}
    cluster = stateful(replicas=2, volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=kept)
    cluster.settle()
    collect = cluster.collect
    cluster.collect = lambda _uid: None  # type: ignore[method-assign]
    gone = cluster.objects[Ref(POD, "default", "web-1").key]["metadata"]["uid"]
    for replicas in (1, 2):
        cluster.edit(replicas=replicas)
        cluster.settle()
        assert names(cluster) == ["web-0"]
    collect(gone)
    cluster.settle()
    assert names(cluster) == ["web-0", "web-1"]


@cases(("from the beginning", True), ("later", False))
def test_claims_go_with_the_set_when_it_says_so(early: bool):
    kept = {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"}}
    cluster = stateful(replicas=2, volumeClaimTemplates=[DATA], **(kept if early else {}))
    cluster.settle()
    cluster.edit(**kept)
    cluster.settle()
    owners = [claim["metadata"]["ownerReferences"] for claim in cluster.of(PERSISTENT_VOLUME_CLAIM)]
    assert owners == [[{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "uid-web"}]] * 2
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "uid-other"}
    cluster.of(PERSISTENT_VOLUME_CLAIM)[1]["metadata"]["ownerReferences"].append(other)
    cluster.edit(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain"})
    cluster.settle()
    assert [claim["metadata"]["ownerReferences"] for claim in cluster.of(PERSISTENT_VOLUME_CLAIM)] == [[], [other]]
