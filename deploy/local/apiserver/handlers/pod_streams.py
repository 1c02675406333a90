"""exec, attach and port-forward: which pod and container are meant. The kubelet speaks with the client."""

from deploy.local.apiserver.api_errors import ApiError, bad_request
from deploy.local.apiserver.context import Context
from deploy.local.apiserver.discovery.api_resources import RequestTarget
from deploy.local.apiserver.handlers.pod_logs import container_of
from deploy.local.apiserver.http.request import ApiRequest, Upgrade

_PROXY = (
    "the proxy is not offered here: pods are processes of this machine, so connect to <podIP>:<port> directly, "
    "or use kubectl port-forward"
)
#: What is not offered, by resource and subresource, and what to do instead.
NOT_OFFERED = {
    ("pods", "ephemeralcontainers"): (
        "ephemeral containers are not offered here, and with them kubectl debug: pods are processes of this machine, "
        "so kubectl exec finds every program that it has"
    ),
    ("pods", "resize"): "resizing is not offered here: resources of containers have no effect",
    **{(resource, "proxy"): _PROXY for resource in ("nodes", "pods", "services")},
}


def refuse(resource: str, subresource: str) -> None:
    """Raises ApiError (501) that names the subresource if it is one of those that are not offered."""
    if message := NOT_OFFERED.get((resource, subresource)):
        raise ApiError(501, "NotImplemented", message)


def upgrade(ctx: Context, request: ApiRequest, target: RequestTarget) -> Upgrade:
    """Returns where the kubelet offers the stream. Raises ApiError for a pod or container that is not there."""
    record = ctx.existing(target)
    parts = [target.subresource, record.uid]
    if target.subresource != "portforward":
        parts.append(container_of(record.body, request.query.get("container", "")))
    if not record.body["spec"].get("nodeName"):
        raise bad_request(f"pod {target.name} does not have a host assigned")
    return Upgrade("".join(f"/{part}" for part in parts))
