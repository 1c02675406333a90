"""A minimal client of the API server for shell completion, on the standard library.

The official client takes half a second to import. This one reads the same kubeconfig files and knows tokens and client
certificates. It starts no credential plugin (`exec`, `auth-provider`), because a key press must not run programs.
"""

import json
import os
import ssl
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import urlsplit

from deploy.cli import kubeconfig_files
from penstock._trust import client_context
from workers.client.merged_kubeconfig import KubeconfigEntry, MergedKubeconfig

#: Seconds that one completion may wait for the API server, all its requests together.
DEADLINE = 1.0
#: Largest answer that is read (bytes).
LARGEST = 8 << 20


class UnusableError(Exception):
    """The API server cannot be asked: there is no usable kubeconfig, or it did not answer in time."""


def files_of(kubeconfig: str | None, home: str | None, environ: Mapping[str, str]) -> list[Path]:
    """Returns the kubeconfig files that a client command would use, in the order of `deploy.cli.api_connection`.

    Raises UserError if the embedded cluster's kubeconfig cannot be trusted.
    """
    if chosen := kubeconfig or environ.get("PENSTOCK_KUBECONFIG"):
        return [Path(chosen)]
    if embedded := kubeconfig_files.embedded(Path(home or environ.get("PENSTOCK_HOME") or ".penstock")):
        return [embedded]
    return kubeconfig_files.listed(None, environ)


class QuickCluster:
    """A connection to the API server of one context. Raises UnusableError where there is none."""

    def __init__(self, files: MergedKubeconfig, context: str | None = None) -> None:
        self._end = time.monotonic() + DEADLINE
        try:
            chosen = files.entries("contexts")[context or files.current].fields
            cluster = _absolute(files.entries("clusters")[chosen["cluster"]])
            user = _absolute(files.entries("users").get(chosen.get("user", ""), KubeconfigEntry({}, Path())))
        except KeyError as error:
            raise UnusableError("no such context") from error
        if {"exec", "auth-provider"} & user.keys() or cluster.get("proxy-url"):
            raise UnusableError("credentials of a program, or a proxy")
        self.namespace = str(chosen.get("namespace") or "default")
        self._headers = _credentials(user)
        parts = urlsplit(str(cluster.get("server", "")))
        self._base = parts.path.rstrip("/")
        self._connection: HTTPConnection
        try:
            if parts.scheme == "https":
                trust = _trust(cluster, user)
                self._connection = HTTPSConnection(parts.hostname or "", parts.port or 443, context=trust)
            else:
                self._connection = HTTPConnection(parts.hostname or "", parts.port or 80)
        except (OSError, ValueError) as error:
            raise UnusableError("no usable server or certificate") from error

    def get(self, path: str, accept: str = "application/json") -> Any:
        """Returns the decoded answer to a GET. Raises UnusableError after the deadline and for every other failure."""
        try:
            left = self._end - time.monotonic()
            if left <= 0:
                raise UnusableError("the deadline is over")
            self._connection.timeout = left
            if self._connection.sock is not None:
                self._connection.sock.settimeout(left)
            self._connection.request("GET", self._base + path, headers={**self._headers, "Accept": accept})
            answer = self._connection.getresponse()
            text = b"".join(self._pieces(answer))
            if answer.status != 200:
                raise UnusableError(f"status {answer.status}")
            return json.loads(text)
        except (OSError, HTTPException, ValueError) as error:
            raise UnusableError("no answer") from error

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _pieces(self, answer: Any) -> Iterator[bytes]:
        """Yields the body. A server that sends a byte now and then must not stretch the deadline."""
        size = 0
        while piece := answer.read1(1 << 16):
            size += len(piece)
            if size > LARGEST or time.monotonic() > self._end:
                raise UnusableError("too large, or too slow")
            yield piece
        # The next request may use the connection.
        answer.close()


def connect(params: Mapping[str, Any]) -> QuickCluster:
    """Returns the cluster that the flags of a client command and the environment name.

    params: of the command's context. Raises UnusableError or UserError if there is none.
    """
    files = files_of(params.get("kubeconfig"), params.get("home"), os.environ)
    context = params.get("context") or os.environ.get("PENSTOCK_CONTEXT")
    return QuickCluster(MergedKubeconfig.read(files), context)


def _absolute(entry: KubeconfigEntry) -> dict[str, Any]:
    """Returns the entry's fields with its file names relative to the kubeconfig made absolute."""
    named = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
    return {
        name: str(entry.folder / value) if name in named and value else value for name, value in entry.fields.items()
    }


def _credentials(user: Mapping[str, Any]) -> dict[str, str]:
    try:
        token = user.get("token") or (Path(user["tokenFile"]).read_text().strip() if user.get("tokenFile") else "")
    except OSError as error:
        raise UnusableError("no token") from error
    return {"Authorization": f"Bearer {token}"} if token else {}


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    """Returns the TLS settings. Raises OSError or ValueError for unusable certificates."""
    data = cluster.get("certificate-authority-data")
    authority = b64decode(data).decode() if data else None
    trust = client_context(cafile=cluster.get("certificate-authority"), cadata=authority)
    if cluster.get("insecure-skip-tls-verify"):
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    if user.get("client-certificate"):
        trust.load_cert_chain(user["client-certificate"], user.get("client-key"))
    elif user.get("client-certificate-data"):
        # The ssl module loads a chain from files only; this one is readable by its owner alone and lives for the call.
        with NamedTemporaryFile() as chain:
            chain.write(b64decode(user["client-certificate-data"]) + b"\n" + b64decode(user.get("client-key-data", "")))
            chain.flush()
            trust.load_cert_chain(chain.name)
    return trust
