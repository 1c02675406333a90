"""Secrets never come into the mirror, whichever way: everybody who can read the broker can read the mirror."""

import pytest

from scheduler.keys import Keys
from tests.support.clusters import FakeCluster
from tests.unit.workers.reconciling import OWNER
from workers.api.kinds import SECRET, Ref, ref_of
from workers.cache.reflector import Reflector
from workers.cache.store import ObjectVersion, Store
from workers.errors import Stale
from workers.reconcile.plan import Create, Delete, Discard, Patch, Together, Unfinalize

HUSH = "aHVzaA=="
REF = Ref(SECRET, "default", "login")


def secret(owner=None, **metadata):
    if owner:
        reference = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledJob", "name": OWNER.name, "controller": True}
        metadata["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "default", "name": "login", **metadata},
        "data": {"word": HUSH},
    }


async def kept(client):
    """Everything that the broker holds, as text."""
    found = []
    for key in await client.keys():
        read = {
            b"hash": lambda key: client.hgetall(key),
            b"zset": lambda key: client.zrange(key, 0, -1, withscores=True),
            b"set": lambda key: client.smembers(key),
            b"list": lambda key: client.lrange(key, 0, -1),
            b"string": lambda key: client.get(key),
        }[await client.type(key)]
        found.append(f"{key} {await read(key)}")
    return "\n".join(found)


async def test_what_is_looked_for_would_be_found(world, fake_redis):
    await world.mirror.apply(OWNER.kind, [ObjectVersion({**world.owner, "spec": {"word": HUSH}})])
    assert HUSH in await kept(fake_redis)


@pytest.mark.parametrize(
    ("there", "steps"),
    [
        pytest.param(False, lambda body: [Create(SECRET, body)], id="created"),
        pytest.param(False, lambda body: [Together((Create(SECRET, body),))], id="created together"),
        pytest.param(True, lambda body: [Create(SECRET, body)], id="there already"),
        pytest.param(True, lambda body: [Create(SECRET, body, mint="ssh-key")], id="there already, to be minted"),
        pytest.param(
            True,
            lambda body: [Patch(REF, {"data": {"more": HUSH}}, body["metadata"]["resourceVersion"])],
            id="changed",
        ),
        pytest.param(True, lambda body: [Unfinalize(REF, body["metadata"]["uid"], "held")], id="let go of"),
        pytest.param(True, lambda body: [Delete(REF, body["metadata"]["uid"])], id="deleted"),
        pytest.param(True, lambda body: [Discard(REF)], id="discarded"),
    ],
)
async def test_no_step_writes_one_through(world, fake_redis, there, steps):
    body = secret(world.owner, finalizers=["held", "other"])
    if there:
        body = world.cluster.add(SECRET, body)
    await world.act(*steps(body))
    assert not there or world.cluster.objects.get(REF) is None or HUSH in str(world.cluster.objects[REF])
    text = await kept(fake_redis)
    assert (HUSH in text, "login" in text) == (False, False)


async def test_no_informer_brings_one_and_none_claims_to_follow_them(fake_redis):
    cluster, mirror = FakeCluster(), Store(fake_redis, Keys("test"), {})
    cluster.put(SECRET, secret(uid="uid"))

    async def ring(bells):
        pass

    with pytest.raises(ValueError, match="secrets are not kept in the mirror"):
        await Reflector(cluster, mirror, SECRET, ring).run(1)
    await mirror.apply(SECRET, [ObjectVersion(secret(uid="uid", resourceVersion="5"))], epoch=1)
    assert await mirror.freshness([SECRET]) == {SECRET.id: None}
    assert await kept(fake_redis) == ""


@pytest.mark.parametrize(
    ("sees", "stale"),
    [
        pytest.param({"glances": lambda body: (REF,)}, False, id="a glance"),
        pytest.param({"everywhere": (SECRET,)}, True, id="a survey"),
        pytest.param({"tied": (SECRET,)}, True, id="what names it"),
        pytest.param({"adopts": (SECRET,)}, True, id="what may be adopted"),
    ],
)
async def test_no_decision_brings_one_and_what_is_unknown_is_not_missing(house, fake_redis, sees, stale):
    house = await house(**sees)
    body = house.cluster.add(SECRET, secret(house.owner))
    await house.mirror.apply(SECRET, [ObjectVersion(body)])
    (lease,) = (await house.lane.claim(1)).leases
    seen = (await house.observer.observe([lease]))[lease]
    assert isinstance(seen, Stale) is stale
    assert stale or seen.relatives == {ref_of(SECRET, body): None}
    assert HUSH not in await kept(fake_redis)
