"""A real etcd and kube-apiserver (and kube-controller-manager, if asked for) on free loopback ports.

Their binaries stand in the folder that KUBEBUILDER_ASSETS names, the convention of Kubernetes' own test tooling.
"""

import os
import re
import secrets
import shutil
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.support.ports import free_ports

#: Seconds a component may take until it answers; a cold start on a busy machine takes about ten.
PATIENCE = 90.0
#: The user of `ControlPlane.ordinary`.
ORDINARY = "ordinary"


#: A minor version: 1.36 is (1, 36).
Version = tuple[int, int]

#: Arguments that a version beyond the second one refuses, or one before the first, by component. A component that does
#: not know one of its arguments does not start.
DATED: Mapping[str, Mapping[str, tuple[Version, Version]]] = {
    # Without it an old one listens in the clear, too, on a port that another run may have.
    "kube-controller-manager": {"--port=0": ((1, 0), (1, 23))},
}


@dataclass(frozen=True)
class ControlPlane:
    """A running one. apiserver: its process, for tests that stop it and let it go on.

    ordinary: the kubeconfig of a user without rights, whom no group exempts from the server's limits.
    """

    url: str
    kubeconfig: Path
    ordinary: Path
    apiserver: subprocess.Popen[bytes]


def assets() -> Path:
    """The folder with the binaries. Skips the test, with the reason, when there is none."""
    folder = os.environ.get("KUBEBUILDER_ASSETS")
    if not folder:
        pytest.skip("KUBEBUILDER_ASSETS is not set: NOT tested against a real kube-apiserver")
    for binary in ("etcd", "kube-apiserver"):
        if not (Path(folder) / binary).exists():
            pytest.skip(f"KUBEBUILDER_ASSETS={folder} holds no {binary}: NOT tested against a real kube-apiserver")
    if not shutil.which("openssl"):
        pytest.skip("openssl is missing (it makes the service account key): NOT tested against a real kube-apiserver")
    return Path(folder)


def version(folder: Path) -> Version:
    """Returns the minor version of the control plane in this folder."""
    said = subprocess.run([folder / "kube-apiserver", "--version"], check=True, capture_output=True, text=True).stdout
    return parse_version(said)


def parse_version(said: str) -> Version:
    """Returns the minor version that a program's `--version` says."""
    major, minor = re.findall(r"\d+", said)[:2]
    # A build without its version's name calls itself v0.0.0: Debian's, of 1.20.
    return (int(major), int(minor)) if int(major) else (1, 20)


def arguments_of(component: str, at: Version) -> list[str]:
    """Returns the arguments that only some versions of a component know, for this one."""
    return [flag for flag, (first, last) in DATED.get(component, {}).items() if first <= at <= last]


@contextmanager
def control_plane(
    folder: Path, home: Path, *, controllers: bool = False, flags: Sequence[str] = ()
) -> Iterator[ControlPlane]:
    """Starts etcd and kube-apiserver with their files under `home`; stops both at the end.

    controllers: start kube-controller-manager too (garbage collection, namespaces, its own Job controller). flags:
    further ones of kube-apiserver.
    """
    home.mkdir(parents=True, exist_ok=True)
    client_port, peer_port, port, controllers_port = free_ports(4)
    etcd = f"http://127.0.0.1:{client_port}"
    with ExitStack() as running:
        running.enter_context(process(home / "etcd.log", _etcd(folder, home, etcd, peer_port)))
        _until(lambda: b"true" in _read(f"{etcd}/health"), f"etcd, see {home}/etcd.log")
        token = secrets.token_hex(16)
        ordinary = secrets.token_hex(16)
        users = home / "tokens.csv"
        users.write_text(f"{token},admin,admin,system:masters\n{ordinary},{ORDINARY},{ORDINARY}\n")
        key = ["openssl", "genrsa", "-out", home / "accounts.key", "2048"]
        subprocess.run(key, check=True, capture_output=True)
        at = version(folder)
        command = [f"{folder}/kube-apiserver", *apiserver_arguments(at, home, etcd, port), *flags]
        apiserver = running.enter_context(process(home / "apiserver.log", command))
        url = f"https://127.0.0.1:{port}"
        _until(lambda: _read(f"{url}/readyz", token) == b"ok", f"kube-apiserver, see {home}/apiserver.log")
        # The API server makes the namespaces that every cluster has beside its first answers, whatever readyz says.
        namespace = f"{url}/api/v1/namespaces/default"
        _until(lambda: b"default" in _read(namespace, token), f"namespace default, see {home}/apiserver.log")
        kubeconfig = _kubeconfig(home / "kubeconfig", home, url, token)
        if controllers:
            arguments = controllers_arguments(at, home, kubeconfig, controllers_port)
            command = [f"{folder}/kube-controller-manager", *arguments]
            running.enter_context(process(home / "controllers.log", command))
        yield ControlPlane(url, kubeconfig, _kubeconfig(home / "ordinary", home, url, ordinary), apiserver)


def _etcd(folder: Path, home: Path, url: str, peer_port: int) -> Sequence[str]:
    peer = f"http://127.0.0.1:{peer_port}"
    return [
        f"{folder}/etcd",
        f"--data-dir={home}/etcd",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def apiserver_arguments(at: Version, home: Path, etcd: str, port: int) -> list[str]:
    """Returns the arguments with which a kube-apiserver of this version is started. etcd: its URL."""
    key = home / "accounts.key"
    return [
        f"--etcd-servers={etcd}",
        f"--cert-dir={home}/certificates",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={home}/tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        # Pods need no account here, and nothing makes one without the controllers.
        "--disable-admission-plugins=ServiceAccount",
        *arguments_of("kube-apiserver", at),
    ]


def controllers_arguments(at: Version, home: Path, kubeconfig: Path, port: int) -> list[str]:
    """Returns the arguments with which a kube-controller-manager of this version is started."""
    return [
        f"--kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={home}/controllers",
        *arguments_of("kube-controller-manager", at),
        "--leader-elect=false",
        f"--service-account-private-key-file={home}/accounts.key",
    ]


def _kubeconfig(file: Path, home: Path, url: str, token: str) -> Path:
    # The API server signs its own certificate on its first start, which makes it its own authority.
    cluster = {"server": url, "certificate-authority": str(home / "certificates" / "apiserver.crt")}
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "test", "cluster": cluster}],
                "users": [{"name": "admin", "user": {"token": token}}],
                "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
                "current-context": "test",
            }
        )
    )
    return file


@contextmanager
def process(
    log: Path, command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program until the block ends. environment: variables beside those of this process."""
    variables = {**os.environ, **(environment or {})}
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables) as running,
    ):
        try:
            yield running
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()


def _until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.1)
    raise TimeoutError(f"not ready after {PATIENCE:g} s: {what}")


def _read(url: str, token: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    unverified = ssl.create_default_context()
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(request, timeout=5, context=unverified) as answer:
        return bytes(answer.read())
