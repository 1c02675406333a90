"""Deployments where rules meet: scaled in mid-rollout, paused at zero, late statuses, conditions that stay."""

from typing import Any

from tests.support.tables import cases
from tests.unit.controllers.apps.apps_cluster import AppsCluster, rolling, template
from workers.api import times
from workers.api.kinds import DEPLOYMENT, POD, REPLICA_SET, Object, Ref
from workers.controllers import adoption
from workers.controllers.apps import revisions
from workers.controllers.apps.revisions import DESIRED, Sets
from workers.decision.plan import ComeBack, Patch, Together
from workers.decision.snapshot import CachedObject, Snapshot


def stuck(**spec: Any) -> AppsCluster:
    """A rollout to a template whose pods never serve, as far as it gets."""
    cluster = AppsCluster(healthy=lambda pod: pod["spec"]["containers"][0]["image"] != "broken", **spec)
    cluster.settle()
    cluster.edit(template=template("broken"))
    cluster.settle()
    return cluster


def change(cluster: AppsCluster, image: str, **fields: Any) -> None:
    """Change the set of this image behind everybody's back."""
    for body in cluster.of(REPLICA_SET):
        if body["spec"]["template"]["spec"]["containers"][0]["image"] == image:
            cluster.objects[Ref(REPLICA_SET, "default", body["metadata"]["name"]).key] = {
                name: {**part, **fields.get(name, {})} if isinstance(part, dict) else part
                for name, part in body.items()
            }


def progressing(cluster: AppsCluster) -> Object:
    return next(one for one in cluster.status["conditions"] if one["type"] == "Progressing")


@cases(
    ("out", rolling(3, 2), 10, {"one": 8, "broken": 5}, 15, {"one": 11, "broken": 7}),
    ("in", rolling(3, 2), 10, {"one": 8, "broken": 5}, 5, {"one": 5, "broken": 3}),
    ("newest first", rolling(4, 0), 4, {"one": 4, "broken": 4}, 5, {"one": 4, "broken": 5}),
    ("to nothing", rolling(3, 2), 10, {"one": 8, "broken": 5}, 0, {"one": 0, "broken": 0}),
)
def test_sets_share_when_the_deployment_is_scaled_in_mid_rollout(
    strategy: Object, replicas: int, before: dict[str, int], after: int, sizes: dict[str, int]
):
    cluster = stuck(replicas=replicas, strategy=strategy)
    assert cluster.sizes() == before
    cluster.edit(replicas=after)
    cluster.sync(DEPLOYMENT)
    assert cluster.sizes() == sizes


def test_paused_at_nothing_the_newest_set_grows():
    cluster = AppsCluster(replicas=1)
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.settle()
    cluster.edit(paused=True, replicas=0, template=template("three"))
    cluster.settle()
    cluster.edit(replicas=2)
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "two": 2}
    cluster.edit(template=template("one"), replicas=0)
    cluster.settle()
    cluster.edit(replicas=1)
    cluster.settle()
    assert cluster.sizes() == {"one": 1, "two": 0}


def test_paused_a_set_that_serves_it_all_needs_no_other():
    cluster = AppsCluster(replicas=3)
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.settle()
    cluster.edit(paused=True)
    change(cluster, "one", spec={"replicas": 1}, metadata={"annotations": {DESIRED: "9"}})
    cluster.sync(DEPLOYMENT)
    assert cluster.sizes() == {"one": 0, "two": 3}


def test_without_any_set_a_pause_makes_none():
    cluster = AppsCluster(replicas=3, paused=True)
    cluster.settle()
    assert cluster.of(REPLICA_SET) == []


def test_a_quarter_may_surge_where_nothing_is_said():
    cluster = AppsCluster(replicas=12, strategy={"type": "RollingUpdate"})
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.sync(DEPLOYMENT)
    cluster.sync(DEPLOYMENT)
    most = {
        body["metadata"]["annotations"]["deployment.kubernetes.io/max-replicas"] for body in cluster.of(REPLICA_SET)
    }
    assert most == {"15"}
    assert stuck(replicas=12, strategy={"type": "RollingUpdate"}).available() == 9


def test_of_the_old_pods_those_that_do_not_serve_go_first():
    cluster = stuck(replicas=4, strategy=rolling(1, 1))
    assert cluster.sizes() == {"one": 3, "broken": 2}
    least = []
    cluster.watch = lambda: least.append(cluster.available())
    cluster.edit(template=template("two"))
    cluster.settle()
    assert min(least) == 3
    assert cluster.sizes() == {"one": 0, "broken": 0, "two": 4}


def test_another_label_is_another_template():
    cluster = AppsCluster(replicas=1)
    cluster.settle()
    cluster.edit(template=template("one", tier="back"))
    cluster.settle()
    assert sorted(body["spec"]["replicas"] for body in cluster.of(REPLICA_SET)) == [0, 1]
    [pod] = cluster.of(POD)
    assert pod["metadata"]["labels"]["tier"] == "back"


def test_recreate_does_not_believe_a_late_status():
    cluster = AppsCluster(replicas=2, strategy={"type": "Recreate"})
    cluster.sync(DEPLOYMENT)
    cluster.edit(template=template("two"))
    for _ in range(3):
        cluster.sync(DEPLOYMENT)
    assert cluster.sizes() == {"one": 0}
    cluster.settle()
    assert cluster.sizes() == {"one": 0, "two": 2}


def test_beyond_the_limit_an_old_set_stays_while_it_has_pods():
    cluster = AppsCluster(replicas=1)
    cluster.settle()
    cluster.edit(template=template("two"))
    cluster.settle()
    change(cluster, "one", status={"terminatingReplicas": 1})
    cluster.edit(revisionHistoryLimit=0)
    cluster.sync(DEPLOYMENT)
    assert cluster.sizes() == {"one": 0, "two": 1}


def test_since_when_a_rollout_gets_on_is_kept_while_it_does():
    cluster = AppsCluster(replicas=3)
    cluster.settle()
    since = progressing(cluster)["lastTransitionTime"]
    updated = progressing(cluster)["lastUpdateTime"]
    cluster.edit(template=template("two"))
    cluster.settle()
    assert progressing(cluster)["lastTransitionTime"] == since
    assert progressing(cluster)["lastUpdateTime"] > updated


def test_pods_that_are_lost_one_after_the_other_begin_no_rollout():
    cluster = AppsCluster(replicas=2, lag=3)
    cluster.settle()
    before = progressing(cluster)
    for pod in cluster.of(POD):
        cluster.delete(Ref(POD, "default", pod["metadata"]["name"]))
        cluster.sync(REPLICA_SET)
        cluster.sync(DEPLOYMENT)
        cluster.second += 1
    cluster.settle()
    assert cluster.available() == 2
    assert progressing(cluster) == before


def test_going_back_long_after_is_not_late_from_the_beginning():
    cluster = AppsCluster(replicas=2, progressDeadlineSeconds=30)
    for image in ("one", "two"):
        cluster.edit(template=template(image))
        cluster.settle()
    cluster.second += 1000
    cluster.edit(template=template("one"))
    reasons: set[str] = set()
    cluster.watch = lambda: reasons.add(cluster.condition("Progressing")[1])
    cluster.settle()
    assert reasons == {"NewReplicaSetAvailable", "ReplicaSetUpdated"}


def test_the_end_of_the_deadline_is_waited_for():
    cluster = stuck(replicas=1, progressDeadlineSeconds=60)
    updated = times.parse(progressing(cluster)["lastUpdateTime"])
    plan = cluster.plan(cluster.root, DEPLOYMENT)
    (back,) = (step.at for step in plan.steps if isinstance(step, ComeBack))
    assert (back - updated).total_seconds() == 61
    cluster.edit(progressDeadlineSeconds=None)
    cluster.settle()
    assert cluster.condition("Progressing") == ("", "")


def test_why_a_set_cannot_make_pods_is_the_deployments_news_too():
    cluster = AppsCluster(replicas=1)
    cluster.settle()
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "no quota"}
    (body,) = cluster.of(REPLICA_SET)
    shown = [{**failure, "lastTransitionTime": times.render(cluster.now)}]
    change(cluster, "one", status={"conditions": shown})
    cluster.sync(DEPLOYMENT)
    assert cluster.condition("ReplicaFailure") == ("True", "FailedCreate")
    before = cluster.status
    cluster.second += 5
    cluster.sync(DEPLOYMENT)
    assert cluster.status == before
    cluster.objects[Ref(REPLICA_SET, "default", body["metadata"]["name"]).key] = body
    cluster.sync(DEPLOYMENT)
    assert cluster.condition("ReplicaFailure") == ("", "")


def test_of_two_sets_with_the_current_template_the_older_one_is_it():
    def body(name: str, at: str) -> Object:
        return {"metadata": {"name": name, "creationTimestamp": at}, "spec": {"template": template()}}

    young, old = body("a", "2026-01-02T00:00:00Z"), body("b", "2026-01-01T00:00:00Z")
    sets = Sets.of({"spec": {"template": template()}}, [young, old])
    assert (sets.new, sets.old) == (old, (young,))


def _pod(name: str, *, owned: bool, **more: Any) -> CachedObject:
    owner = [{"uid": "u", "controller": True}] if owned else []
    metadata = {"name": name, "namespace": "default", "resourceVersion": "1", "ownerReferences": owner}
    metadata["labels"] = more.pop("labels", {"app": "web"})
    body = {"metadata": {**metadata, **more.pop("metadata", {})}, **more}
    return CachedObject(Ref(POD, "default", name), body, 0)


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@cases(
    ("without an owner, matches", _pod("a", owned=False), True),
    ("without an owner, another label", _pod("a", owned=False, labels={"app": "x"}), False),
    ("without an owner, being deleted", _pod("a", owned=False, metadata=LEAVING), False),
    ("without an owner, finished", _pod("a", owned=False, status={"phase": "Failed"}), False),
    ("ours", _pod("a", owned=True), False),
    ("ours, another label", _pod("a", owned=True, labels={"app": "x"}), True),
    ("ours and finished", _pod("a", owned=True, labels={}, status={"phase": "Failed"}), False),
    ("ours, being deleted", _pod("a", owned=True, labels={}, metadata=LEAVING), False),
)
def test_who_changes_hands(entry: CachedObject, moves: bool):
    owner = {
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "7"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
    }
    assert entry.body is not None
    owned = bool(entry.body["metadata"]["ownerReferences"])
    where = {"children" if owned else "unowned": {POD.id: (entry,)}}
    ref = Ref(REPLICA_SET, "default", "web")
    steps = adoption.claim(Snapshot(ref, owner, **where), POD)
    if not moves:
        assert steps == ()
        return
    *fence, together = steps
    assert fence == ([] if owned else [Patch(ref, {"metadata": {"uid": "u"}}, "7")])
    assert isinstance(together, Together)
    (patch,) = together.steps
    assert isinstance(patch, Patch)
    assert len(patch.body["metadata"]["ownerReferences"]) == (0 if owned else 1)
    leaving = {**owner, "metadata": {**owner["metadata"], **LEAVING}}
    assert adoption.claim(Snapshot(ref, leaving, **where), POD) == ()


@cases(
    ("without an owner", {}),
    ("of another owner", {"ownerReferences": [{"kind": "Deployment", "uid": "uid-other", "controller": True}]}),
    ("ours, of another template", {"ownerReferences": [{"kind": "Deployment", "uid": "uid-web", "controller": True}]}),
)
def test_a_name_that_another_set_has_is_counted_and_another_one_taken(metadata: Object):
    cluster = AppsCluster(replicas=2)
    taken = revisions.next_ref(cluster.root)
    other = {"metadata": {"name": taken.name, "namespace": "default", "labels": {"app": "other"}, **metadata}}
    cluster.put(REPLICA_SET, {**other, "spec": {"replicas": 0, "selector": {}, "template": template("other")}})
    cluster.settle()
    assert cluster.sizes() == {"other": 0, "one": 2}
    assert cluster.status["collisionCount"] == 1
    assert not [event for event in cluster.events if event.startswith("refused")]
    cluster.edit(template=template("two"))
    cluster.settle()
    assert cluster.sizes()["two"] == 2
    assert cluster.status["collisionCount"] == 1
