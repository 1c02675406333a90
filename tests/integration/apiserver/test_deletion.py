"""Deletion: finalizers, time to stop, owners and namespaces."""

from typing import Any

from tests.integration.apiserver.client import Answer, Api, config_map, job, owned_by, pod, until
from tests.support.tables import cases


def test_a_deleted_object_is_gone_and_named(api: Api) -> None:
    uid = api.create(api.jobs, job())["metadata"]["uid"]
    answer = api("DELETE", f"{api.jobs}/crunch", propagationPolicy="Background").body
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "crunch", "group": "batch", "kind": "jobs", "uid": uid}
    assert api.get(f"{api.jobs}/crunch").code == 404


def test_finalizers_keep_an_object_until_the_last_is_removed(api: Api) -> None:
    api.create(api.maps, config_map(finalizers=["test.dev/a", "test.dev/b"]))
    meta = api("DELETE", f"{api.maps}/one").body["metadata"]
    assert meta["deletionTimestamp"]
    assert meta["deletionGracePeriodSeconds"] == 0
    refused = api.patch(f"{api.maps}/one", {"metadata": {"finalizers": ["test.dev/a", "test.dev/c"]}})
    assert refused.code == 422
    assert api.patch(f"{api.maps}/one", {"metadata": {"finalizers": ["test.dev/a"]}}).code == 200
    assert api.get(f"{api.maps}/one").code == 200
    assert api.patch(f"{api.maps}/one", {"metadata": {"finalizers": None}}).code == 200
    assert api.get(f"{api.maps}/one").code == 404


def _node(api: Api) -> str:
    """A node of its own: a real cluster collects pods of a node that it has long known not to exist."""
    return f"node-of-{api.namespace}"


def _bind(api: Api, name: str) -> None:
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}}
    api.create(f"{api.pods}/{name}/binding", binding | {"target": {"kind": "Node", "name": _node(api)}})
    # Deleting goes by the cache first: as long as that has no node for the pod, a real API server may decide that
    # nobody has to stop it, and keeps to that when it looks again (Kubernetes 1.20).
    path = f"{api.pods}/{name}"
    until(lambda: "nodeName" in api.get(path, resourceVersion="0").body["spec"], "the cache has the node")


def test_a_pod_on_a_node_is_given_time_which_can_only_shrink(api: Api) -> None:
    api.create(api.pods, pod())
    _bind(api, "worker")
    for asked, left in (({}, 30), ({"gracePeriodSeconds": 60}, 30), ({"gracePeriodSeconds": 5}, 5)):
        answer = api("DELETE", f"{api.pods}/worker", **asked)
        assert answer.body["metadata"]["deletionGracePeriodSeconds"] == left
    assert api.get(f"{api.pods}/worker").code == 200
    assert api("DELETE", f"{api.pods}/worker", gracePeriodSeconds=0).code == 200
    assert api.get(f"{api.pods}/worker").code == 404


@cases(("not scheduled", None), ("succeeded", "Succeeded"), ("failed", "Failed"))
def test_a_pod_with_nothing_to_stop_goes_at_once(phase: str | None, api: Api) -> None:
    api.create(api.pods, pod())
    if phase:
        _bind(api, "worker")
        api.patch(f"{api.pods}/worker/status", {"status": {"phase": phase}})
    assert api("DELETE", f"{api.pods}/worker").code == 200
    assert api.get(f"{api.pods}/worker").code == 404


def test_a_pod_with_a_finalizer_stays_after_it_stopped(api: Api) -> None:
    # Not the one that tracks Jobs: since Kubernetes 1.23 the Job controller takes that off a pod without a Job.
    api.create(api.pods, pod(finalizers=["test.dev/tracking"]))
    api("DELETE", f"{api.pods}/worker", gracePeriodSeconds=0)
    assert api.get(f"{api.pods}/worker").body["metadata"]["deletionTimestamp"]
    api.patch(f"{api.pods}/worker", {"metadata": {"finalizers": None}})
    assert api.get(f"{api.pods}/worker").code == 404


def test_a_pod_is_bound_once(api: Api) -> None:
    api.create(api.pods, pod())
    _bind(api, "worker")
    found = api.get(f"{api.pods}/worker").body
    scheduled = next(c for c in found["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (found["spec"]["nodeName"], scheduled["status"]) == (_node(api), "True")
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "worker"}}
    again = api("POST", f"{api.pods}/worker/binding", binding | {"target": {"kind": "Node", "name": "other"}})
    assert (again.code, again.body["reason"]) == (409, "Conflict")
    assert f'pod worker is already assigned to node "{_node(api)}"' in again.message


def test_an_evicted_pod_is_deleted(ours: Api) -> None:
    ours.create(ours.pods, pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "worker"}}
    assert ours("POST", f"{ours.pods}/worker/eviction", eviction).code == 201
    assert ours.get(f"{ours.pods}/worker").code == 404


@cases(
    ("another uid", {"uid": "00000000-0000-0000-0000-000000000000"}),
    ("another version", {"resourceVersion": "1"}),
)
def test_the_query_of_a_deletion_says_which_object_is_meant(query: dict[str, str], api: Api) -> None:
    made = api.create(api.maps, config_map("m", labels={"m": "1"}))
    for path, more in ((f"{api.maps}/m", {}), (api.maps, {"labelSelector": "m"})):
        answer = api("DELETE", path, **query, **more)
        assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    kept = api.get(f"{api.maps}/m").body["metadata"]
    assert kept["uid"] == made["metadata"]["uid"]
    right = {"uid": kept["uid"], "resourceVersion": kept["resourceVersion"]}
    assert api("DELETE", f"{api.maps}/m", **{name: right[name] for name in query}).code == 200


def test_a_collection_is_deleted_by_selector(api: Api) -> None:
    for name, colour in (("a", "red"), ("b", "blue"), ("c", "red")):
        api.create(api.maps, config_map(name, labels={"colour": colour}))
    assert api("DELETE", api.maps, labelSelector="colour=red").code == 200
    assert [i["metadata"]["name"] for i in api.get(api.maps, labelSelector="colour").body["items"]] == ["b"]


def test_dependents_follow_their_owner_in_the_background(api: Api) -> None:
    owner = api.create(api.maps, config_map("owner"))
    api.create(api.maps, config_map("child", **owned_by(owner)))
    child = api.get(f"{api.maps}/child").body
    api.create(api.maps, config_map("grandchild", **owned_by(child)))
    api("DELETE", f"{api.maps}/owner", {"propagationPolicy": "Background"})
    assert api.get(f"{api.maps}/owner").code == 404
    until(lambda: api.get(f"{api.maps}/grandchild").code == 404, "the grandchild is gone")
    assert api.get(f"{api.maps}/child").code == 404


def test_in_the_foreground_the_owner_goes_last(api: Api) -> None:
    owner = api.create(api.maps, config_map("owner"))
    api.create(api.maps, config_map("child", finalizers=["test.dev/a"], **owned_by(owner, block=True)))
    meta = api("DELETE", f"{api.maps}/owner", {"propagationPolicy": "Foreground"}).body["metadata"]
    assert meta["finalizers"] == ["foregroundDeletion"]
    until(lambda: "deletionTimestamp" in api.get(f"{api.maps}/child").body["metadata"], "the child is being deleted")
    assert api.get(f"{api.maps}/owner").code == 200
    api.patch(f"{api.maps}/child", {"metadata": {"finalizers": None}})
    until(lambda: api.get(f"{api.maps}/owner").code == 404, "the owner is gone")


def test_orphans_stay_and_forget_their_owner(api: Api) -> None:
    owner = api.create(api.maps, config_map("owner"))
    api.create(api.maps, config_map("child", **owned_by(owner)))
    api("DELETE", f"{api.maps}/owner", {"propagationPolicy": "Orphan"})
    until(lambda: api.get(f"{api.maps}/owner").code == 404, "the owner is gone")
    child = api.get(f"{api.maps}/child").body
    assert not child["metadata"].get("ownerReferences")


def test_pods_stay_when_a_job_is_deleted_without_a_policy(ours: Api) -> None:
    owner = ours.create(ours.jobs, job())
    ours.create(ours.pods, pod(**owned_by(owner)))
    answer = ours("DELETE", f"{ours.jobs}/crunch")
    assert "child pods are preserved by default when jobs are deleted" in answer.headers["warning"]
    until(lambda: ours.get(f"{ours.jobs}/crunch").code == 404, "the job is gone")
    assert not ours.get(f"{ours.pods}/worker").body["metadata"].get("ownerReferences")


def test_an_object_whose_owner_never_was_is_collected(api: Api) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "0-0-0-0"}}
    api.create(api.maps, config_map("child", **owned_by(ghost)))
    until(lambda: api.get(f"{api.maps}/child").code == 404, "the child is gone")


def test_one_living_owner_is_enough(api: Api) -> None:
    one, two = api.create(api.maps, config_map("one")), api.create(api.maps, config_map("two"))
    references = [*owned_by(one)["ownerReferences"], *owned_by(two)["ownerReferences"]]
    references[1]["controller"] = False
    api.create(api.maps, config_map("child", ownerReferences=references))
    api("DELETE", f"{api.maps}/one", {"propagationPolicy": "Background"})

    def left() -> list[str]:
        return [r["name"] for r in api.get(f"{api.maps}/child").body["metadata"]["ownerReferences"]]

    until(lambda: left() == ["two"], "the reference to the gone owner is dropped")


def test_a_namespace_is_emptied_before_it_goes(api: Api) -> None:
    api.create(api.maps, config_map(finalizers=["test.dev/a"]))
    api.create(api.jobs, job())
    path = f"/api/v1/namespaces/{api.namespace}"
    assert api("DELETE", path).body["status"]["phase"] == "Terminating"
    refused = api("POST", api.maps, config_map("late"))
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    until(lambda: api.get(f"{api.jobs}/crunch").code == 404, "the job is gone")
    assert api.get(path).code == 200
    api.patch(f"{api.maps}/one", {"metadata": {"finalizers": None}})
    until(lambda: api.get(path).code == 404, "the namespace is gone")


def test_further_finalizers_keep_a_namespace_until_its_finalize_subresource_takes_them(api: Api) -> None:
    path = f"/api/v1/namespaces/{api.namespace}"

    def finalize(names: list[str], **change: Any) -> Answer:
        body = {**api.get(path).body, "spec": {"finalizers": names}}
        return api("PUT", f"{path}/finalize", {**body, "metadata": {**body["metadata"], **change}})

    assert api.get(path).body["spec"] == {"finalizers": ["kubernetes"]}
    assert api("PUT", path, {**api.get(path).body, "spec": {}}).body["spec"] == {"finalizers": ["kubernetes"]}
    answer = finalize(["kubernetes", "test.dev/a"], labels={"a": "b"})
    assert (answer.code, answer.body["spec"]["finalizers"]) == (200, ["kubernetes", "test.dev/a"])
    assert answer.body["metadata"]["labels"]["a"] == "b"
    assert finalize(["bare"]).code == 422
    assert finalize([], name="other").code == 400
    assert finalize([], resourceVersion="1").code == 409
    for method in ("GET", "POST", "DELETE"):
        assert api(method, f"{path}/finalize").code == 405
    api.create(api.maps, config_map())
    assert api("DELETE", path).body["status"]["phase"] == "Terminating"
    until(lambda: api.get(path).body["spec"] == {"finalizers": ["test.dev/a"]}, "the namespace is empty")
    assert api.get(f"{api.maps}/one").code == 404
    gone = finalize([])
    assert (gone.code, gone.body["spec"]) == (200, {})
    until(lambda: api.get(path).code == 404, "the namespace is gone")
    assert api("PUT", f"{path}/finalize", {**gone.body, "metadata": {"name": api.namespace}}).code == 404


def test_a_namespace_is_created_with_further_finalizers(api: Api) -> None:
    body = {"metadata": {"name": f"{api.namespace}-kept"}, "spec": {"finalizers": ["test.dev/a"]}}
    answer = api("POST", "/api/v1/namespaces", body, dryRun="All")
    assert (answer.code, answer.body["spec"]) == (201, {"finalizers": ["test.dev/a", "kubernetes"]})


@cases(
    ("no pod", None, True),
    ("a pod without a node", "", True),
    ("a pod", "node", False),
    ("one that ended", "end", False),
)
def test_a_claim_is_kept_until_no_pod_uses_it(use: str | None, goes: bool, api: Api) -> None:
    claims = api.maps.replace("configmaps", "persistentvolumeclaims")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.create(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "one"}, "spec": spec})
    if use is not None:
        body = pod()
        body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]
        api.create(api.pods, body)
    if use:
        _bind(api, "worker")
    if use == "end":
        api.patch(f"{api.pods}/worker/status", {"status": {"phase": "Succeeded"}})
    answer = api("DELETE", f"{claims}/one")
    assert answer.body["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    if not goes:
        # Another claim that goes shows that this one had its turn.
        api.create(claims, {**answer.body, "metadata": {"name": "two"}, "status": {}})
        api("DELETE", f"{claims}/two")
        until(lambda: api.get(f"{claims}/two").code == 404, "the other claim is gone")
        assert api.get(f"{claims}/one").body["metadata"]["deletionTimestamp"]
        api("DELETE", f"{api.pods}/worker", gracePeriodSeconds=0)
    until(lambda: api.get(f"{claims}/one").code == 404, "the claim is gone")


def test_a_namespace_takes_its_claims_in_use_along(api: Api) -> None:
    claims = api.maps.replace("configmaps", "persistentvolumeclaims")
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    api.create(claims, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "one"}, "spec": spec})
    body = pod()
    body["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "one"}}]
    body["spec"]["terminationGracePeriodSeconds"] = 0
    api.create(api.pods, body)
    _bind(api, "worker")
    api("DELETE", f"/api/v1/namespaces/{api.namespace}")
    until(lambda: api.get(f"/api/v1/namespaces/{api.namespace}").code == 404, "the namespace is gone")
