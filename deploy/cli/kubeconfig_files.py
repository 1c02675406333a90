"""The kubeconfig files of client commands, and the check of the one that a folder may have brought along."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from workers.errors import UserError

#: Fields of the kubeconfig that `penstock up` writes, by list and entry. Others name programs to run (exec,
#: auth-provider), files whose content is sent (tokenFile), or another way to the server (proxy-url).
_FIELDS = {
    "clusters": ("cluster", frozenset({"server", "certificate-authority-data"})),
    "users": ("user", frozenset({"token"})),
    "contexts": ("context", frozenset({"cluster", "user", "namespace"})),
}


def embedded(home: Path) -> Path | None:
    """Returns the kubeconfig of the embedded cluster in this home, or None if there is none.

    The home is by default in the current folder, which may come from a stranger: raises UserError unless the file is
    private to this user and names nothing but a server of this machine and a token.
    """
    from deploy.local import private_files
    from workers.client import merged_kubeconfig

    path = home / "kubeconfig"
    try:
        text = private_files.read(path)
        if text is not None:
            private_files.check_folder(home)
            _check_fields(merged_kubeconfig.parsed(path, text), path)
    except UserError as error:
        raise UserError(
            f"{error}; it is not used. Name a cluster with --kubeconfig, or the folder of your own with --home"
        ) from error
    return None if text is None else path


def _check_fields(content: Any, path: Path) -> None:
    for part, (name, known) in _FIELDS.items():
        for index, entry in enumerate(content.get(part) or ()):
            fields = entry.get(name) or {}
            where = f"{path}: {part}[{index}].{name}"
            if unknown := sorted(set(fields) - known):
                raise UserError(f"{where}.{unknown[0]}: not a field of an embedded cluster's kubeconfig")
            server = fields.get("server", "https://localhost")
            if urlsplit(server).scheme != "https" or urlsplit(server).hostname not in ("127.0.0.1", "::1", "localhost"):
                raise UserError(f"{where}.server: {server}: not an address of this machine")


def listed(chosen: Path | None, environ: Mapping[str, str]) -> list[Path]:
    """Returns the files that kubectl would read: the chosen one, those of KUBECONFIG, or the default."""
    if chosen is not None:
        return [chosen]
    if listed := environ.get("KUBECONFIG"):
        return [Path(part) for part in listed.split(os.pathsep) if part]
    return [Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"]
