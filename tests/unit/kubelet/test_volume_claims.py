"""Claims as folders: made when needed, bound, and removed when the claim is gone."""

from pathlib import Path

import pytest

from deploy.local.kubelet.containers.environment import ConfigProblem
from deploy.local.kubelet.volumes.volume_claims import VolumeClaims
from tests.unit.workers.clusters import MemoryCluster
from workers.api.kinds import PERSISTENT_VOLUME_CLAIM, Object, Ref, ref_of
from workers.errors import Unavailable


class Store(MemoryCluster):
    """Claims that can be listed."""

    async def list(self, kind):
        found = [body for body in self.objects.values() if body["kind"] == kind.kind]
        return found, "1"


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def claims(store: Store, tmp_path: Path) -> VolumeClaims:
    return VolumeClaims(store, tmp_path / "claims")


def add(store: Store, name: str) -> Object:
    metadata = {"name": name, "namespace": "default"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    return store.add(PERSISTENT_VOLUME_CLAIM, {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})


def volume(name: str, claim: str) -> Object:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


async def test_a_claim_is_a_folder_that_stays_and_is_bound(store: Store, claims: VolumeClaims, tmp_path: Path) -> None:
    body = add(store, "data")
    places = await claims.places("default", [volume("v", "data"), {"name": "other", "emptyDir": {}}])
    assert places == {"v": tmp_path / "claims" / body["metadata"]["uid"]}
    (places["v"] / "file").write_text("kept")
    again = await claims.places("default", [volume("w", "data")])
    assert (again["w"] / "file").read_text() == "kept"
    bound = (await store.get(ref_of(PERSISTENT_VOLUME_CLAIM, body)))["status"]
    assert bound == {"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Mi"}}


async def test_a_claim_that_is_missing_is_named(claims: VolumeClaims) -> None:
    with pytest.raises(ConfigProblem, match='persistentvolumeclaim "data" not found'):
        await claims.places("default", [volume("v", "data")])


async def test_the_folder_goes_with_the_claim(store: Store, claims: VolumeClaims) -> None:
    add(store, "data")
    add(store, "kept")
    places = await claims.places("default", [volume("v", "data"), volume("w", "kept")])
    await store.delete(Ref(PERSISTENT_VOLUME_CLAIM, "default", "data"))
    await claims.tidy()
    assert not places["v"].exists()
    assert places["w"].exists()


async def test_no_folder_is_removed_while_claims_cannot_be_listed(
    store: Store, claims: VolumeClaims, monkeypatch
) -> None:
    add(store, "data")
    places = await claims.places("default", [volume("v", "data")])

    async def unavailable(_kind):
        raise Unavailable("no answer")

    monkeypatch.setattr(store, "list", unavailable)
    with pytest.raises(Unavailable):
        await claims.tidy()
    assert places["v"].exists()
