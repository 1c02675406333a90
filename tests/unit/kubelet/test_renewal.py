"""Volumes whose ConfigMaps, Secrets and labels change while their containers run."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deploy.local.kubelet.pods import renewal
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object

DATA = {(CONFIG_MAP, "conf"): {"a": b"2"}, (SECRET, "word"): {"s": b"hush"}}
LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
TOKEN = {"serviceAccountToken": {"path": "token"}}


class _Cluster:
    """Stands for the fetchers of data and of what is the pod's own."""

    def __init__(self) -> None:
        self.asked: list[tuple[Kind, str]] = []

    async def fetch(self, _namespace: str, wanted: Iterable[tuple[Kind, str]]) -> Any:
        self.asked = list(wanted)
        return {one: DATA.get(one) for one in self.asked}

    async def sources(self, _pod: Object, _volumes: Iterable[Object], known: Any) -> Any:
        return known


@cases(
    ("a ConfigMap", {"configMap": {"name": "conf"}}, {"a": b"2"}),
    ("a Secret", {"secret": {"secretName": "word"}}, {"s": b"hush"}),
    ("labels", {"downwardAPI": {"items": [LABELS]}}, {"labels": b'l="new"'}),
    ("all but a token", {"projected": {"sources": [TOKEN, {"configMap": {"name": "conf"}}]}}, {"a": b"2"}),
    ("nothing of one that is gone", {"configMap": {"name": "gone"}}, None),
    ("nothing of its own folder", {"emptyDir": {}}, None),
    ("nothing of the machine", {"hostPath": {"path": "/x"}}, None),
)
async def test_a_volume_is_renewed_with(volume: Object, wanted: dict[str, bytes] | None) -> None:
    mounted, other = box("main", volumeMounts=[{"name": "v", "mountPath": "/v"}]), {"name": "w", **volume}
    body = pod(mounted, volumes=[{"name": "v", **volume}, other], meta={"labels": {"l": "new"}})
    cluster: Any = _Cluster()
    found = await renewal.current(cluster, cluster, body, [mounted], Path("/p"))
    contents = {place: {name: data for name, (data, _mode) in files.items()} for place, files in found}
    assert contents == ({} if wanted is None else {Path("/p/.volumes/v"): wanted})


async def test_nothing_is_asked_for_containers_without_such_volumes() -> None:
    cluster: Any = _Cluster()
    body = pod(box("main"), volumes=[{"name": "v", "configMap": {"name": "conf"}}])
    assert await renewal.current(cluster, cluster, body, [body["spec"]["containers"][0]], Path("/p")) == []
    assert cluster.asked == []
