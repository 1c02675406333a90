"""What the server makes of pods: defaults, refusals, and how little of them may change."""

import copy
from typing import Any

import pytest

from deploy.local.apiserver.schema.defaults import pull_policy
from deploy.local.apiserver.strategies import podspec
from deploy.local.apiserver.strategies.pods import qos_class
from tests.unit.apiserver.examples import CONTAINER, changed, created, problems
from workers.api.kinds import POD


def pod(*, container: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{**CONTAINER, **(container or {})}], **spec},
    }


def test_a_pod_gets_its_defaults() -> None:
    body = created(POD, pod())
    assert body["spec"] == {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "enableServiceLinks": True,
        "containers": [
            {
                "name": "c",
                "image": "x",
                "imagePullPolicy": "Always",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
    }
    assert body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        pytest.param(
            {"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}, id="ports"
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]},
            id="field references",
        ),
        pytest.param(
            {"livenessProbe": {"httpGet": {"port": 1}, "timeoutSeconds": 0}},
            {
                "livenessProbe": {
                    "httpGet": {"port": 1, "path": "/", "scheme": "HTTP"},
                    "timeoutSeconds": 1,
                    "periodSeconds": 10,
                    "successThreshold": 1,
                    "failureThreshold": 3,
                }
            },
            id="probes",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}},
            id="requests up to the limits",
        ),
    ],
)
def test_a_container_gets_defaults(given: Any, filled: Any) -> None:
    container = created(POD, pod(container=given))["spec"]["containers"][0]
    assert {name: container[name] for name in filled} == filled


@pytest.mark.parametrize(
    ("volume", "filled"),
    [
        pytest.param({}, {"emptyDir": {}}, id="nothing is an empty folder"),
        pytest.param({"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}, id="secret"),
        pytest.param({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}, id="hostPath"),
        pytest.param(
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
            {
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 420,
                }
            },
            id="token",
        ),
    ],
)
def test_a_volume_gets_defaults(volume: Any, filled: Any) -> None:
    assert created(POD, pod(volumes=[{"name": "v", **volume}]))["spec"]["volumes"] == [{"name": "v", **filled}]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("x:1", "IfNotPresent"),
        ("host:5000/x", "Always"),
        ("host:5000/x:1", "IfNotPresent"),
        ("x@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policies_follow_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


AT = "spec.containers[0]"


@pytest.mark.parametrize(
    ("container", "field", "message"),
    [
        pytest.param({"name": ""}, "name", "Required value", id="no name"),
        pytest.param({"image": ""}, "image", "Required value", id="no image"),
        pytest.param(
            {"imagePullPolicy": "x"},
            "imagePullPolicy",
            'Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never"',
            id="pull policy",
        ),
        pytest.param({"env": [{"name": ""}]}, "env[0].name", "Required value", id="a variable without a name"),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {}}]},
            "env[0].valueFrom",
            'Invalid value: "": must specify one of: '
            "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`",
            id="a variable from nowhere",
        ),
        pytest.param(
            {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
            "env[0].valueFrom",
            'Invalid value: "": may not be specified when `value` is not empty',
            id="a variable with two values",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]},
            "env[0].valueFrom.fieldRef.fieldPath",
            'Invalid value: "x": error converting fieldPath: field label not supported: x',
            id="an unknown field",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]},
            "env[0].valueFrom.secretKeyRef.key",
            "Required value",
            id="no key",
        ),
        pytest.param(
            {"envFrom": [{}]},
            "envFrom",
            'Invalid value: "": must specify one of: `configMapRef` or `secretRef`',
            id="envFrom",
        ),
        pytest.param(
            {"ports": [{"containerPort": 70000}]},
            "ports[0].containerPort",
            "Invalid value: 70000: must be between 1 and 65535, inclusive",
            id="a port too high",
        ),
        pytest.param(
            {"ports": [{"containerPort": 1, "protocol": "x"}]},
            "ports[0].protocol",
            'Unsupported value: "x": supported values: "SCTP", "TCP", "UDP"',
            id="protocol",
        ),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/x"}]},
            "volumeMounts[0].name",
            'Not found: "v"',
            id="no volume",
        ),
        pytest.param({"livenessProbe": {}}, "livenessProbe", "Required value: must specify a handler type", id="probe"),
        pytest.param(
            {"livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}},
            "livenessProbe.successThreshold",
            "Invalid value: 2: must be 1",
            id="liveness needs one success",
        ),
        pytest.param(
            {"resources": {"requests": {"cpu": "-1"}}},
            "resources.requests[cpu]",
            'Invalid value: "-1": must be greater than or equal to 0',
            id="less than nothing",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}},
            "resources.requests",
            'Invalid value: "1001m": must be less than or equal to cpu limit',
            id="more than the limit",
        ),
        pytest.param(
            {"terminationMessagePolicy": "x"},
            "terminationMessagePolicy",
            "Invalid value: \"x\": must be 'File' or 'FallbackToLogsOnError'",
            id="termination message",
        ),
    ],
)
def test_a_container_is_refused(container: Any, field: str, message: str) -> None:
    assert problems(POD, pod(container=container)) == [(f"{AT}.{field}", message)]


MOUNT = {"name": "v", "mountPath": "/v"}
NODES = "affinity.nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def where(**expression: Any) -> dict[str, Any]:
    """Affinity to nodes by one condition on their label `a`."""
    terms = [{"matchExpressions": [{"key": "a", **expression}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


def variable(**source: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, "env": [{"name": "A", "valueFrom": {"resourceFieldRef": source}}]}]}


RESOURCE = "containers[0].env[0].valueFrom.resourceFieldRef"
CONDITION = f"{NODES}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"


def probe(**handler: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, "livenessProbe": handler}]}


def configured(*items: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "configMap": {"name": "c", "items": list(items)}}]}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"tolerations": [{}]}, ["tolerations[0].operator"], id="a toleration of everything, perhaps"),
        pytest.param({"tolerations": [{"operator": "Exists"}]}, [], id="a toleration of everything"),
        pytest.param({"tolerations": [{"key": "a b"}]}, ["tolerations[0].key"], id="a toleration's key"),
        pytest.param({"tolerations": [{"key": "a", "value": "b c"}]}, ["tolerations[0].operator"], id="its value"),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Near"}]}, ["tolerations[0].operator"], id="its operator"
        ),
        pytest.param({"tolerations": [{"key": "a", "effect": "Pain"}]}, ["tolerations[0].effect"], id="its effect"),
        pytest.param(
            {"tolerations": [{"key": "a", "tolerationSeconds": 5}]}, ["tolerations[0].effect"], id="for how long what"
        ),
        pytest.param(
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
            ["tolerations[0].operator"],
            id="a value that exists",
        ),
        pytest.param(where(operator="In", values=["b"]), [], id="an affinity"),
        pytest.param(where(operator="Gt", values=["5"]), [], id="an affinity to numbers"),
        pytest.param(where(operator="In"), [f"{CONDITION}.values"], id="an affinity to nothing"),
        pytest.param(where(operator="Gt", values=["1", "2"]), [f"{CONDITION}.values"], id="above two numbers"),
        pytest.param(where(operator="Near"), [f"{CONDITION}.operator"], id="an affinity's operator"),
        pytest.param(where(key="a b", operator="Exists"), [f"{CONDITION}.key"], id="an affinity's key"),
        pytest.param(
            {"affinity": {"nodeAffinity": {REQUIRED: {}}}}, [f"{NODES}.{REQUIRED}.nodeSelectorTerms"], id="no terms"
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101}]}}},
            [f"{NODES}.{PREFERRED}[0].weight"],
            id="a wish too strong",
        ),
        pytest.param(variable(resource="limits.cpu", divisor="1m"), [], id="a limit as a variable"),
        pytest.param(variable(), [f"{RESOURCE}.resource"], id="no resource"),
        pytest.param(variable(resource="limits.gpu"), [f"{RESOURCE}.resource"], id="a resource nobody has"),
        pytest.param(variable(resource="limits.cpu", divisor="1k"), [f"{RESOURCE}.divisor"], id="thousands of CPUs"),
        pytest.param(variable(resource="limits.memory", divisor="1Mi"), [], id="mebibytes of memory"),
        pytest.param(probe(httpGet={"port": "http"}), [], id="a port by its name"),
        pytest.param(probe(httpGet={"port": 0}), ["containers[0].livenessProbe.httpGet.port"], id="no port"),
        pytest.param(probe(tcpSocket={"port": "8"}), ["containers[0].livenessProbe.tcpSocket.port"], id="no letter"),
        pytest.param(
            {"containers": [{**CONTAINER, "lifecycle": {"preStop": {"exec": {}}}}]},
            ["containers[0].lifecycle.preStop.exec.command"],
            id="a hook that runs nothing",
        ),
        pytest.param(configured({"key": "k", "path": "a/b"}), [], id="one key of a volume"),
        pytest.param(
            configured({}), ["volumes[0].configMap.items[0].key", "volumes[0].configMap.items[0].path"], id="no key"
        ),
        pytest.param(
            configured({"key": "k", "path": "/etc"}), ["volumes[0].configMap.items[0].path"], id="an absolute path"
        ),
        pytest.param(
            configured({"key": "k", "path": "a/../.."}), ["volumes[0].configMap.items[0].path"], id="a way out"
        ),
        pytest.param(
            {"volumes": [{"name": "v", "secret": {}}], "containers": [{**CONTAINER, "volumeMounts": [MOUNT]}]},
            ["volumes[0].secret.secretName", "containers[0].volumeMounts[0].name"],
            id="a volume that cannot be mounted",
        ),
        pytest.param(
            {"containers": [{**CONTAINER, "image": " x"}]}, ["containers[0].image"], id="a blank before an image"
        ),
        pytest.param({"containers": []}, ["containers"], id="no containers"),
        pytest.param({"containers": [CONTAINER, CONTAINER]}, ["containers[1].name"], id="one name twice"),
        pytest.param({"initContainers": [CONTAINER]}, ["initContainers[0].name"], id="an init container of that name"),
        pytest.param({"restartPolicy": "x"}, ["restartPolicy"], id="restartPolicy"),
        pytest.param({"dnsPolicy": "x"}, ["dnsPolicy"], id="dnsPolicy"),
        pytest.param({"activeDeadlineSeconds": 0}, ["activeDeadlineSeconds"], id="no time at all"),
        pytest.param({"nodeSelector": {"a b": ""}}, ["nodeSelector"], id="nodeSelector"),
        pytest.param({"hostname": "a.b"}, ["hostname"], id="hostname"),
        pytest.param({"schedulingGates": [{"name": "a"}] * 2}, ["schedulingGates[1]"], id="one gate twice"),
        pytest.param({"schedulingGates": [{}]}, ["schedulingGates[0]"] * 2, id="a gate without a name"),
        pytest.param({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, ["nodeName"], id="a node behind a gate"),
        pytest.param({"volumes": [{"name": "v"}, {"name": "v"}]}, ["volumes[1].name"], id="one volume twice"),
        pytest.param({"volumes": [{"name": "v", "secret": {}}]}, ["volumes[0].secret.secretName"], id="which secret"),
        pytest.param(
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            ["volumes[0].hostPath"],
            id="two kinds",
        ),
    ],
)
def test_a_pod_is_refused(spec: Any, fields: list[str]) -> None:
    assert [field for field, _ in problems(POD, pod(**spec))] == [f"spec.{field}" for field in fields]


def test_a_template_may_have_an_image_to_be_filled_in() -> None:
    assert podspec.template({"spec": created(POD, pod(containers=[{**CONTAINER, "image": " "}]))["spec"]}, "t") == []


STORED = created(POD, pod(activeDeadlineSeconds=10, tolerations=[{"key": "a"}]))


def edited(stored: Any = STORED, **spec: Any) -> dict[str, Any]:
    body: dict[str, Any] = copy.deepcopy(stored)
    for name, value in spec.items():
        if name == "image":
            body["spec"]["containers"][0]["image"] = value
        elif value is None:
            del body["spec"][name]
        else:
            body["spec"][name] = value
    return body


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        pytest.param({"image": "y"}, [], id="another image"),
        pytest.param({"activeDeadlineSeconds": 5}, [], id="an earlier deadline"),
        pytest.param({"tolerations": [{"key": "a"}, {"key": "b"}]}, [], id="another toleration"),
        pytest.param({"activeDeadlineSeconds": 11}, ["spec.activeDeadlineSeconds"], id="a later deadline"),
        pytest.param({"activeDeadlineSeconds": None}, ["spec.activeDeadlineSeconds"], id="no deadline any more"),
        pytest.param({"tolerations": [{"key": "b"}]}, ["spec.tolerations"], id="a toleration less"),
        pytest.param({"hostname": "x"}, ["spec"], id="anything else"),
        pytest.param(
            {"containers": [CONTAINER, {**CONTAINER, "name": "d"}]}, ["spec.containers"], id="a container more"
        ),
    ],
)
def test_little_of_a_pod_may_change(spec: Any, fields: list[str]) -> None:
    assert [field for field, _ in changed(POD, STORED, edited(**spec))[1]] == fields


GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
GATED = created(POD, pod(schedulingGates=GATES, nodeSelector={"zone": "a"}))


def test_a_gated_pod_says_why_it_has_no_node() -> None:
    [condition] = GATED["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert "conditions" not in STORED["status"]


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"schedulingGates": GATES[1:]}, [], id="a gate less"),
        pytest.param({"schedulingGates": None}, [], id="no gate any more"),
        pytest.param({"schedulingGates": None, "nodeSelector": {"zone": "a", "disk": "b"}}, [], id="a narrower choice"),
        pytest.param(
            {"schedulingGates": [*GATES, {"name": "c"}]},
            [
                (
                    "spec.schedulingGates[2].name",
                    "Forbidden: only deletion is allowed, but found new scheduling gate 'c'",
                )
            ],
            id="a gate more",
        ),
        pytest.param(
            {"nodeSelector": {"zone": "b"}},
            [
                (
                    "spec.nodeSelector",
                    'Invalid value: map[string]string{"zone":"b"}: only additions to spec.nodeSelector are allowed '
                    "(no mutations or deletions)",
                )
            ],
            id="another choice",
        ),
    ],
)
def test_gates_are_only_taken_away(spec: Any, refused: list[tuple[str, str]]) -> None:
    assert changed(POD, GATED, edited(GATED, **spec))[1] == refused


def test_a_pod_without_gates_keeps_its_choice_of_nodes() -> None:
    assert [field for field, _ in changed(POD, STORED, edited(nodeSelector={"zone": "a"}))[1]] == ["spec"]


def test_a_pod_may_be_bound_to_a_node_only_by_its_scheduler() -> None:
    assert [field for field, _ in changed(POD, STORED, edited(nodeName="n"))[1]] == ["spec"]


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}}, "Burstable"),
    ],
    ids=["nothing", "a request", "limits as requested", "limits above requests"],
)
def test_quality_of_service(resources: Any, quality: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == quality
