"""The files of service accounts in containers."""

from deploy.local.kubelet.volumes import account_files
from deploy.local.kubelet.volumes.account_files import FOLDER, SILENT_MOUNT, VOLUME
from tests.support.tables import cases
from tests.unit.kubelet.factories import box, pod
from workers.api.kinds import Object

OTHER = {"name": "other", "mountPath": "/other"}


@cases(
    ("the pod does not want them", {"automountServiceAccountToken": False}, {}, {}),
    ("its account does not", {}, {"automountServiceAccountToken": False}, {}),
    ("there is no account", {}, None, {}),
    ("something else is mounted there", {}, {}, {"volumeMounts": [{"name": "own", "mountPath": f"{FOLDER}/"}]}),
    ("the name of the volume is taken", {"volumes": [{"name": VOLUME["name"], "emptyDir": {}}]}, {}, {}),
)
def test_nothing_is_added_if(spec: Object, account: Object | None, container: Object) -> None:
    main = box("main", **container)
    body = pod(main, **spec)
    assert account_files.with_files(body, main, account) == (body, main)


@cases(
    ("neither says anything", {}, {}, False),
    ("pod and account differ", {"automountServiceAccountToken": True}, {"automountServiceAccountToken": False}, True),
    ("the pod names its account", {"serviceAccountName": "robot"}, {}, True),
    ("the pod names the usual account", {"serviceAccountName": "default"}, {}, False),
)
def test_volume_and_mount_are_added_if(spec: Object, account: Object, asked: bool) -> None:
    main = box("main", volumeMounts=[OTHER])
    body = pod(main, volumes=[{"name": "other", "emptyDir": {}}], **spec)
    changed, container = account_files.with_files(body, main, account)
    assert [one["name"] for one in changed["spec"]["volumes"]] == ["other", VOLUME["name"]]
    assert container["volumeMounts"] == [OTHER, SILENT_MOUNT]
    # Whether it is an event that the mount cannot be made.
    assert (container["volumeMounts"][1] is not SILENT_MOUNT) is asked
    assert main["volumeMounts"] == [OTHER]
    assert len(body["spec"]["volumes"]) == 1


def test_audiences_are_those_of_projected_tokens() -> None:
    projected = {
        "projected": {"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}, {"secret": {}}]}
    }
    assert list(account_files.audiences([VOLUME, {"name": "x", "emptyDir": {}}, projected])) == ["", "vault"]
