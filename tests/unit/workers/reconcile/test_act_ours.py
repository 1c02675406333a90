"""Plans beside other writers: names that are taken, finalizers, keys, owners, replicas, and places of a status."""

from contextlib import nullcontext

import pytest

from scheduler.queue import Done
from tests.support.tables import cases, for_each
from tests.unit.workers.acting import HELD, OWNER, TAKEN
from workers.api.kinds import HORIZONTAL_POD_AUTOSCALER, JOB, POD, POD_GROUP, SCALED_JOB, SECRET, Kind, Ref, ref_of
from workers.cache.store import ObjectVersion
from workers.controllers.keda.scaledobject import rivals
from workers.decision.plan import Create, Delete, Discard, Patch, PatchStatus, Plan, RecordEvent, Scale, Together
from workers.decision.snapshot import Snapshot
from workers.errors import AlreadyExists, Conflict, Forbidden


async def test_a_name_taken_by_a_stranger_stops_the_plan_and_says_so(rig):
    rig.stranger()
    with pytest.raises(AlreadyExists, match="Job default/a exists and belongs to somebody else"):
        await rig.act(Create(JOB, rig.job("a")), Create(JOB, rig.job("b")))
    assert ("create", "b") not in rig.cluster.log


@cases(("a stranger's", False), ("ours", True))
async def test_a_plan_that_foresees_a_taken_name_says_so_and_goes_on(ours, rig):
    if ours:
        rig.cluster.add(JOB, rig.job("a"))
    else:
        rig.stranger()
    await rig.act(Create(JOB, rig.job("a"), taken=TAKEN), Create(JOB, rig.job("b"), taken=TAKEN))
    assert rig.recorder.records == ([] if ours else [("NameTaken", "Job a is somebody else's")])
    assert set(await rig.children()) == ({"a", "b"} if ours else {"b"})


async def test_a_taken_name_is_decided_on_once_more(rig):
    await rig.store.apply(SCALED_JOB, [ObjectVersion(rig.owner)])
    await rig.claimed()
    rig.stranger()
    await rig.act(Create(JOB, rig.job("b"), taken=TAKEN))
    assert (await rig.lane.stats()).dirty == 0
    await rig.act(Create(JOB, rig.job("a"), taken=TAKEN))
    assert (await rig.lane.stats()).dirty == 1


async def test_a_taken_name_does_not_count_among_what_was_done_together(rig):
    rig.stranger()
    jobs = tuple(Create(JOB, rig.job(name), taken=TAKEN) for name in "abc")
    stage = Together(jobs, RecordEvent("Normal", "Created", "{done}"), RecordEvent("Warning", "Failed", "{error}"))
    await rig.act(stage, RecordEvent("Normal", "Later", "goes on"))
    assert sorted(rig.recorder.records) == [
        ("Created", "2"),
        ("Later", "goes on"),
        ("NameTaken", "Job a is somebody else's"),
    ]


@for_each(("", "3"), ("a", "2"), ("abc", None))
async def test_an_object_of_an_earlier_plan_is_not_told_as_created(known, told, rig):
    for name in known:
        rig.cluster.add(JOB, rig.job(name))
    jobs = tuple(Create(JOB, rig.job(name)) for name in "abc")
    await rig.act(Together(jobs, RecordEvent("Normal", "SuccessfulCreate", "{done}")))
    assert rig.recorder.records == ([("SuccessfulCreate", told)] if told else [])
    assert sorted(await rig.children()) == ["a", "b", "c"]


async def test_a_finalizer_is_removed_despite_concurrent_writes(rig):
    body, step = await rig.held(finalizers=("other", HELD))
    rig.cluster.add(JOB, {**body, "status": {"phase": "Failed"}})
    await rig.act(step)
    stored = rig.cluster.objects[step.ref]
    assert (stored["metadata"]["finalizers"], stored["status"]) == (["other"], {"phase": "Failed"})
    entry = await rig.store.get(step.ref)
    assert entry.body == stored


@cases(
    ("nobody deletes it", {}, False),
    ("its last, being deleted", {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0}, True),
    (
        "another one holds it",
        {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 0, "finalizers": [HELD, "other"]},
        False,
    ),
    ("its kubelet is at work", {"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30}, False),
)
async def test_the_store_knows_at_once_whether_the_object_went_with_its_finalizer(metadata, gone, rig):
    _, step = await rig.held(**metadata)
    await rig.act(step)
    assert (step.ref not in rig.cluster.objects) is gone
    assert await rig.children() == {"a": gone}


async def test_taking_a_finalizer_off_what_is_gone_is_success_and_leaves_a_tombstone(rig):
    _, step = await rig.held()
    del rig.cluster.objects[step.ref]
    await rig.act(step)
    assert await rig.children() == {"a": True}


async def test_another_object_of_the_name_keeps_its_finalizer_and_ours_counts_as_gone(rig):
    _, step = await rig.held()
    del rig.cluster.objects[step.ref]
    rig.stranger(finalizers=[HELD])
    await rig.act(step)
    assert rig.cluster.objects[step.ref]["metadata"]["finalizers"] == [HELD]
    assert await rig.children() == {"a": True}


async def test_finalizers_go_together_and_are_counted(rig):
    steps = tuple([(await rig.held(f"p{number}"))[1] for number in range(9)])
    await rig.act(Together(steps, then=RecordEvent("Normal", "Let", "{done} go")))
    assert rig.recorder.records == [("Let", "9 go")]
    assert not any(rig.cluster.objects[step.ref]["metadata"].get("finalizers") for step in steps)


@cases(("nothing", {}, False), ("its end", {"succeeded": 1}, True))
async def test_what_else_happened_to_a_child_until_it_was_deleted_is_news(happened, is_news, rig):
    """A finalizer keeps it, and the watch shows the same version: no other change would ask for a decision."""
    await rig.store.apply(SCALED_JOB, [ObjectVersion(rig.owner)])
    observed, taken_off = await rig.held()
    leases = (await rig.lane.claim(10)).leases
    rig.cluster.add(JOB, {**observed, "status": happened})

    async def deleting(ref, **options):
        left = rig.cluster.objects[ref]
        return rig.cluster.add(JOB, {**left, "metadata": {**left["metadata"], "deletionTimestamp": "2026-03-01"}})

    rig.cluster.delete = deleting
    children = {JOB.id: await rig.store.children(JOB, rig.owner["metadata"]["uid"])}
    step = Delete(taken_off.ref, taken_off.uid)
    await rig.actor.act(Snapshot(OWNER, rig.owner, children=children), Plan((step,)), rig.check)
    await rig.lane.finish([(lease, Done()) for lease in leases])
    assert (OWNER.key in await rig.claimed()) is is_news
    assert (await rig.store.get(taken_off.ref)).body["status"] == happened


async def test_another_object_under_the_same_name_is_not_deleted(rig):
    rig.cluster.add(JOB, rig.job("a"))
    await rig.act(Delete(Ref(JOB, "default", "a"), "the uid of an older one"))
    assert Ref(JOB, "default", "a") in rig.cluster.objects


async def test_an_object_of_another_owner_does_where_any_owner_will(rig):
    rig.stranger()
    await rig.act(Create(JOB, rig.job("a"), any_owner=True), Create(JOB, rig.job("b")))
    assert await rig.children() == {"b": False}
    assert (await rig.lane.stats()).dirty == 0


def keys(rig):
    """A Secret of the owner, without what is still to be made for it."""
    body = rig.job("keys")
    return {"metadata": body["metadata"], "stringData": {"config": "Host *"}}


async def test_what_is_minted_is_in_the_object_that_is_created_and_nowhere_else(rig):
    step = Create(SECRET, keys(rig), generate="ssh-key")
    await rig.act(step)
    made = await rig.cluster.get(ref_of(SECRET, step.body))
    texts = made["stringData"]
    assert set(texts) == {"config", "id_rsa", "id_rsa.pub", "authorized_keys"}
    assert texts["id_rsa"].startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    assert step.body["stringData"] == {"config": "Host *"}
    assert await rig.store.children(SECRET, rig.owner["metadata"]["uid"]) == ()


async def test_a_key_that_is_there_stays_the_key(rig):
    step = Create(SECRET, keys(rig), generate="ssh-key")
    await rig.act(step)
    first = await rig.cluster.get(ref_of(SECRET, step.body))
    await rig.act(step)
    assert await rig.cluster.get(ref_of(SECRET, step.body)) == first


async def test_keys_of_another_owner_are_not_taken_for_ours(rig):
    rig.stranger("keys", SECRET)
    with pytest.raises(AlreadyExists, match="Secret default/keys exists and belongs to somebody else"):
        await rig.act(Create(SECRET, keys(rig), generate="ssh-key"))


@for_each(True, False)
async def test_what_was_never_observed_is_deleted_if_it_is_ours(ours, rig):
    ref = Ref(SECRET, "default", "keys")
    if ours:
        rig.cluster.add(SECRET, keys(rig))
    else:
        rig.stranger("keys", SECRET)
    await rig.act(Discard(ref), Discard(Ref(SECRET, "default", "never-there")))
    assert (("delete", "keys") in rig.cluster.log) is ours


async def test_an_autoscaler_whose_place_is_taken_is_deleted_and_nothing_stops_where_it_may_not_be(rig):
    """Of a kind that nobody follows."""
    made = rig.stranger("hpa", HORIZONTAL_POD_AUTOSCALER)
    step = rivals.delete_autoscalers((made,))
    ref = ref_of(HORIZONTAL_POD_AUTOSCALER, made)
    rig.cluster.refuse_with(Forbidden("not you", status=403))
    await rig.act(step)
    assert ref in rig.cluster.objects
    assert rig.recorder.records == [
        ("AutoscalerStays", "The target's HorizontalPodAutoscaler cannot be deleted: not you")
    ]
    rig.cluster.refuse_with(None)
    await rig.act(step)
    assert ref not in rig.cluster.objects
    assert rig.recorder.records[1:] == [("AutoscalerReplaced", "Deleted 1 HorizontalPodAutoscaler of this target")]


@for_each("web", "other", None)
async def test_a_child_that_another_made_for_the_same_owner_exists_already(owner, rig):
    def group(of):
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": f"uid-{of}", "controller": True}
        return {"metadata": {"name": "g", "namespace": "default", "ownerReferences": [reference] if of else []}}

    rig.cluster.add(POD_GROUP, group(owner))
    pod, step = rig.stranger("p", POD), Create(POD_GROUP, group("web"))
    if owner == "web":
        await rig.act(step, ref=ref_of(POD, pod), body=pod)
        assert await rig.store.get(ref_of(POD_GROUP, group("web"))) is not None
    else:
        with pytest.raises(AlreadyExists, match="belongs to somebody else"):
            await rig.act(step, ref=ref_of(POD, pod), body=pod)


@for_each((SCALED_JOB, "patch status"), (POD_GROUP, "patch"))
async def test_a_status_is_written_where_its_kind_keeps_it(kind, verb, rig):
    body = {"metadata": {"name": "g", "namespace": "default"}, "spec": {"a": 1}, "status": {"b": 2}}
    body = rig.cluster.add(kind, body)
    await rig.act(PatchStatus({"phase": "Pending"}), ref=(ref := ref_of(kind, body)), body=body)
    assert rig.cluster.log == [(verb, "g")]
    stored = (await rig.store.get(ref)).body
    assert (stored["spec"], stored["status"]) == ({"a": 1}, {"phase": "Pending"})


DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")


@cases(
    ("through the subresource", False, None, None, 4, [("Scaled", "from 1 to 4")]),
    ("a target that changed meanwhile is left alone", True, None, Conflict, 9, []),
    (
        "a refusal is recorded in the server's words",
        False,
        Forbidden("you may not", status=403),
        Forbidden,
        1,
        [("NotScaled", "because you may not")],
    ),
)
async def test_replicas_are_set(changed, refusal, raised, replicas, record, rig):
    body = {"metadata": {"name": "pool", "namespace": "default"}, "spec": {"replicas": 1}}
    version, pool = rig.cluster.add(DEPLOYMENT, body)["metadata"]["resourceVersion"], Ref(DEPLOYMENT, "default", "pool")
    if changed:
        await rig.cluster.patch(pool, {"spec": {"replicas": 9}})
    rig.cluster.refuse_with(refusal)
    then, otherwise = (
        RecordEvent("Normal", "Scaled", "from 1 to 4"),
        RecordEvent("Warning", "NotScaled", "because {error}"),
    )
    with pytest.raises(raised) if raised else nullcontext():
        await rig.act(Scale(pool, 4, version, then, otherwise))
    assert rig.cluster.objects[pool]["spec"]["replicas"] == replicas
    assert rig.cluster.log[-1] == ("patch scale", "pool")
    assert rig.recorder.records == record


@cases(
    ("with the patch", None, [("Waits", "for room")]),
    ("not for one that changed nothing", Forbidden("you may not", status=403), []),
)
async def test_a_patch_is_told_of_once_it_succeeded(refusal, record, rig):
    bodies = [{"metadata": {"name": name, "namespace": "default"}} for name in ("a", "b")]
    versions = {ref_of(POD_GROUP, body): rig.cluster.add(POD_GROUP, body)["metadata"] for body in bodies}
    rig.cluster.refuse_with(refusal)
    (ref, metadata), (other, _) = versions.items()
    then = RecordEvent("Normal", "Waits", "for room", (POD_GROUP, bodies[0]))
    patch = Patch(ref, {"status": {"a": 1}}, metadata["resourceVersion"], then)
    # The other patch, of an outdated version, is refused in both cases.
    stage = Together((patch, Patch(other, {"status": {"a": 1}}, "1", then)), vital=False)
    await rig.act(stage)
    assert rig.recorder.records == record
