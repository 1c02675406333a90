"""The defaults of built-in kinds: values the server fills in for fields that an author leaves out.

A default is a function from a decoded object to a copy; parts without defaults are shared with the original.
"""

import base64
from collections.abc import Callable, Mapping

from workers.api.kinds import Kind, Object
from workers.controllers.volcano import amounts, pod_requests

Default = Callable[[Object], Object]


def of(kind: Kind) -> Default:
    """Returns the defaults of a built-in kind; a kind without any keeps its objects as they are."""
    return _BY_KIND.get(kind.id, lambda body: body)


def _fields(
    plain: Object | None = None,
    *,
    always: Mapping[str, Default] | None = None,
    present: Mapping[str, Default] | None = None,
    each: Mapping[str, Default] | None = None,
) -> Default:
    """Returns the defaults of a struct.

    plain: values of absent fields. always: defaults of structs that are filled in even when they are absent. present:
    of structs where they are there. each: of the items of lists.
    """
    values = plain or {}
    structs = tuple((always or {}).items())
    optional, lists = tuple((present or {}).items()), tuple((each or {}).items())

    def default(body: Object) -> Object:
        result = {**values, **body}
        for field, inner in structs:
            result[field] = inner(result.get(field) or {})
        for field, inner in optional:
            if field in result:
                result[field] = inner(result[field])
        for field, inner in lists:
            if items := result.get(field):
                result[field] = [inner(item) for item in items]
        return result

    return default


def pull_policy(image: str) -> str:
    """Returns Always for the tag ``latest`` and for none, which means the same; else IfNotPresent."""
    name, _at, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if not digest and tag in ("", "latest") else "IfNotPresent"


_FIELD_REF = _fields({"apiVersion": "v1"})
_ITEM = _fields(present={"fieldRef": _FIELD_REF})
_HANDLER = _fields(present={"httpGet": _fields({"path": "/", "scheme": "HTTP"})})
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_ENV = _fields(
    present={"valueFrom": _fields(present={"fieldRef": _FIELD_REF, "resourceFieldRef": _fields({"divisor": "0"})})}
)
_PROJECTION = _fields(
    present={"serviceAccountToken": _fields({"expirationSeconds": 3600}), "downwardAPI": _fields(each={"items": _ITEM})}
)
_FILES = _fields({"defaultMode": 0o644}, each={"items": _ITEM, "sources": _PROJECTION})
_VOLUME = _fields(
    present={
        **dict.fromkeys(("secret", "configMap", "downwardAPI", "projected"), _FILES),
        "hostPath": _fields({"type": ""}),
    }
)
_CONTAINER = _fields(
    {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    each={"ports": _fields({"protocol": "TCP"}), "env": _ENV},
    present={
        **dict.fromkeys(
            ("livenessProbe", "readinessProbe", "startupProbe"), lambda probe: _HANDLER({**_PROBE, **probe})
        ),
        "lifecycle": lambda hooks: {
            name: _HANDLER(handler) if isinstance(handler, dict) else handler for name, handler in hooks.items()
        },
    },
)


def _container(body: Object) -> Object:
    return _CONTAINER({"imagePullPolicy": pull_policy(body.get("image", "")), **body})


#: A container in the network of its host has the same port there.
_ON_HOST_PORTS = _fields(each={"ports": lambda port: {"hostPort": port.get("containerPort"), **port}})


def _volume(body: Object) -> Object:
    """A volume without a source is an empty folder."""
    return _VOLUME(body if any(isinstance(source, dict) for source in body.values()) else {**body, "emptyDir": {}})


_POD_SPEC = _fields(
    {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    each={"initContainers": _container, "containers": _container, "volumes": _volume},
)
_HOST_PORTS = _fields(each={"initContainers": _ON_HOST_PORTS, "containers": _ON_HOST_PORTS})


def _pod_spec(spec: Object) -> Object:
    """The defaults that a pod's spec and a template's have in common."""
    result: Object = _POD_SPEC(_HOST_PORTS(spec) if spec.get("hostNetwork") else spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    return {**result, "serviceAccountName": account, "serviceAccount": account} if account else result


template = _fields({"metadata": {}}, always={"spec": _pod_spec})


def _requests(container: Object) -> Object:
    """In pods (not in templates) what is limited and not requested is requested up to its limit."""
    limits = container["resources"].get("limits")
    if not limits:
        return container
    requests = {**limits, **(container["resources"].get("requests") or {})}
    return {**container, "resources": {**container["resources"], "requests": requests}}


def _pod_requests(spec: Object) -> Object:
    """In pods, requests of the whole that are not given follow from the containers' requests, or from its limits."""
    if not (resources := spec.get("resources")):
        return spec
    given = resources.get("requests") or {}
    found = amounts.render(pod_requests.requests({**spec, "overhead": None}))
    whole = {name: text for name, text in found.items() if pod_requests.is_of_pods(name) and name not in given}
    return {**spec, "resources": {**resources, "requests": {**given, **whole}}} if whole else spec


#: The defaults that pods have and templates do not.
_CONTAINERS_IN_PODS = _fields({"enableServiceLinks": True}, each={"initContainers": _requests, "containers": _requests})


def labelled(body: Object) -> Object:
    """A Job without labels of its own shows those of its template."""
    metadata = body.get("metadata") or {}
    labels = ((body["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if metadata.get("labels") or not labels:
        return body
    return {**body, "metadata": {**metadata, "labels": dict(labels)}}


#: Patterns of conditions, in a Job's spec and in one in a template, say which status they mean.
_FAILURE_RULE = _fields(each={"onPodConditions": _fields({"status": "True"})})
_TEMPLATED = _fields(
    present={"podFailurePolicy": lambda policy: {**policy, "rules": [*map(_FAILURE_RULE, policy.get("rules") or ())]}},
    always={"template": template},
)


def _job_spec(spec: Object) -> Object:
    result: Object = {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        result["completions"] = 1
    result["backoffLimit"] = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    policy = spec.get("podFailurePolicy")
    result["podReplacementPolicy"] = "TerminatingOrFailed" if policy is None else "Failed"
    return _TEMPLATED({**result, **spec})


def _rolling(**limits: object) -> Default:
    """The default of an update strategy: a rolling one, within these limits."""

    def default(body: Object) -> Object:
        result = {"type": "RollingUpdate", **body}
        if result["type"] == "RollingUpdate":
            result["rollingUpdate"] = {**limits, **(body.get("rollingUpdate") or {})}
        return result

    return default


def _service_spec(spec: Object) -> Object:
    more = {"sessionAffinity": "None", "type": "ClusterIP", **spec}
    if more["type"] != "ExternalName":
        more.setdefault("internalTrafficPolicy", "Cluster")
    return more


def _secret(body: Object) -> Object:
    result = {"type": "Opaque", **{name: value for name, value in body.items() if name != "stringData"}}
    if texts := body.get("stringData"):
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        result["data"] = {**(body.get("data") or {}), **encoded}
    return result


def _network_policy_spec(spec: Object) -> Object:
    return {"policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"], **spec}


def _namespace(body: Object) -> Object:
    metadata = body.get("metadata") or {}
    if not (name := metadata.get("name")):
        return body
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _names(names: Object) -> Object:
    kind = names.get("kind", "")
    return {"singular": kind.lower(), "listKind": f"{kind}List", **names}


def _spec(*defaults: Default) -> Default:
    """Returns the defaults of an object whose spec is run through all of these."""

    def default(body: Object) -> Object:
        spec = body.get("spec") or {}
        for inner in defaults:
            spec = inner(spec)
        return {**body, "spec": spec}

    return default


_TCP = _fields({"protocol": "TCP"})
_PEERS = _fields(each={"ports": _TCP})
_SERVICE_PORT: Default = lambda port: {"protocol": "TCP", "targetPort": port.get("port"), **port}  # noqa: E731
_CRON_JOB = {
    "concurrencyPolicy": "Allow",
    "suspend": False,
    "successfulJobsHistoryLimit": 3,
    "failedJobsHistoryLimit": 1,
}
_DEPLOYMENT = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}
_STATEFUL_SET = {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"}
_RETENTION = _fields({"whenDeleted": "Retain", "whenScaled": "Retain"})
_RIGHTS = "rbac.authorization.k8s.io"


def _subject(body: Object) -> Object:
    return {"apiGroup": _RIGHTS, **body} if body.get("kind") in ("User", "Group") else body


_BINDING = _fields(present={"roleRef": _fields({"apiGroup": _RIGHTS})}, each={"subjects": _subject})


def _replicated(spec: Object) -> Object:
    """The defaults of a ReplicationController: it selects the labels of its template."""
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    return {"replicas": 1, **({"selector": labels} if labels else {}), **spec}


_DAEMONS = _fields({"revisionHistoryLimit": 10}, always={"template": template})
_BY_KIND: dict[str, Default] = {
    "pods": _spec(_pod_spec, _CONTAINERS_IN_PODS, _pod_requests),
    "jobs.batch": _spec(_job_spec),
    "cronjobs.batch": _spec(
        _fields(_CRON_JOB, always={"jobTemplate": _fields({"metadata": {}}, always={"spec": _TEMPLATED})})
    ),
    "deployments.apps": _spec(
        _fields(_DEPLOYMENT, always={"strategy": _rolling(maxUnavailable="25%", maxSurge="25%"), "template": template})
    ),
    "replicasets.apps": _spec(_fields({"replicas": 1}, always={"template": template})),
    "statefulsets.apps": _spec(
        _fields(
            _STATEFUL_SET,
            always={
                **{"updateStrategy": _rolling(partition=0), "template": template},
                "persistentVolumeClaimRetentionPolicy": _RETENTION,
            },
        )
    ),
    "services": _spec(_service_spec, _fields(each={"ports": _SERVICE_PORT})),
    "events": _fields({"source": {}, "reportingComponent": "", "reportingInstance": ""}),
    "secrets": _secret,
    "persistentvolumeclaims": _spec(_fields({"volumeMode": "Filesystem"})),
    "networkpolicies.networking.k8s.io": _spec(
        _network_policy_spec, _fields(each={"ingress": _PEERS, "egress": _PEERS})
    ),
    "priorityclasses.scheduling.k8s.io": _fields({"preemptionPolicy": "PreemptLowerPriority"}),
    "namespaces": _namespace,
    "horizontalpodautoscalers.autoscaling": _spec(_fields({"minReplicas": 1})),
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "persistentvolumes": _spec(_fields({"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"})),
    "storageclasses.storage.k8s.io": _fields({"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}),
    "podtemplates": _fields(always={"template": template}),
    "replicationcontrollers": _spec(_replicated, _fields(present={"template": template})),
    "daemonsets.apps": _spec(_fields(always={"updateStrategy": _rolling(maxSurge=0, maxUnavailable=1)}), _DAEMONS),
    "customresourcedefinitions.apiextensions.k8s.io": _spec(
        _fields({"conversion": {"strategy": "None"}}, always={"names": _names})
    ),
}
