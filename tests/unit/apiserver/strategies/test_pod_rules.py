"""Pods on the server: defaults, refusals, and the few mutable fields."""

import copy
from typing import Any

from deploy.local.apiserver.schema.defaults import pull_policy
from deploy.local.apiserver.strategies.pod_specs import podspec
from deploy.local.apiserver.strategies.pods import qos_class
from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import CONTAINER, changed, created, problems, refusals, refused, unsupported
from tests.unit.apiserver.pod_faults import FAULTS, LATER_FAULTS, SOUND
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


@cases(
    ("ports", {"ports": [{"containerPort": 1}]}, {"ports": [{"containerPort": 1, "protocol": "TCP"}]}),
    (
        "field references",
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}]},
    ),
    (
        "probes",
        {"livenessProbe": {"httpGet": {"port": 1}, "timeoutSeconds": 0}},
        {
            "livenessProbe": {
                **{"httpGet": {"port": 1, "path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1},
                **{"periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
            }
        },
    ),
    (
        "requests up to the limits",
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}},
        {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}}},
    ),
)
def test_a_container_gets_defaults(given: Any, filled: Any) -> None:
    container = created(POD, pod(container=given))["spec"]["containers"][0]
    assert {name: container[name] for name in filled} == filled


@cases(
    ("nothing is an empty folder", {}, {"emptyDir": {}}),
    ("secret", {"secret": {"secretName": "s"}}, {"secret": {"secretName": "s", "defaultMode": 420}}),
    ("hostPath", {"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
    (
        "token",
        {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        {
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                "defaultMode": 420,
            }
        },
    ),
)
def test_a_volume_gets_defaults(volume: Any, filled: Any) -> None:
    assert created(POD, pod(volumes=[{"name": "v", **volume}]))["spec"]["volumes"] == [{"name": "v", **filled}]


@for_each(
    *((image, "Always") for image in ("x", "x:latest", "host:5000/x")),
    *((image, "IfNotPresent") for image in ("x:1", "host:5000/x:1", "x@sha256:0")),
)
def test_pull_policies_follow_the_tag(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def source(**source: Any) -> dict[str, Any]:
    """A container with a variable from somewhere."""
    return {"env": [{"name": "A", "valueFrom": source}]}


@refusals(
    {
        "name: Required value": {"name": ""},
        "image: Required value": {"image": ""},
        f"imagePullPolicy: {unsupported('x', 'Always', 'IfNotPresent', 'Never')}": {"imagePullPolicy": "x"},
        "env[0].name: Required value": {"env": [{"name": ""}]},
        'env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII '
        "characters other than '='": {"env": [{"name": "A=B"}]},
        'env[0].valueFrom: Invalid value: "": must specify one of: '
        "`fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`": source(),
        'env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty': {
            "env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
        },
        'env[0].valueFrom.fieldRef.fieldPath: Invalid value: "x": '
        "error converting fieldPath: field label not supported: x": source(fieldRef={"fieldPath": "x"}),
        "env[0].valueFrom.secretKeyRef.key: Required value": source(secretKeyRef={"name": "s"}),
        'envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`': {"envFrom": [{}]},
        "ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive": {
            "ports": [{"containerPort": 70000}]
        },
        f"ports[0].protocol: {unsupported('x', 'SCTP', 'TCP', 'UDP')}": (
            {"ports": [{"containerPort": 1, "protocol": "x"}]}
        ),
        'volumeMounts[0].name: Not found: "v"': {"volumeMounts": [{"name": "v", "mountPath": "/x"}]},
        "livenessProbe: Required value: must specify a handler type": {"livenessProbe": {}},
        "livenessProbe.successThreshold: Invalid value: 2: must be 1": {
            "livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}
        },
        'resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0': {
            "resources": {"requests": {"cpu": "-1"}}
        },
        'resources.requests: Invalid value: "1001m": must be less than or equal to cpu limit': {
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1001m"}}
        },
        "terminationMessagePolicy: Invalid value: \"x\": must be 'File' or 'FallbackToLogsOnError'": {
            "terminationMessagePolicy": "x"
        },
        "resources.limits: Required value: Limit must be set for non overcommitable resources": {
            "resources": {"requests": {"example.com/gpu": "1"}}
        },
        'resources.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2': {
            "resources": {"limits": {"example.com/gpu": "2"}, "requests": {"example.com/gpu": "1"}}
        },
        "resources: Forbidden: HugePages require cpu or memory": {"resources": {"limits": {"hugepages-2Mi": "2Mi"}}},
        "lifecycle.preStop.sleep: Invalid value: 31: "
        "must be non-negative and less than terminationGracePeriodSeconds (30)": {
            "lifecycle": {"preStop": {"sleep": {"seconds": 31}}}
        },
        f"livenessProbe.httpGet.scheme: {unsupported('FTP', 'HTTP', 'HTTPS')}": {
            "livenessProbe": {"httpGet": {"port": 1, "scheme": "FTP"}}
        },
        'ports[1].hostPort: Duplicate value: "TCP//9"': {
            "ports": [{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]
        },
        'volumeDevices[0].name: Not found: "v"': {"volumeDevices": [{"name": "v", "devicePath": "/x"}]},
        "securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive": {
            "securityContext": {"runAsUser": -1}
        },
    }
)
def test_a_container_is_refused(refusal: str, body: Any) -> None:
    assert refused(POD, pod(container=body)) == [f"spec.containers[0].{refusal}"]


MOUNT = {"name": "v", "mountPath": "/v"}
NODES = "affinity.nodeAffinity"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def where(**expression: Any) -> dict[str, Any]:
    """Affinity to nodes by one condition on their label `a`."""
    terms = [{"matchExpressions": [{"key": "a", **expression}]}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


RESOURCE = "containers[0].env[0].valueFrom.resourceFieldRef"
CONDITION = f"{NODES}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"


def tolerated(**toleration: Any) -> dict[str, Any]:
    return {"tolerations": [toleration]}


def in_container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, **fields}]}


def probe(**handler: Any) -> dict[str, Any]:
    return in_container(livenessProbe=handler)


def variable(**resource: Any) -> dict[str, Any]:
    return in_container(**source(resourceFieldRef=resource))


def whole(resources: Any, **second: Any) -> dict[str, Any]:
    """A pod with resources of its own whose two containers and sidecar request 2 CPUs. second: of its container."""
    first = {**CONTAINER, "resources": {"requests": {"cpu": "1"}}}
    other = {**CONTAINER, "name": "b", "resources": {"requests": {"cpu": "500m"}, **second}}
    side = {**CONTAINER, "name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}
    return {"containers": [first, other], "initContainers": [side], "resources": resources}


def configured(*items: Any) -> dict[str, Any]:
    return {"volumes": [{"name": "v", "configMap": {"name": "c", "items": list(items)}}]}


@cases(
    ("a toleration of everything, perhaps", tolerated(), ["tolerations[0].operator"]),
    ("a toleration of everything", tolerated(operator="Exists"), []),
    ("a toleration's key", tolerated(key="a b"), ["tolerations[0].key"]),
    ("its value", tolerated(key="a", value="b c"), ["tolerations[0].operator"]),
    ("its operator", tolerated(key="a", operator="Near"), ["tolerations[0].operator"]),
    ("its effect", tolerated(key="a", effect="Pain"), ["tolerations[0].effect"]),
    ("for how long what", tolerated(key="a", tolerationSeconds=5), ["tolerations[0].effect"]),
    ("a value that exists", tolerated(key="a", operator="Exists", value="b"), ["tolerations[0].operator"]),
    ("an affinity", where(operator="In", values=["b"]), []),
    ("an affinity to numbers", where(operator="Gt", values=["5"]), []),
    ("an affinity to nothing", where(operator="In"), [f"{CONDITION}.values"]),
    ("above two numbers", where(operator="Gt", values=["1", "2"]), [f"{CONDITION}.values"]),
    ("an affinity's operator", where(operator="Near"), [f"{CONDITION}.operator"]),
    ("an affinity's key", where(key="a b", operator="Exists"), [f"{CONDITION}.key"]),
    ("no terms", {"affinity": {"nodeAffinity": {REQUIRED: {}}}}, [f"{NODES}.{REQUIRED}.nodeSelectorTerms"]),
    (
        "a wish too strong",
        {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 101}]}}},
        [f"{NODES}.{PREFERRED}[0].weight"],
    ),
    ("a limit as a variable", variable(resource="limits.cpu", divisor="1m"), []),
    ("no resource", variable(), [f"{RESOURCE}.resource"]),
    ("a resource nobody has", variable(resource="limits.gpu"), [f"{RESOURCE}.resource"]),
    ("thousands of CPUs", variable(resource="limits.cpu", divisor="1k"), [f"{RESOURCE}.divisor"]),
    ("mebibytes of memory", variable(resource="limits.memory", divisor="1Mi"), []),
    ("a port by its name", probe(httpGet={"port": "http"}), []),
    ("no port", probe(httpGet={"port": 0}), ["containers[0].livenessProbe.httpGet.port"]),
    ("no letter", probe(tcpSocket={"port": "8"}), ["containers[0].livenessProbe.tcpSocket.port"]),
    (
        "a hook that runs nothing",
        in_container(lifecycle={"preStop": {"exec": {}}}),
        ["containers[0].lifecycle.preStop.exec.command"],
    ),
    ("one key of a volume", configured({"key": "k", "path": "a/b"}), []),
    ("no key", configured({}), ["volumes[0].configMap.items[0].key", "volumes[0].configMap.items[0].path"]),
    ("an absolute path", configured({"key": "k", "path": "/etc"}), ["volumes[0].configMap.items[0].path"]),
    ("a way out", configured({"key": "k", "path": "a/../.."}), ["volumes[0].configMap.items[0].path"]),
    (
        "a volume that cannot be mounted",
        {"volumes": [{"name": "v", "secret": {}}], **in_container(volumeMounts=[MOUNT])},
        ["volumes[0].secret.secretName", "containers[0].volumeMounts[0].name"],
    ),
    ("a blank before an image", in_container(image=" x"), ["containers[0].image"]),
    (
        "a request of the pod below its containers'",
        whole({"requests": {"cpu": "1500m", "memory": "1Gi"}}),
        ["resources.requests[cpu]"],
    ),
    ("one that covers them", whole({"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}), []),
    ("only memory is of the pod", whole({"limits": {"memory": "1Gi"}}), []),
    (
        "a container's limit above the pod's",
        whole({"limits": {"cpu": "2"}}, limits={"cpu": "3"}),
        ["resources.containers[1][cpu].limits"],
    ),
    (
        "a resource that no pod has as a whole",
        whole({"requests": {"example.com/gpu": "1", "ephemeral-storage": "1"}}),
        ["resources.requests[example.com/gpu]", "resources.requests[ephemeral-storage]", "resources.limits"],
    ),
    ("requests above limits", whole({"requests": {"cpu": "4"}, "limits": {"cpu": "3"}}), ["resources.requests"]),
    (
        "less than nothing",
        whole({"limits": {"memory": "-1"}}),
        ["resources.limits[memory]", "resources.requests[memory]"],
    ),
    ("claims", whole({"claims": [{"name": "a"}]}), ["resources.claims"]),
    ("no containers", {"containers": []}, ["containers"]),
    ("one name twice", {"containers": [CONTAINER, CONTAINER]}, ["containers[1].name"]),
    ("an init container of that name", {"initContainers": [CONTAINER]}, ["initContainers[0].name"]),
    ("restartPolicy", {"restartPolicy": "x"}, ["restartPolicy"]),
    ("dnsPolicy", {"dnsPolicy": "x"}, ["dnsPolicy"]),
    ("no time at all", {"activeDeadlineSeconds": 0}, ["activeDeadlineSeconds"]),
    ("nodeSelector", {"nodeSelector": {"a b": ""}}, ["nodeSelector"]),
    ("hostname", {"hostname": "a.b"}, ["hostname"]),
    ("one gate twice", {"schedulingGates": [{"name": "a"}] * 2}, ["schedulingGates[1]"]),
    ("a gate without a name", {"schedulingGates": [{}]}, ["schedulingGates[0]"] * 2),
    ("a node behind a gate", {"schedulingGates": [{"name": "a"}], "nodeName": "n"}, ["nodeName"]),
    ("one volume twice", {"volumes": [{"name": "v"}, {"name": "v"}]}, ["volumes[1].name"]),
    ("which secret", {"volumes": [{"name": "v", "secret": {}}]}, ["volumes[0].secret.secretName"]),
    ("two kinds", {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}, ["volumes[0].hostPath"]),
)
def test_a_pod_is_refused(spec: Any, fields: list[str]) -> None:
    assert [field for field, _ in problems(POD, pod(**spec))] == [f"spec.{field}" for field in fields]


@cases({**FAULTS, **LATER_FAULTS})
def test_a_pod_is_refused_for_a_fault(spec: Any, fields: list[str]) -> None:
    assert sorted(field for field, _ in problems(POD, pod(**spec))) == [f"spec.{field}" for field in fields]


@for_each(*SOUND)
def test_a_pod_without_fault_is_taken(name: str) -> None:
    assert problems(POD, pod(**SOUND[name])) == []


def test_what_was_stored_before_a_rule_may_change_in_all_else() -> None:
    gpu = pod(container={"resources": {"requests": {"example.com/gpu": "1"}}}, activeDeadlineSeconds=10)
    stored = created(POD, {**gpu, "metadata": {**gpu["metadata"], "finalizers": ["example.com/keep"]}})
    released = {**stored, "metadata": {**stored["metadata"], "finalizers": []}}
    assert changed(POD, stored, released)[1] == []
    worse = edited(stored, activeDeadlineSeconds=0)
    assert [field for field, _ in changed(POD, stored, worse)[1]] == ["spec.activeDeadlineSeconds"]


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


@cases(
    ("another image", {"image": "y"}, []),
    ("an earlier deadline", {"activeDeadlineSeconds": 5}, []),
    ("another toleration", {"tolerations": [{"key": "a"}, {"key": "b"}]}, []),
    ("a later deadline", {"activeDeadlineSeconds": 11}, ["spec.activeDeadlineSeconds"]),
    ("no deadline any more", {"activeDeadlineSeconds": None}, ["spec.activeDeadlineSeconds"]),
    ("a toleration less", tolerated(key="b"), ["spec.tolerations"]),
    ("anything else", {"hostname": "x"}, ["spec"]),
    ("the choice of nodes, without gates", {"nodeSelector": {"zone": "a"}}, ["spec"]),
    ("the node, which only the scheduler binds", {"nodeName": "n"}, ["spec"]),
    ("a container more", {"containers": [CONTAINER, {**CONTAINER, "name": "d"}]}, ["spec.containers"]),
)
def test_little_of_a_pod_may_change(spec: Any, fields: list[str]) -> None:
    assert [field for field, _ in changed(POD, STORED, edited(**spec))[1]] == fields


GATES = [{"name": "example.com/a"}, {"name": "example.com/b"}]
GATED = created(POD, pod(schedulingGates=GATES, nodeSelector={"zone": "a"}))


def test_a_gated_pod_says_why_it_has_no_node() -> None:
    [condition] = GATED["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    assert "conditions" not in STORED["status"]


@cases(
    ("a gate less", {"schedulingGates": GATES[1:]}, []),
    ("no gate any more", {"schedulingGates": None}, []),
    ("a narrower choice", {"schedulingGates": None, "nodeSelector": {"zone": "a", "disk": "b"}}, []),
    (
        "a gate more",
        {"schedulingGates": [*GATES, {"name": "c"}]},
        ["spec.schedulingGates[2].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"],
    ),
    (
        "another choice",
        {"nodeSelector": {"zone": "b"}},
        [
            'spec.nodeSelector: Invalid value: map[string]string{"zone":"b"}: '
            "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        ],
    ),
)
def test_gates_are_only_taken_away(spec: Any, refused: list[str]) -> None:
    assert [": ".join(each) for each in changed(POD, GATED, edited(GATED, **spec))[1]] == refused


@cases(
    ("nothing", {}, "BestEffort"),
    ("a request", {"requests": {"cpu": "1"}}, "Burstable"),
    (
        "limits as requested",
        {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}},
        "Guaranteed",
    ),
    (
        "limits above requests",
        {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Mi"}},
        "Burstable",
    ),
)
def test_quality_of_service(resources: Any, quality: str) -> None:
    assert qos_class({"containers": [{"resources": resources}]}) == quality
    assert qos_class({"containers": [{"resources": {}}], "resources": resources}) == quality


def test_what_a_pod_requests_as_a_whole_covers_its_containers_and_says_why_not() -> None:
    ((_, message),) = problems(POD, pod(**whole({"requests": {"cpu": "1500m"}})))
    assert message == 'Invalid value: "1500m": must be greater than or equal to aggregate container requests of 2'


def test_requests_of_a_whole_pod_follow_from_its_containers_and_limits() -> None:
    """In a pod; a template stays as it was written."""
    limits = {"cpu": "4", "memory": "1Gi"}
    asked = created(POD, pod(**whole({"limits": limits})))["spec"]["resources"]
    assert asked == {"limits": limits, "requests": {"cpu": "2", "memory": "1Gi"}}
