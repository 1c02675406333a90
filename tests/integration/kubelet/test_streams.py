"""kubectl exec, attach, cp and port-forward, and those of the official Python client, as their user observes them."""

import json
import os
import re
import shutil
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import websocket
import yaml
from kubernetes import client, config
from kubernetes.stream import portforward, stream

from deploy.local import kubelet_socket
from tests.integration.apiserver.client import until
from tests.integration.kubelet.conftest import Server
from tests.integration.kubelet.lab import shell
from tests.support.ports import free_port
from tests.support.tables import cases
from workers.api.kinds import Object

pytestmark = pytest.mark.parametrize("server", ["embedded"], indirect=True, scope="package")
needs_kubectl = pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed: NOT tested with it")

#: Seconds anything may take on a busy machine.
PATIENCE = 60
RANDOM = os.urandom(300_000)
SLEEP = "exec sleep 600"


@dataclass
class Yard:
    """One kubelet for this module, in a process of its own, with a pod called `p`."""

    server: Server
    folder: Path
    # Its module takes a second to import, which every process of a parallel run would do for this name.
    core: "client.CoreV1Api"
    kubelet: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        words = ["--kubeconfig", self.server.kubeconfig, "--logs", self.server.logs, "--root", self.folder / "root"]
        with (self.folder / "kubelet.log").open("ab") as log:
            self.kubelet = subprocess.Popen(
                [sys.executable, "-m", "deploy.local.kubelet", *map(str, words), "--max-pods", "8", "--farewell", "1"],
                stdout=log,
                stderr=log,
            )

    def stop(self, number: signal.Signals) -> None:
        self.kubelet.send_signal(number)
        self.kubelet.wait(PATIENCE)

    def create(self, name: str, *containers: Object, **spec: Any) -> None:
        metadata = {"name": name, "labels": {"app": name}}
        body = {"metadata": metadata, "spec": {"restartPolicy": "Never", "containers": list(containers), **spec}}
        self.core.create_namespaced_pod("default", body)

    def shown(self, name: str, state: str) -> None:
        """Waits until all containers of a pod are running, waiting or terminated."""

        def reached() -> bool:
            statuses = self.core.read_namespaced_pod(name, "default").status.container_statuses
            return bool(statuses) and all(getattr(one.state, state) for one in statuses)

        until(reached, f"{name} is {state}")

    def popen(self, *arguments: str, **more: Any) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "KUBECONFIG": str(self.server.kubeconfig), "HOME": str(self.folder)}
        return subprocess.Popen(["kubectl", *arguments], env=environment, **more)

    def kubectl(self, *arguments: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with self.popen(*arguments, cwd=self.folder, **pipes) as process:
            out, err = process.communicate(stdin, PATIENCE)
        return process.returncode, out, err.decode()


def sleep() -> list[str]:
    """A long command that no other test runs."""
    return ["sleep", f"600.{free_port()}"]


def runs(command: list[str]) -> bool:
    """True if a process of the machine runs the command; its number in its container says nothing."""
    found = psutil.process_iter(["cmdline", "status"])
    return any(one.info["cmdline"] == command and one.info["status"] != psutil.STATUS_ZOMBIE for one in found)


@pytest.fixture(scope="module")
def yard(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    with config.new_client_from_config(str(server.kubeconfig)) as api:
        yard = Yard(server, tmp_path_factory.mktemp("yard"), client.CoreV1Api(api))
        yard.start()
        environment = [{"name": "GREETING", "value": "hi"}, {"name": "a.b", "value": "c"}]
        yard.create("p", shell(SLEEP, env=environment), shell(SLEEP, "side"))
        yard.create("over", shell("true"))
        yard.create("nowhere", shell("true"), nodeSelector={"no": "where"})
        missing = {"configMapRef": {"name": "none"}}
        yard.create("waits", shell("true") | {"envFrom": [missing]})
        yard.shown("p", "running")
        yard.shown("over", "terminated")
        yard.shown("waits", "waiting")
        yield yard
        yard.core.delete_collection_namespaced_pod("default", grace_period_seconds=0)
        yard.stop(signal.SIGTERM)


@needs_kubectl
@cases(
    (
        "output, errors and exit code",
        ["p", "--", "sh", "-c", 'echo "$GREETING"; echo oops >&2; exit 3'],
        b"",
        (3, r"hi\n", "oops\ncommand terminated with exit code 3\n"),
    ),
    ("folder", ["p", "--", "pwd"], b"", (0, r".*/main/0/work\n", "")),
    ("a variable that no shell knows", ["p", "--", "printenv", "a.b"], b"", (0, r"c\n", "")),
    ("input and its end", ["-i", "p", "--", "cat"], b"hello", (0, "hello", "")),
    ("no input", ["p", "--", "cat"], b"hello", (0, "", "")),
    ("another container", ["p", "-c", "side", "--", "sh", "-c", "echo ${GREETING-none}"], b"", (0, r"none\n", "")),
    ("killed", ["p", "--", "sh", "-c", "kill -9 $$"], b"", (137, "", "command terminated with exit code 137\n")),
    ("what is left behind", ["p", "--", "sh", "-c", "sleep 600 & echo done"], b"", (0, r"done\n", "")),
    ("much", ["p", "--", "head", "-c", "1000000", "/dev/zero"], b"", (0, r"\0{1000000}", "")),
    ("a workload's pod", ["deployment/p", "--", "printenv", "HOSTNAME"], b"", (0, r"p\n", "")),
)
def test_exec_runs_a_command_beside_the_container(
    arguments: list[str], stdin: bytes, wanted: tuple[int, str, str], yard: Yard
) -> None:
    if arguments[0] == "deployment/p":
        template = {"metadata": {"labels": {"app": "p"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        spec = {"selector": {"matchLabels": {"app": "p"}}, "template": template}
        apps = client.AppsV1Api(yard.core.api_client)
        apps.create_namespaced_deployment("default", {"metadata": {"name": "p"}, "spec": spec})
    code, out, err = yard.kubectl("exec", *arguments, stdin=stdin)
    err = err.removeprefix('Defaulted container "main" out of: main, side\n')
    assert (code, err) == (wanted[0], wanted[2])
    assert re.fullmatch(wanted[1], out.decode(), re.DOTALL)


@needs_kubectl
def test_files_are_copied_both_ways(yard: Yard) -> None:
    (yard.folder / "there").write_bytes(RANDOM)
    assert yard.kubectl("cp", "there", "p:copy", "-c", "main")[0] == 0
    assert yard.kubectl("cp", "p:copy", "back", "-c", "main")[0] == 0
    assert (yard.folder / "back").read_bytes() == RANDOM


EXEC = ["exec", "p", "--"]


@needs_kubectl
@cases(
    ("no such program", [*EXEC, "nosuch"], "No such file or directory"),
    ("no such pod", ["exec", "nobody", "--", "true"], 'pods "nobody" not found'),
    ("no such container", ["exec", "p", "-c", "x", "--", "true"], "container x is not valid for pod p"),
    ("an ended pod", ["exec", "over", "--", "true"], "cannot exec into a container in a completed pod"),
    ("a pod without a node", ["exec", "nowhere", "--", "true"], "pod nowhere does not have a host assigned"),
    ("a container that waits", ["exec", "waits", "--", "true"], 'container not found ("main")'),
    ("input of a container", ["attach", "-i", "p"], "the container has no input: it needs `stdin: true`"),
    ("debug", ["debug", "p", "--image=x"], "ephemeral containers are not offered here"),
    (
        "a proxy",
        ["get", "--raw", "/api/v1/namespaces/default/services/http:x:80/proxy/a/b"],
        "the proxy is not offered here",
    ),
    ("no upgrade", ["get", "--raw", "/api/v1/namespaces/default/pods/p/exec?container=main"], "Upgrade request"),
)
def test_what_cannot_be_done_says_so(arguments: list[str], message: str, yard: Yard) -> None:
    code, _, err = yard.kubectl(*arguments)
    assert code != 0
    assert message in err


@needs_kubectl
def test_attach_shows_what_is_printed_from_now_on_until_the_end(yard: Yard) -> None:
    yard.create("ticker", shell("echo before; until [ -e go ]; do echo tick; sleep 0.05; done; echo end; exit 3"))
    yard.shown("ticker", "running")
    # It runs before it has printed anything.
    until(lambda: "tick" in yard.core.read_namespaced_pod_log("ticker", "default"), "the first line was printed")
    with yard.popen("attach", "ticker", "--quiet", stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"tick\n"
        # The container's end may end this command, too, before it is told that it is done.
        yard.kubectl("exec", "ticker", "--", "touch", "go")
        assert process.stdout.read().endswith(b"end\n")
        assert process.wait(PATIENCE) == 0


@needs_kubectl
@cases(
    ("input and its end", ["--", "cat"], b"hello\n", (0, r"hello\n")),
    ("more than a pipe holds", ["--", "sh", "-c", "sleep 0.2; wc -c"], RANDOM, (0, rf"{len(RANDOM)}\n")),
    ("exit code", ["--", "sh", "-c", "read code; exit $code"], b"7\n", (7, "")),
    ("signals", ["--", "sh", "-c", "read line; kill -TERM $$$$"], b"\n", (143, "")),
)
def test_kubectl_run_gives_its_input_to_a_pod_of_its_own(
    arguments: list[str], stdin: bytes, wanted: tuple[int, str], yard: Yard
) -> None:
    options = ("--rm", "-i", "--quiet", "--restart=Never", "--image=busybox")
    code, out, err = yard.kubectl("run", "typed", *options, *arguments, stdin=stdin)
    assert code == wanted[0], err
    assert re.fullmatch(wanted[1], out.decode(), re.DOTALL)


@needs_kubectl
def test_input_stays_open_for_the_next_client_and_the_next_kubelet(yard: Yard) -> None:
    yard.create("reader", shell("while read line; do echo got $line; done", stdin=True))
    yard.shown("reader", "running")

    def says(word: str) -> bool:
        with yard.popen("attach", "-i", "-q", "reader", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdin.write(f"{word}\n".encode())
            process.stdin.flush()
            found = process.stdout.readline()
            process.kill()
        return found == f"got {word}\n".encode()

    assert says("one")
    assert says("two")
    yard.stop(signal.SIGKILL)
    yard.start()
    until(lambda: yard.kubectl("exec", "reader", "--", "true")[0] == 0, "the container is found")
    assert says("three")
    assert yard.core.read_namespaced_pod("reader", "default").status.container_statuses[0].restart_count == 0


def test_a_containers_terminal_has_a_size_and_takes_a_shells_input(yard: Yard) -> None:
    command = sleep()
    yard.create("typist", {"name": "main", "image": "busybox", "stdin": True, "stdinOnce": True, "tty": True})
    yard.shown("typist", "running")
    words = {"container": "main", **dict.fromkeys(("stdin", "stdout", "stderr", "tty"), True)}
    shell = stream(yard.core.connect_get_namespaced_pod_attach, "typist", "default", _preload_content=False, **words)
    shell.write_channel(4, json.dumps({"Width": 99, "Height": 33}))
    shell.write_stdin("stty size; tty; echo $TERM\n")
    shell.write_stdin(f"trap '' HUP; {' '.join(command)} & \n exit 5\n")
    shell.run_forever(PATIENCE)
    # The terminal shows what is typed ahead as it comes, also between the lines of a command's output.
    seen = shell.read_all()
    assert [line for line in (r"^33 99\r\n", r"^/dev/\S+\r\n", r"^xterm\r\n") if not re.search(line, seen, re.M)] == []
    shell.sock.shutdown()
    yard.shown("typist", "terminated")
    assert (
        yard.core.read_namespaced_pod("typist", "default").status.container_statuses[0].state.terminated.exit_code == 5
    )
    assert not runs(command)


@needs_kubectl
@cases(("an idle client", b""), ("a client whose input is not read", RANDOM * 4))
def test_a_client_that_goes_takes_its_command_along(sent: bytes, yard: Yard, tmp_path: Path) -> None:
    (tmp_path / "sent").write_bytes(sent)
    command = sleep()
    with (tmp_path / "sent").open() as stdin:
        process = yard.popen("exec", "-i", "p", "-c", "main", "--", *command, stdin=stdin)
    until(lambda: runs(command), "the command runs")
    process.kill()
    process.wait(PATIENCE)
    until(lambda: not runs(command), "the command has ended")


@needs_kubectl
def test_a_container_that_ends_takes_its_commands_along(yard: Yard) -> None:
    yard.create("brief", shell(SLEEP))
    yard.shown("brief", "running")
    command = sleep()
    process = yard.popen("exec", "brief", "--", *command)
    until(lambda: runs(command), "the command runs")
    yard.core.delete_namespaced_pod("brief", "default", grace_period_seconds=1)
    assert process.wait(PATIENCE) == 137
    assert not runs(command)


@needs_kubectl
def test_a_killed_kubelet_leaves_no_command_and_the_next_one_serves_its_containers(yard: Yard) -> None:
    command = sleep()
    words = ("exec", "p", "-c", "main", "--", "sh", "-c", f"echo begun; exec {' '.join(command)}")
    with yard.popen(*words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        # What it prints has passed the kubelet, which has told its guard by then.
        assert process.stdout.readline() == b"begun\n"
        yard.stop(signal.SIGKILL)
        assert process.wait(PATIENCE) == 1
    until(lambda: not runs(command), "the command has ended")
    yard.start()
    words = ("exec", "p", "-c", "main", "--", "printenv", "GREETING")
    until(lambda: yard.kubectl(*words)[:2] == (0, b"hi\n"), "the container is found")


def test_a_terminal_has_a_size_and_takes_a_shells_input(yard: Yard) -> None:
    words = {"container": "main", "command": ["sh"], **dict.fromkeys(("stdin", "stdout", "stderr", "tty"), True)}
    shell = stream(yard.core.connect_get_namespaced_pod_exec, "p", "default", _preload_content=False, **words)
    shell.write_channel(4, json.dumps({"Width": 99, "Height": 33}))
    shell.write_stdin("stty size; tty; echo $TERM; exit 5\n")
    shell.run_forever(PATIENCE)
    # Its close() does nothing after the server has closed.
    shell.sock.shutdown()
    assert shell.returncode == 5
    assert re.search(r"33 99\r\n/dev/\S+\r\nxterm\r\n", shell.read_all())


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says again what it is told."""

    class Echo(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            while data := self.request.recv(65536):
                self.request.sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def told(connection: socket.socket, data: bytes) -> bytes:
    """What the server of `echo` says to this."""
    connection.settimeout(PATIENCE)
    connection.sendall(data)
    found = b""
    while len(found) < len(data) and (part := connection.recv(65536)):
        found += part
    return found


@needs_kubectl
def test_kubectl_forwards_ports(yard: Yard, echo: int) -> None:
    closed = free_port()
    ports = (f":{echo}", f":{closed}")
    with yard.popen("port-forward", "p", *ports, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        found: dict[int, int] = {}
        while len(found) < 2:
            local, remote = re.search(rb":(\d+) -> (\d+)", process.stdout.readline()).groups()
            found[int(remote)] = int(local)
        with (
            socket.create_connection(("127.0.0.1", found[echo])) as first,
            socket.create_connection(("127.0.0.1", found[echo])) as second,
        ):
            assert (told(first, RANDOM), told(second, b"two"), told(first, b"one")) == (RANDOM, b"two", b"one")
        with socket.create_connection(("127.0.0.1", found[closed])) as third:
            third.settimeout(PATIENCE)
            assert third.recv(1) == b""
        # kubectl ends with the first connection that fails.
        assert f"dial tcp 127.0.0.1:{closed}: connect: connection refused".encode() in process.stderr.read()


def test_pythons_client_forwards_ports(yard: Yard, echo: int) -> None:
    closed = free_port()
    forward = portforward(yard.core.connect_get_namespaced_pod_portforward, "p", "default", ports=f"{echo},{closed}")
    assert told(forward.socket(echo), RANDOM) == RANDOM
    refused = forward.socket(closed)
    refused.settimeout(PATIENCE)
    assert refused.recv(1) == b""
    assert f"dial tcp 127.0.0.1:{closed}: connect: connection refused" in forward.error(closed)
    forward.close()
    until(lambda: not forward.connected, "its thread has closed the connection")


@cases(
    ("no token", "pods/p/exec?container=main&command=true&stdout=1", "v5.channel.k8s.io", "wrong", 401),
    ("no such pod", "pods/nobody/exec?command=true&stdout=1", "v5.channel.k8s.io", "", 404),
    ("another protocol", "pods/p/exec?container=main&command=true&stdout=1", "v9.channel.k8s.io", "", 400),
    ("no stream", "pods/p/exec?container=main&command=true", "v5.channel.k8s.io", "", 400),
    ("no command", "pods/p/exec?container=main&stdout=1", "v5.channel.k8s.io", "", 400),
    ("no port", "pods/p/portforward", "v4.channel.k8s.io", "", 400),
    ("a watch", "pods?watch=1", "v5.channel.k8s.io", "", 400),
)
def test_a_websocket_is_refused(path: str, protocol: str, token: str, status: int, yard: Yard) -> None:
    settings = yard.core.api_client.configuration
    known = yaml.safe_load(yard.server.kubeconfig.read_text())["users"][0]["user"]["token"]
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(
            f"{settings.host.replace('https', 'wss')}/api/v1/namespaces/default/{path}",
            subprotocols=[protocol],
            header={"Authorization": f"Bearer {token or known}"},
            sslopt={"ca_certs": settings.ssl_ca_cert},
        )
    assert refused.value.status_code == status
    assert json.loads(refused.value.resp_body)["code"] == status


def test_the_kubelets_socket_is_its_owners_alone(yard: Yard) -> None:
    assert stat.S_IMODE(kubelet_socket.path(yard.server.logs).stat().st_mode) == 0o600
