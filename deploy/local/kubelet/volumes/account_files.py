"""The files by which client libraries in a container find the API server: token, authority and namespace. Pure.

On other clusters admission adds a volume for them to each pod. Here it is added when a container starts, and the stored
pod stays as it was written.
"""

from collections.abc import Iterable, Iterator

from workers.api.kinds import Kind, Object

#: Where client libraries look.
FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"
#: The ConfigMap of each namespace that has the authority of the API server's certificate, as `ca.crt`.
ROOT_CA = "kube-root-ca.crt"
#: What a token is made by. Among the sources of volumes its "name" is the audience, empty for the API server.
TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")

VOLUME: Object = {
    "name": "kube-api-access",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"path": "token"}},
            {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
        ]
    },
}
#: The mount of a pod that did not ask for it: that it cannot be made on this machine is no event.
SILENT_MOUNT: Object = {"name": VOLUME["name"], "mountPath": FOLDER, "readOnly": True}


def account_name(pod: Object) -> str:
    """Returns the name of the pod's service account."""
    return str(pod["spec"].get("serviceAccountName") or "default")


def with_files(pod: Object, container: Object, account: Object | None) -> tuple[Object, Object]:
    """Returns the pod with the volume, and the container with the mount.

    account: the pod's service account, None if there is none. Both stay as they are if pod or account do not want the
    files, and where the container mounts something else.
    """
    spec, mounts = pod["spec"], container.get("volumeMounts") or ()
    wanted = spec.get("automountServiceAccountToken")
    if wanted is None:
        wanted = (account or {}).get("automountServiceAccountToken") is not False
    taken = any(mount["mountPath"].rstrip("/") == FOLDER for mount in mounts)
    named = any(volume["name"] == VOLUME["name"] for volume in spec.get("volumes") or ())
    if account is None or not wanted or taken or named:
        return pod, container
    asked = spec.get("automountServiceAccountToken") or account_name(pod) != "default"
    mount = dict(SILENT_MOUNT) if asked else SILENT_MOUNT
    changed = {**pod, "spec": {**spec, "volumes": [*(spec.get("volumes") or ()), VOLUME]}}
    return changed, {**container, "volumeMounts": [*mounts, mount]}


def audiences(volumes: Iterable[Object]) -> Iterator[str]:
    """The audiences of the tokens in these volumes, empty for the API server."""
    for volume in volumes:
        for source in (volume.get("projected") or {}).get("sources") or ():
            if (token := source.get("serviceAccountToken")) is not None:
                yield token.get("audience") or ""
