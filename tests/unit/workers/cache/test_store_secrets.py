"""Secrets never enter the store, by any way: whoever can read the broker can read the store."""

import pytest

from scheduler.keys import Keys
from tests.support.clusters import FakeCluster
from tests.support.tables import cases
from tests.unit.workers.acting import OWNER, owned
from workers.api.kinds import SECRET, Ref, ref_of
from workers.cache.reflector import Reflector
from workers.cache.store import ObjectVersion, Store
from workers.decision.plan import Create, Delete, Discard, Patch, Together, Unfinalize
from workers.errors import Stale

HUSH = "aHVzaA=="
REF = Ref(SECRET, "default", "login")


def secret(owner=None, **metadata):
    known = owned("login", owner)["metadata"] if owner else {"namespace": "default", "name": "login"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {**known, **metadata}, "data": {"word": HUSH}}


def version(body):
    return body["metadata"]["resourceVersion"]


async def kept(client):
    """Everything that the broker holds, as text."""
    commands = {b"hash": "HGETALL {}", b"zset": "ZRANGE {} 0 -1", b"set": "SMEMBERS {}", b"list": "LRANGE {} 0 -1"}
    commands[b"string"] = "GET {}"
    read = [commands[await client.type(key)].format(key.decode()).split(" ") for key in await client.keys()]
    return "\n".join([f"{command} {await client.execute_command(*command)}" for command in read])


async def test_what_is_looked_for_would_be_found(rig, fake_redis):
    await rig.store.apply(OWNER.kind, [ObjectVersion({**rig.owner, "spec": {"word": HUSH}})])
    assert HUSH in await kept(fake_redis)


@cases(
    ("created", False, lambda body: [Create(SECRET, body)]),
    ("created together", False, lambda body: [Together((Create(SECRET, body),))]),
    ("there already", True, lambda body: [Create(SECRET, body)]),
    ("there already, to be minted", True, lambda body: [Create(SECRET, body, generate="ssh-key")]),
    ("changed", True, lambda body: [Patch(REF, {"data": {"more": HUSH}}, version(body))]),
    ("let go of", True, lambda body: [Unfinalize(REF, body["metadata"]["uid"], "held")]),
    ("deleted", True, lambda body: [Delete(REF, body["metadata"]["uid"])]),
    ("discarded", True, lambda body: [Discard(REF)]),
)
async def test_no_step_writes_one_through(there, steps, rig, fake_redis):
    body = secret(rig.owner, finalizers=["held", "other"])
    if there:
        body = rig.cluster.add(SECRET, body)
    await rig.act(*steps(body))
    assert not there or rig.cluster.objects.get(REF) is None or HUSH in str(rig.cluster.objects[REF])
    text = await kept(fake_redis)
    assert (HUSH in text, "login" in text) == (False, False)


async def test_no_informer_brings_one_and_none_claims_to_follow_them(fake_redis):
    cluster, store = FakeCluster(), Store(fake_redis, Keys("test"), {})
    cluster.put(SECRET, secret(uid="uid"))

    async def notify(notifications):
        pass

    with pytest.raises(ValueError, match="secrets are not kept in the store"):
        await Reflector(cluster, store, SECRET, notify).run(1)
    await store.apply(SECRET, [ObjectVersion(secret(uid="uid", resourceVersion="5"))], epoch=1)
    assert await store.freshness([SECRET]) == {SECRET.id: None}
    assert await kept(fake_redis) == ""


@cases(
    ("a glance", {"optional_relatives": lambda body: (REF,)}, False),
    ("a survey", {"cluster_wide": (SECRET,)}, True),
    ("what names it", {"referrers": (SECRET,)}, True),
    ("what may be adopted", {"adopts": (SECRET,)}, True),
)
async def test_no_decision_brings_one_and_what_is_unknown_is_not_missing(sees, stale, worker, fake_redis):
    worker = await worker(**sees)
    body = worker.cluster.add(SECRET, secret(worker.owner))
    await worker.store.apply(SECRET, [ObjectVersion(body)])
    (lease,) = (await worker.lane.claim(1)).leases
    seen = (await worker.observer.observe([lease]))[lease]
    assert isinstance(seen, Stale) is stale
    assert stale or seen.relatives == {ref_of(SECRET, body): None}
    assert HUSH not in await kept(fake_redis)
