"""The address and credentials of the API server, from a kubeconfig file or the pod's service account.

The official client reads both; this module chooses between them, refreshes short-lived credentials, and translates
errors into UserError.
"""

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio import config
from kubernetes.aio.client import Configuration

from workers.errors import UserError

#: Seconds between two reloads of a plugin's credentials; the plugin itself caches them until they expire.
REFRESH = 60.0


async def load(kubeconfig: Path | None, context: str | None) -> Any:
    """Returns the official client's `Configuration` for this file and context.

    Without a file: the files of KUBECONFIG, else ``~/.kube/config``, else the pod's service account. Raises UserError
    when none of them is usable.
    """
    files = str(kubeconfig) if kubeconfig else config.KUBE_CONFIG_DEFAULT_LOCATION
    configuration = Configuration()
    if any(Path(file).expanduser().is_file() for file in files.split(os.pathsep) if file):
        await _from_file(configuration, files, context)
    elif kubeconfig or context:
        raise UserError(f"kubeconfig {files}: no such file")
    else:
        _from_pod(configuration, files)
    return configuration


def without_credentials(configuration: Any) -> Any:
    """Returns a configuration of the same server and authority that proves nothing: its requests carry other tokens."""
    bare = Configuration()
    names = ("host", "ssl_ca_cert", "ca_cert_data", "verify_ssl", "disable_strict_ssl_verification", "tls_server_name")
    for name in (*names, "proxy", "proxy_headers"):
        setattr(bare, name, getattr(configuration, name))
    return bare


async def _from_file(configuration: Any, files: str, context: str | None) -> None:
    try:
        loader = await config.load_kube_config(
            config_file=files, context=context, client_configuration=configuration, persist_config=False
        )
    except (config.ConfigException, OSError, ValueError, TypeError, KeyError, AttributeError, yaml.YAMLError) as error:
        raise UserError(f"kubeconfig {files}: {error}") from error
    if reload := _reloader(loader):
        configuration.refresh_api_key_hook = _Refresh(loader, reload)


def _from_pod(configuration: Any, files: str) -> None:
    try:
        config.load_incluster_config(client_configuration=configuration)
    except (config.ConfigException, OSError) as error:
        raise UserError(
            f"no cluster: there is no kubeconfig at {files} and this is not a pod with a service account ({error})"
        ) from error


def _reloader(loader: Any) -> Callable[[], Awaitable[Any]] | None:
    """Returns the function that renews this user's credentials, or None for certificates and fixed tokens."""
    user = getattr(loader, "_user", None)
    if loader.provider == "gcp":
        return loader.load_gcp_token  # type: ignore[no-any-return]
    if user is not None and "exec" in user:
        return loader.load_from_exec_plugin  # type: ignore[no-any-return]
    return None


class _Refresh:
    """The client's hook, called before every request; reloads every `REFRESH` seconds."""

    def __init__(self, loader: Any, reload: Callable[[], Awaitable[Any]]) -> None:
        self._loader = loader
        self._reload = reload
        self._due = time.monotonic() + REFRESH

    async def __call__(self, configuration: Any) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + REFRESH
        await self._reload()
        if token := getattr(self._loader, "token", None):
            configuration.api_key["BearerToken"] = token
