"""The address and credentials of the API server, from kubeconfig files or the pod's service account.

The official client is imported for its own logins alone (basic, gcp, oidc): it costs a command half a second of CPU.
"""

import base64
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from penstock._deferred_imports import BLOCKING_KUBERNETES_CLIENT, deferred
from workers.client import environment_proxies
from workers.client.credentials import (
    Credentials,
    FixedCredentials,
    PluginCredentials,
    ProvidedCredentials,
    TokenFile,
)
from workers.client.exec_plugin import ExecPlugin
from workers.client.merged_kubeconfig import MergedKubeconfig
from workers.client.tls_files import TlsContexts, TlsSources, material
from workers.errors import ClusterError, UserError

log = logging.getLogger(__name__)

#: The files of a pod's service account.
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_DEFAULT = "~/.kube/config"
_PROXIES = ("http", "https")
#: The extension of a cluster that is meant for plugins.
_FOR_PLUGINS = "client.authentication.k8s.io/exec"


@dataclass(frozen=True, slots=True, repr=False)
class ApiAccess:
    """A way to an API server.

    host: its URL. tls: None where it speaks in the clear. server_name: that its certificate must have, if not the
    host's. proxy: URL, empty for none. impersonation: headers that name another user.
    """

    host: str
    tls: TlsContexts | None = None
    credentials: Credentials = field(default_factory=FixedCredentials)
    server_name: str = ""
    proxy: str = ""
    impersonation: Sequence[tuple[str, str]] = ()

    def anonymous(self) -> "ApiAccess":
        """Returns access to the same server that proves nothing: its requests carry other tokens."""
        tls = self.tls.without_certificate() if self.tls else None
        return replace(self, tls=tls, credentials=FixedCredentials(), impersonation=())


async def load(kubeconfig: Path | None, context: str | None, *, environ: Mapping[str, str] | None = None) -> ApiAccess:
    """Returns the access that this file and context describe.

    Without a file: the files of KUBECONFIG, else ``~/.kube/config``, else the pod's service account. Raises UserError
    when none of them is usable.
    """
    environ = os.environ if environ is None else environ
    listed = environ.get("KUBECONFIG") or str(Path(_DEFAULT).expanduser())
    files = str(kubeconfig) if kubeconfig else listed
    if any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        try:
            access = await _from_files(files, context)
        except (
            *(UserError, ClusterError, OSError),
            *(ValueError, TypeError, KeyError, AttributeError),
        ) as error:
            raise UserError(f"kubeconfig {files}: {error}") from error
    elif kubeconfig or context:
        raise UserError(f"kubeconfig {files}: no such file")
    else:
        access = _from_pod(files, environ)
    if not access.proxy:
        access = replace(access, proxy=environment_proxies.proxy_for(access.host, environ))
    if access.proxy:
        _check_proxy(access.proxy)
        log.info("requests to the API server go through a proxy", extra={"proxy": urlsplit(access.proxy).hostname})
    return access


async def _from_files(files: str, context: str | None) -> ApiAccess:
    merged = MergedKubeconfig.read(Path(file).expanduser() for file in files.split(os.pathsep) if file)
    name = context or merged.current
    if not name:
        raise UserError("no context is named, and there is no current-context")
    chosen, _ = _entry(merged, "contexts", name)
    if not chosen.get("cluster"):
        raise UserError(f"context {name} names no cluster")
    cluster, folder = _entry(merged, "clusters", chosen["cluster"])
    user, home = _entry(merged, "users", chosen["user"]) if chosen.get("user") else ({}, folder)
    if not cluster.get("server"):
        raise UserError(f"cluster {chosen['cluster']} has no server")
    host = str(cluster["server"]).rstrip("/")
    if not host.lower().startswith(("http://", "https://")):
        raise UserError(f"cluster {chosen['cluster']}: server: {host} does not begin with https:// or http://")
    verify = not cluster.get("insecure-skip-tls-verify")
    authority = material(cluster, "certificate-authority", folder)
    tls = None
    if host.lower().startswith("https:"):
        certificate, key = material(user, "client-certificate", home), material(user, "client-key", home)
        tls = TlsContexts(TlsSources(authority, certificate, key, verify))
    credentials = await _credentials(user, home, files, name, cluster)
    if tls:
        # Now, so that a certificate from a plugin that is none is an error of the start.
        await credentials.authorization()
        tls.current(credentials.certificate)
    return ApiAccess(
        host,
        tls,
        credentials,
        str(cluster.get("tls-server-name") or ""),
        str(cluster.get("proxy-url") or ""),
        tuple(_impersonation(user)),
    )


def _entry(
    merged: MergedKubeconfig, section: Literal["contexts", "clusters", "users"], name: str
) -> tuple[dict[str, Any], Path]:
    """Returns an entry's fields and its file's folder. Raises UserError if there is none of this name."""
    entry = merged.entries(section).get(name)
    if entry is None:
        raise UserError(f"there is no entry called {name} in {section}")
    return entry.fields, entry.folder


async def _credentials(
    user: Mapping[str, Any], folder: Path, files: str, context: str, cluster: Mapping[str, Any]
) -> Credentials:
    """Returns a user's credentials, in kubectl's order of precedence."""
    if user.get("tokenFile"):
        return TokenFile(folder / Path(user["tokenFile"]).expanduser())
    if user.get("token"):
        return FixedCredentials(f"Bearer {user['token']}")
    if user.get("exec"):
        return PluginCredentials(ExecPlugin.of(user["exec"], folder, _told(cluster, folder)).run)
    if user.get("auth-provider") or user.get("username"):
        provide = _official_provider(files, context)
        return ProvidedCredentials(await provide(), provide)
    return FixedCredentials()


def _official_provider(files: str, context: str) -> Callable[[], Awaitable[str]]:
    """Returns the function by which the official client logs in; its result is the header `Authorization`."""
    # With what is deferred a process is 15 MB larger.
    with deferred(
        *BLOCKING_KUBERNETES_CLIENT,
        *(f"kubernetes.aio.{name}" for name in ("dynamic", "leaderelection", "stream", "utils", "watch")),
    ):
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException
        from kubernetes.aio.config.kube_config import KubeConfigLoader, KubeConfigMerger

    try:
        merged = KubeConfigMerger(files).config
        loader = KubeConfigLoader(config_dict=merged, active_context=context, config_base_path=None)
    except ConfigException as error:
        raise UserError(str(error)) from error

    async def provide() -> str:
        configuration = Configuration()
        try:
            await loader.load_and_set(configuration)
        except ConfigException as error:
            raise UserError(str(error)) from error
        return str(configuration.api_key.get("BearerToken") or "")

    return provide


def _told(cluster: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Returns what a plugin is told about the cluster."""
    fields = ("server", "tls-server-name", "insecure-skip-tls-verify", "proxy-url", "certificate-authority-data")
    told = {name: cluster[name] for name in fields if cluster.get(name)}
    if (path := cluster.get("certificate-authority")) and "certificate-authority-data" not in told:
        told["certificate-authority-data"] = base64.b64encode((folder / path).read_bytes()).decode()
    for each in cluster.get("extensions") or ():
        if each.get("name") == _FOR_PLUGINS:
            told["config"] = each.get("extension")
    return told


def _impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the headers of a user's `as` fields. Raises UserError for others without `as`."""
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    if not user.get("as"):
        if groups or extra or user.get("as-uid"):
            raise UserError("as-uid, as-groups and as-user-extra need as: the user whom they describe")
        return []
    headers = [("Impersonate-User", str(user["as"]))]
    if user.get("as-uid"):
        headers.append(("Impersonate-Uid", str(user["as-uid"])))
    headers += [("Impersonate-Group", str(group)) for group in groups]
    return headers + [(f"Impersonate-Extra-{name}", str(text)) for name, texts in extra.items() for text in texts]


def _from_pod(files: str, environ: Mapping[str, str]) -> ApiAccess:
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    try:
        if not host or not port:
            raise UserError("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
        tls = TlsContexts(TlsSources(SERVICE_ACCOUNT / "ca.crt"))
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return ApiAccess(url, tls, TokenFile(SERVICE_ACCOUNT / "token"))
    except UserError as error:
        raise UserError(
            f"no cluster: there is no kubeconfig at {files} and this is not a pod with a service account ({error})"
        ) from error


def _check_proxy(url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme not in _PROXIES:
        raise UserError(f"proxy {urlsplit(url).hostname}: {scheme}:// is not supported, {' and '.join(_PROXIES)} are")
