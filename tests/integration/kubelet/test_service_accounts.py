"""Pods that talk to the API server by what client libraries find in a container."""

import sys

import pytest

from tests.integration.kubelet.lab import Lab, code, phase, shell
from tests.support.conditions import eventually
from tests.support.tables import cases
from workers.api.kinds import EVENT, SERVICE, SERVICE_ACCOUNT, Kind, Object

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")

#: The official client, configured as in a pod of any cluster.
LIST = f"""
from kubernetes import client, config
config.load_incluster_config()
api = client.CoreV1Api()
namespace = open("{FOLDER}/namespace").read()
try:
    print("pods", *sorted(pod.metadata.name for pod in api.list_namespaced_pod(namespace).items))
except client.ApiException as error:
    print("refused", error.status)
"""


def asks(name: str = "main") -> Object:
    return {"name": name, "image": "none", "command": [sys.executable, "-c", LIST]}


@pytest.fixture
async def isolated(bench: Lab, _allowed: None) -> Lab:
    bench.start(isolation="required")
    return bench


async def test_the_rights_of_its_account_are_those_of_a_pod(isolated: Lab) -> None:
    meta = {"namespace": "default", "name": "robot"}
    await isolated.cluster.create(SERVICE_ACCOUNT, {"metadata": meta})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    await isolated.cluster.create(ROLE, {"metadata": meta, "rules": rules})
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}]
    role = {"apiGroup": ROLE.group, "kind": ROLE.kind, "name": "robot"}
    await isolated.cluster.create(BINDING, {"metadata": meta, "subjects": subjects, "roleRef": role})
    try:
        await isolated.create("robotic", asks(), serviceAccountName="robot")
        assert isolated.log(await isolated.ended("robotic")) == ["stdout pods robotic"]
        await isolated.delete("robotic")
        await isolated.gone("robotic")
        # The account that a pod has by itself may do nothing.
        await isolated.create("plain", asks())
        assert isolated.log(await isolated.ended("plain")) == ["stdout refused 403"]
    finally:
        for kind in (BINDING, ROLE, SERVICE_ACCOUNT):
            await isolated.delete("robot", kind=kind)


@cases(
    ("the pod does not want it", {"automountServiceAccountToken": False}),
    ("there is no such account", {"serviceAccountName": "nobody"}),
)
async def test_a_pod_has_no_token_if(spec: Object, isolated: Lab) -> None:
    await isolated.create("without", shell(f"ls {FOLDER} 2>/dev/null || echo none"), **spec)
    assert isolated.log(await isolated.ended("without")) == ["stdout none"]


async def test_services_have_variables(isolated: Lab) -> None:
    spec = {"ports": [{"port": 80, "targetPort": 8080}]}
    await isolated.cluster.create(SERVICE, {"metadata": {"namespace": "default", "name": "web"}, "spec": spec})
    try:
        script = "echo $WEB_SERVICE_HOST $WEB_SERVICE_PORT ${KUBERNETES_SERVICE_HOST:+there}"
        await isolated.create("client", shell(script))
        await isolated.create("stranger", shell(script), enableServiceLinks=False)
        assert isolated.log(await isolated.ended("client")) == ["stdout 127.0.0.1 8080 there"]
        assert isolated.log(await isolated.ended("stranger")) == ["stdout there"]
    finally:
        await isolated.delete("web", kind=SERVICE)


async def test_a_projected_token_is_for_its_audience(isolated: Lab) -> None:
    source = {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    script = "cut -d. -f2 /tokens/token | tr '_-' '/+' | base64 -d 2>/dev/null | grep -o '\"aud\":\\[[^]]*\\]'"
    await isolated.create(
        "projected",
        shell(script, volumeMounts=[{"name": "tokens", "mountPath": "/tokens"}]),
        volumes=[{"name": "tokens", "projected": {"sources": [source]}}],
        serviceAccountName="default",
    )
    assert isolated.log(await isolated.ended("projected")) == ['stdout "aud":["vault"]']


async def test_without_namespaces_a_variable_has_the_files(bench: Lab) -> None:
    bench.start()
    variable = "PENSTOCK_MOUNT_VAR_RUN_SECRETS_KUBERNETES_IO_SERVICEACCOUNT"
    script = f"ls ${variable} | xargs; echo ${{KUBERNETES_SERVICE_HOST:-no address}}"
    await bench.create("bare", shell(script), automountServiceAccountToken=True)
    pod = await bench.ended("bare")
    assert (phase(pod), code(pod)) == ("Succeeded", 0)
    assert bench.log(pod) == ["stdout ca.crt namespace token", "stdout no address"]

    async def announced() -> list[str]:
        events, _ = await bench.cluster.list(EVENT, "default")
        return [one["message"] for one in events if one["involvedObject"]["uid"] == pod["metadata"]["uid"]]

    await eventually(announced, 60.0)
    assert [f"{FOLDER} (in ${variable})" in text for text in await announced()] == [True]
    # A pod that did not ask for them has no event.
    await bench.create("silent", shell(script))
    pod = await bench.ended("silent")
    assert bench.log(pod) == ["stdout ca.crt namespace token", "stdout no address"]
    assert await announced() == []
