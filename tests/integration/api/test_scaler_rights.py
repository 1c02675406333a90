"""Rights of the scalers' account on a real kube-apiserver: the Secrets and tokens that each option allows."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from deploy.manifests import rbac
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers import errors
from workers.api.kinds import NAMESPACE, SECRET, SERVICE_ACCOUNT, Kind, Object, Ref
from workers.client.rest import Cluster

pytestmark = pytest.mark.real_apiserver

TEAM = "rights"
KINDS = {
    "Namespace": NAMESPACE,
    "ServiceAccount": SERVICE_ACCOUNT,
    "Role": Kind("rbac.authorization.k8s.io", "v1", "Role", "roles"),
    "RoleBinding": Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
    "ClusterRole": Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Kind(
        "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
    ),
}
ASKED = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def named(kind: str, name: str) -> Object:
    namespace = {} if kind == "Namespace" else {"namespace": TEAM}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **namespace}}


async def token(cluster: Cluster, namespace: str, account: str) -> str:
    path = SERVICE_ACCOUNT.path(namespace, account, "token")
    return str((await cluster.request("POST", path, body=ASKED))["status"]["token"])


async def allowed(attempt: Callable[[], Awaitable[object]]) -> bool:
    try:
        await attempt()
    except errors.Forbidden:
        return False
    except errors.NotFound:
        return True
    return True


@cases(
    ("default", (), (True, False, False, False)),
    ("Secrets of a namespace", ("--secrets", TEAM), (True, True, False, False)),
    ("the token of one account", ("--tokens", f"{TEAM}/reader"), (True, False, True, False)),
    ("tokens of a namespace", ("--tokens", TEAM), (True, False, True, True)),
    ("everything", ("--secrets", "*", "--tokens", "*"), (True, True, True, True)),
)
async def test_each_option_allows_what_it_names(
    options: tuple[str, ...], expected: tuple[bool, ...], real_config: Path, tmp_path: Path
) -> None:
    made = list(yaml.safe_load_all(rbac.render(*rbac.options(options))))
    names = (("Namespace", TEAM), ("ServiceAccount", "reader"), ("ServiceAccount", "other"))
    placed = [named(*each) for each in names]
    async with await Cluster.connect(kubeconfig=real_config) as admin:
        for body in [placed[0], *made, *placed[1:]]:
            with suppress(errors.AlreadyExists):
                await admin.create(KINDS[body["kind"]], body)
        config = yaml.safe_load(real_config.read_text())
        config["users"][0]["user"] = {"token": await token(admin, "penstock", "penstock-scaler")}
        own = tmp_path / "kubeconfig"
        own.write_text(yaml.safe_dump(config))
        async with await Cluster.connect(kubeconfig=own) as scaler:

            async def granted() -> bool:
                found = (
                    await allowed(lambda: scaler.get(Ref(SECRET, "penstock", "login"))),
                    await allowed(lambda: scaler.get(Ref(SECRET, TEAM, "login"))),
                    await allowed(lambda: token(scaler, TEAM, "reader")),
                    await allowed(lambda: token(scaler, TEAM, "other")),
                )
                return found == expected

            # The API server observes its own roles a moment after they are written.
            await eventually(granted, 20)
            assert not await allowed(lambda: scaler.list(SECRET))
        for body in made:
            if body["kind"].endswith("Binding"):
                metadata = body["metadata"]
                await admin.delete(Ref(KINDS[body["kind"]], metadata.get("namespace", ""), metadata["name"]))
