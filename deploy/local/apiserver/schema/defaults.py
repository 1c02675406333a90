"""What the server fills in when an author leaves it out, per built-in kind.

Functions take a decoded object and answer a copy; parts without defaults are shared with the original.
"""

import base64
from collections.abc import Callable
from typing import Any

from workers.api.kinds import Kind, Object

Default = Callable[[Object], Object]

_POD_SPEC: Object = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
_CONTAINER: Object = {
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_PROBE: Object = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_MODE: Object = {"defaultMode": 0o644}
_FILE_VOLUMES = ("secret", "configMap", "downwardAPI", "projected")


def of(kind: Kind) -> Default:
    """The defaults of a built-in kind; a kind that has none keeps its objects as they are."""
    return _BY_KIND.get(kind.id, lambda body: body)


def _within(body: Object, field: str, default: Callable[[Any], Any]) -> Object:
    """A copy of `body` with one field run through `default`; an absent field counts as an empty object."""
    return {**body, field: default(body.get(field) or {})}


def _each(body: Object, field: str, default: Default) -> Object:
    """A copy of `body` with each item of a list run through `default`, if it has that list."""
    return {**body, field: [default(item) for item in body[field]]} if body.get(field) else body


def pod_spec(spec: Object) -> Object:
    """The defaults that a pod's spec and a template's have in common."""
    result = {**_POD_SPEC, **spec}
    host = bool(spec.get("hostNetwork"))
    for field in ("initContainers", "containers"):
        result = _each(result, field, lambda item: _container(item, host=host))
    result = _each(result, "volumes", _volume)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    return {**result, "serviceAccountName": account, "serviceAccount": account} if account else result


def template(body: Object) -> Object:
    """The defaults of a pod template."""
    return {"metadata": {}, **_within(body, "spec", pod_spec)}


def pull_policy(image: str) -> str:
    """Always for the tag ``latest`` and for none, which means the same; else IfNotPresent."""
    name, _at, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2]
    return "Always" if not digest and tag in ("", "latest") else "IfNotPresent"


def _container(body: Object, *, host: bool) -> Object:
    result = {**_CONTAINER, "imagePullPolicy": pull_policy(body.get("image", "")), **body}
    if ports := body.get("ports"):
        result["ports"] = [_port(port, host=host) for port in ports]
    if env := body.get("env"):
        result["env"] = [_env(item) if "valueFrom" in item else item for item in env]
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in body:
            result[field] = _probe(body[field])
    if "lifecycle" in body:
        result["lifecycle"] = {
            name: _http(handler) if isinstance(handler, dict) else handler
            for name, handler in body["lifecycle"].items()
        }
    return result


def _port(port: Object, *, host: bool) -> Object:
    result = {"protocol": "TCP", **port}
    return {"hostPort": port.get("containerPort"), **result} if host else result


def _env(item: Object) -> Object:
    source = item["valueFrom"]
    if "fieldRef" in source:
        source = {**source, "fieldRef": {"apiVersion": "v1", **source["fieldRef"]}}
    if "resourceFieldRef" in source:
        source = {**source, "resourceFieldRef": {"divisor": "0", **source["resourceFieldRef"]}}
    return {**item, "valueFrom": source}


def _probe(body: Object) -> Object:
    return _http({**_PROBE, **body})


def _http(handler: Object) -> Object:
    if "httpGet" in handler:
        return {**handler, "httpGet": {"path": "/", "scheme": "HTTP", **handler["httpGet"]}}
    return handler


def _volume(volume: Object) -> Object:
    if not any(isinstance(source, dict) for source in volume.values()):
        return {**volume, "emptyDir": {}}
    for source in _FILE_VOLUMES:
        if source in volume:
            filled = _each({**_MODE, **volume[source]}, "items", _downward)
            return {**volume, source: _each(filled, "sources", _projection)}
    return {**volume, "hostPath": {"type": "", **volume["hostPath"]}} if "hostPath" in volume else volume


def _downward(item: Object) -> Object:
    return {**item, "fieldRef": {"apiVersion": "v1", **item["fieldRef"]}} if "fieldRef" in item else item


def _projection(source: Object) -> Object:
    if "serviceAccountToken" in source:
        return {**source, "serviceAccountToken": {"expirationSeconds": 3600, **source["serviceAccountToken"]}}
    if "downwardAPI" in source:
        return {**source, "downwardAPI": _each(source["downwardAPI"], "items", _downward)}
    return source


def _pod(body: Object) -> Object:
    spec = pod_spec(body.get("spec") or {})
    for field in ("initContainers", "containers"):
        spec = _each(spec, field, _requests)
    return {**body, "spec": {"enableServiceLinks": True, **spec}}


def _requests(container: Object) -> Object:
    """In pods (not in templates) what is limited and not requested is requested up to its limit."""
    limits = container["resources"].get("limits")
    if not limits:
        return container
    requests = {**limits, **(container["resources"].get("requests") or {})}
    return {**container, "resources": {**container["resources"], "requests": requests}}


def _job(body: Object) -> Object:
    return _within(body, "spec", _job_spec)


def labelled(body: Object) -> Object:
    """A Job without labels of its own shows those of its template."""
    metadata = body.get("metadata") or {}
    labels = ((body["spec"].get("template") or {}).get("metadata") or {}).get("labels")
    if metadata.get("labels") or not labels:
        return body
    return {**body, "metadata": {**metadata, "labels": dict(labels)}}


def _job_spec(spec: Object) -> Object:
    result: Object = {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False, "manualSelector": False}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        result["completions"] = 1
    result["backoffLimit"] = 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6
    policy = spec.get("podFailurePolicy")
    result["podReplacementPolicy"] = "TerminatingOrFailed" if policy is None else "Failed"
    return _within(_failure_policy({**result, **spec}), "template", template)


def _failure_policy(spec: Object) -> Object:
    """A Job's spec, also one in a template, whose patterns of conditions say which status they mean."""
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return spec
    rules = [_failure_rule(rule) for rule in policy.get("rules") or ()]
    return {**spec, "podFailurePolicy": {**policy, "rules": rules}}


def _failure_rule(rule: Object) -> Object:
    return _each(rule, "onPodConditions", lambda pattern: {"status": "True", **pattern})


def _cron_job(body: Object) -> Object:
    return _within(body, "spec", _cron_job_spec)


def _cron_job_spec(spec: Object) -> Object:
    result = {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
        **spec,
    }
    return _within(result, "jobTemplate", _job_template)


def _job_template(body: Object) -> Object:
    return {"metadata": {}, **_within(body, "spec", lambda spec: _within(_failure_policy(spec), "template", template))}


def _deployment(body: Object) -> Object:
    def filled(spec: Object) -> Object:
        more = {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, **spec}
        return _within(_within(more, "strategy", _deployment_strategy), "template", template)

    return _within(body, "spec", filled)


def _deployment_strategy(body: Object) -> Object:
    result = {"type": "RollingUpdate", **body}
    if result["type"] == "RollingUpdate":
        result["rollingUpdate"] = {"maxUnavailable": "25%", "maxSurge": "25%", **(body.get("rollingUpdate") or {})}
    return result


def _replica_set(body: Object) -> Object:
    return _within(body, "spec", lambda spec: _within({"replicas": 1, **spec}, "template", template))


def _stateful_set(body: Object) -> Object:
    def filled(spec: Object) -> Object:
        more = {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady", **spec}
        return _within(_within(more, "updateStrategy", _stateful_strategy), "template", template)

    return _within(body, "spec", filled)


def _stateful_strategy(body: Object) -> Object:
    result = {"type": "RollingUpdate", **body}
    if result["type"] == "RollingUpdate":
        result["rollingUpdate"] = {"partition": 0, **(body.get("rollingUpdate") or {})}
    return result


def _service(body: Object) -> Object:
    def filled(spec: Object) -> Object:
        more = {"sessionAffinity": "None", "type": "ClusterIP", **spec}
        if more["type"] != "ExternalName":
            more.setdefault("internalTrafficPolicy", "Cluster")
        return _each(more, "ports", lambda port: {"protocol": "TCP", "targetPort": port.get("port"), **port})

    return _within(body, "spec", filled)


def _secret(body: Object) -> Object:
    result = {"type": "Opaque", **{name: value for name, value in body.items() if name != "stringData"}}
    if texts := body.get("stringData"):
        encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
        result["data"] = {**(body.get("data") or {}), **encoded}
    return result


def _claim(body: Object) -> Object:
    return _within(body, "spec", lambda spec: {"volumeMode": "Filesystem", **spec})


def _network_policy(body: Object) -> Object:
    def filled(spec: Object) -> Object:
        types = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
        more = {"policyTypes": types, **spec}
        for side in ("ingress", "egress"):
            more = _each(more, side, lambda rule: _each(rule, "ports", lambda port: {"protocol": "TCP", **port}))
        return more

    return _within(body, "spec", filled)


def _priority_class(body: Object) -> Object:
    return {"preemptionPolicy": "PreemptLowerPriority", **body}


def _namespace(body: Object) -> Object:
    metadata = body.get("metadata") or {}
    if not (name := metadata.get("name")):
        return body
    labels = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": name}
    return {**body, "metadata": {**metadata, "labels": labels}}


def _definition(body: Object) -> Object:
    def filled(spec: Object) -> Object:
        names = spec.get("names") or {}
        kind = names.get("kind", "")
        more = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
        return {"conversion": {"strategy": "None"}, **spec, "names": more}

    return _within(body, "spec", filled)


def _event(body: Object) -> Object:
    return {"source": {}, "reportingComponent": "", "reportingInstance": "", **body}


_BY_KIND: dict[str, Default] = {
    "pods": _pod,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "statefulsets.apps": _stateful_set,
    "services": _service,
    "events": _event,
    "secrets": _secret,
    "persistentvolumeclaims": _claim,
    "networkpolicies.networking.k8s.io": _network_policy,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "namespaces": _namespace,
    "customresourcedefinitions.apiextensions.k8s.io": _definition,
}
