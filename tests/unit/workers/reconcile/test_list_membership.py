"""A name in a list of another object's status: kept against others, and never worth stopping a plan."""

import pytest

from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import TRIGGER_AUTHENTICATION, Ref
from workers.errors import Conflict, Forbidden, Unavailable
from workers.reconcile.list_membership import ATTEMPTS, enlist
from workers.reconcile.plan import EditList

LOGIN = Ref(TRIGGER_AUTHENTICATION, "default", "login")


@pytest.fixture
def cluster():
    cluster = MemoryCluster()
    cluster.add(TRIGGER_AUTHENTICATION, {"metadata": {"name": "login", "namespace": "default"}, "spec": {}})
    return cluster


def listed(cluster, field="scaledjobs"):
    return (cluster.objects[LOGIN].get("status") or {}).get(field)


def step(name, *, present=True, field="scaledjobs"):
    return EditList(LOGIN, field, name, present)


async def test_names_come_and_go(cluster):
    for name, present, expected in (
        ("b", True, "b"),
        ("a", True, "a,b"),
        ("a", True, "a,b"),
        ("c", False, "a,b"),
        ("b", False, "a"),
        ("a", False, ""),
    ):
        await enlist(cluster, step(name, present=present))
        assert listed(cluster) == expected
    await enlist(cluster, step("x", field="scaledobjects"))
    assert (listed(cluster), listed(cluster, "scaledobjects")) == ("", "x")


async def test_what_is_there_already_is_not_written_again(cluster):
    await enlist(cluster, step("a"))
    writes = len(cluster.log)
    await enlist(cluster, step("a"))
    await enlist(cluster, step("b", present=False))
    assert len(cluster.log) == writes


async def test_somebody_elses_name_is_not_lost(cluster):
    """Another process writes between our reading and our writing."""
    get = cluster.get
    others = iter(["other", "third"])

    async def overtaken(ref):
        body = await get(ref)
        if name := next(others, None):
            known = listed(cluster)
            status = {"status": {"scaledjobs": f"{known},{name}" if known else name}}
            await cluster.patch(LOGIN, status, subresource="status")
        return body

    cluster.get = overtaken
    await enlist(cluster, step("a"))
    assert listed(cluster) == "a,other,third"


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        pytest.param(Forbidden("no", status=403), None, id="may not be written: the list is for people"),
        pytest.param(Conflict("again", status=409), Conflict, id="always a conflict"),
        pytest.param(Unavailable("away"), Unavailable, id="the API server is away"),
    ],
)
async def test_what_fails(cluster, error, raised):
    attempts = []

    def refuse(verb, ref):
        attempts.append(verb)
        raise error

    cluster.refuse = refuse
    if raised:
        with pytest.raises(raised):
            await enlist(cluster, step("a"))
    else:
        await enlist(cluster, step("a"))
    assert len(attempts) == (ATTEMPTS if raised is Conflict else 1)


async def test_an_authentication_that_does_not_exist_needs_no_list():
    await enlist(MemoryCluster(), step("a"))
