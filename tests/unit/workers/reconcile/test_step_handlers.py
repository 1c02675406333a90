"""Steps that read before they write: key pairs for ssh, and names in another object's list."""

import base64

import pytest
from cryptography.hazmat.primitives import serialization

from tests.support.tables import cases
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import TRIGGER_AUTHENTICATION, Ref
from workers.decision.plan import EditList
from workers.errors import Conflict, Forbidden, Unavailable
from workers.reconcile.step_handlers import ATTEMPTS, edit_list, ssh_key_pair

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
        ("a", False, None),
    ):
        await edit_list(cluster, step(name, present=present))
        assert listed(cluster) == expected
    await edit_list(cluster, step("x", field="scaledobjects"))
    assert (listed(cluster), listed(cluster, "scaledobjects")) == (None, "x")


async def test_what_is_there_already_is_not_written_again(cluster):
    await edit_list(cluster, step("a"))
    writes = len(cluster.log)
    await edit_list(cluster, step("a"))
    await edit_list(cluster, step("b", present=False))
    assert len(cluster.log) == writes


async def test_a_name_written_concurrently_is_not_lost(cluster):
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
    await edit_list(cluster, step("a"))
    assert listed(cluster) == "a,other,third"


@cases(
    ("may not be written: the list is for people", Forbidden("no", status=403), None),
    ("always a conflict", Conflict("again", status=409), Conflict),
    ("the API server is away", Unavailable("away"), Unavailable),
)
async def test_what_fails(error, raised, cluster):
    attempts = []

    def refuse(verb, ref):
        attempts.append(verb)
        raise error

    cluster.refuse = refuse
    if raised:
        with pytest.raises(raised):
            await edit_list(cluster, step("a"))
    else:
        await edit_list(cluster, step("a"))
    assert len(attempts) == (ATTEMPTS if raised is Conflict else 1)


async def test_an_authentication_that_does_not_exist_needs_no_list():
    await edit_list(MemoryCluster(), step("a"))


def test_a_key_pair_is_2048_bits_of_rsa_and_its_halves_belong_together():
    made = ssh_key_pair()
    private = serialization.load_pem_private_key(made["id_rsa"].encode(), None)
    public = serialization.load_ssh_public_key(made["id_rsa.pub"].encode())
    assert private.key_size == 2048
    assert private.public_key().public_numbers() == public.public_numbers()
    assert made["id_rsa"].splitlines()[0] == "-----BEGIN RSA PRIVATE KEY-----", "PKCS#1"
    assert made["authorized_keys"] == made["id_rsa.pub"]
    kind, blob = made["id_rsa.pub"].split()
    assert (kind, base64.b64decode(blob)[4:11]) == ("ssh-rsa", b"ssh-rsa")


def test_no_two_key_pairs_are_equal():
    assert ssh_key_pair()["id_rsa"] != ssh_key_pair()["id_rsa"]
