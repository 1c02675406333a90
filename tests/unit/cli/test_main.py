"""The command line as a whole: help, exit codes, and one clear line for a mistake."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import click
import pytest
import redis.exceptions

from deploy.cli import about, main
from deploy.local import private_files
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from tests.support.terminal import COMMAND
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from workers.client import rest as cluster_module
from workers.errors import Unavailable

COMMANDS = sorted(main.LISTED)


def test_help_imports_nothing_heavy() -> None:
    heavy = {"pydantic", "rich", "redis", "kubernetes", "aiohttp", "celery", "orjson", "uvloop"}
    code = f"import sys; from deploy.cli import main; main.run(['--help']); print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n")


class PodsServer(BaseHTTPRequestHandler):
    """An API server that knows one pod."""

    ANSWERS: ClassVar[Mapping[str, object]] = {
        "/apis": {"kind": "APIGroupList", "groups": []},
        "/api/v1": {
            "kind": "APIResourceList",
            "groupVersion": "v1",
            "resources": [{"name": "pods", "namespaced": True, "kind": "Pod", "verbs": ["list", "get", "watch"]}],
        },
        "/api/v1/namespaces/default/pods": {
            "kind": "Table",
            "metadata": {"resourceVersion": "1"},
            "columnDefinitions": [{"name": "Name", "type": "string"}],
            "rows": [{"cells": ["one"], "object": {"metadata": {"name": "one", "namespace": "default"}}}],
        },
    }

    def do_GET(self) -> None:
        answer = json.dumps(self.ANSWERS[self.path.partition("?")[0]]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Writes no log."""


def test_get_imports_neither_the_model_of_settings_nor_a_library_of_clients(tmp_path: Path) -> None:
    heavy = {"pydantic", "kubernetes", "aiohttp", "dateutil", "rich", "redis", "celery", "uvloop"}
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
    }
    with ThreadingHTTPServer(("127.0.0.1", 0), PodsServer) as server:
        Thread(target=server.serve_forever).start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            (tmp_path / "k").write_text(
                json.dumps({**kubeconfig, "clusters": [{"name": "a", "cluster": {"server": address}}]})
            )
            code = f"""
import sys
from deploy.cli import main
code = main.run(["get", "pods", "--kubeconfig", {str(tmp_path / "k")!r}])
print(code, sorted({heavy!r} & set(sys.modules)))
"""
            environ = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
            words = [sys.executable, "-c", code]
            done = subprocess.run(words, cwd=ROOT, env=environ, check=True, capture_output=True, text=True)
        finally:
            server.shutdown()
    assert done.stdout == "NAME\none\n0 []\n"


def test_a_command_imports_no_other_commands_module() -> None:
    code = "import sys; from deploy.cli import main; main.run(['version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = {name for name in done.stdout.splitlines()[-1].split() if name.startswith("deploy.cli.")}
    modules = {f"deploy.cli.{place.partition(':')[0]}" for place in main.LISTED.values()}
    assert loaded & modules == {"deploy.cli.about", "deploy.cli.completion.scripts_of_shells"}


@for_each(*main.LISTED, *main.HIDDEN)
def test_every_place_has_the_command_of_its_name(name: str) -> None:
    aliases = {"jobflow": "flow", "jobtemplate": "template"}
    assert main.command_of(name).name == aliases.get(name, name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples(name: str, penstock: Type) -> None:
    printed = penstock(name, "--help")
    assert printed.code == 0
    assert "Examples:" in printed.out
    assert f"penstock {name}" in printed.out
    assert main.command_of(name).get_short_help_str(62).count("...") == 0


@for_each("broker", "apiserver", "kubelet")
def test_the_embedded_parts_run_by_name(name: str) -> None:
    done = subprocess.run([*COMMAND, name, "--help"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage:" in done.stdout


def test_the_overview_lists_every_command_that_is_not_hidden(penstock: Type) -> None:
    out = penstock("--help").out
    assert [name for name in COMMANDS if f"\n  {name} " not in out] == []
    assert "kubelet" not in out


def test_a_character_that_the_terminal_has_not_is_written_out(tmp_path: Path) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "a"}}
    (tmp_path / "日é.json").write_text(json.dumps({**queue, "spec": {"reclaimable": False}}))
    environ = {**os.environ, "PYTHONIOENCODING": "latin-1", "HOME": str(tmp_path)}
    words = [*COMMAND, "check", "-f", "日é.json"]
    done = subprocess.run(words, cwd=tmp_path, env=environ, check=True, capture_output=True, encoding="latin-1")
    assert done.stdout.startswith("queues.scheduling.volcano.sh a: same  (\\u65e5é.json)\n")


@cases(
    ("a letter is missing", ["aply"], "No such command 'aply'. Did you mean apply?"),
    (
        "an option before its command",
        ["-n", "batch", "get", "pods"],
        "No such option '-n'. Options follow their command, as in penstock get pods -n batch.\n",
    ),
    ("nothing is like it", ["xyzzy"], "No such command 'xyzzy'.\n"),
)
def test_a_command_that_does_not_exist_is_answered_with_the_nearest(
    words: list[str], message: str, penstock: Type
) -> None:
    printed = penstock(*words)
    assert (printed.code, printed.out) == (2, "")
    assert message in printed.err


class OopsError(Exception):
    """A fault of ours."""


@cases(
    ("broker", redis.exceptions.ConnectionError("Error 111\nconnecting"), "penstock: Error 111 connecting\n"),
    ("connection", ConnectionRefusedError("refused"), "penstock: refused\n"),
    ("timeout", TimeoutError(), "penstock: TimeoutError\n"),
    (
        "cluster",
        Unavailable("no", body={"message": "the server\nis tired"}, status=503),
        "penstock: the server is tired\n",
    ),
)
def test_an_unreachable_server_is_one_line_and_a_traceback_only_with_debug(
    error: Exception, line: str, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(about.version, "callback", fail)
    printed = penstock("version")
    assert (printed.code, printed.out, printed.err) == (1, "", line)
    with pytest.raises(type(error)):
        penstock("version", "--debug")


def test_a_fault_of_ours_keeps_its_traceback(penstock: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> None:
        raise OopsError

    monkeypatch.setattr(about.version, "callback", fail)
    with pytest.raises(OopsError):
        penstock("version")


def test_an_interrupt_exits_with_130(penstock: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: Any) -> None:
        raise click.Abort

    monkeypatch.setattr(about.version, "callback", interrupt)
    assert penstock("version").code == 130


def test_a_reader_that_went_away_is_no_traceback(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, "version"], stdout=writing, stderr=subprocess.PIPE, text=True)
    os.close(writing)
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


# --- no cluster


def test_without_any_cluster_the_message_says_how_to_get_one(penstock: Type) -> None:
    printed = penstock("get", "pods")
    assert (printed.code, printed.err.count("\n")) == (1, 1)
    assert "penstock up" in printed.err
    assert "--kubeconfig" in printed.err


def test_a_cluster_that_does_not_answer_is_named(
    cluster: FakeCluster, penstock: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: Any, **__: Any) -> None:
        raise Unavailable("GET /apis: Cannot connect to host 127.0.0.1:1")

    monkeypatch.setattr(cluster, "request", silent)
    private_files.write(tmp_path / ".penstock" / "kubeconfig", "{}")
    printed = penstock("get", "pods")
    assert printed.code == 1
    assert ".penstock/kubeconfig" in printed.err
    assert "127.0.0.1:1" in printed.err
    assert "penstock up" in printed.err


def test_a_server_that_refuses_is_quoted_and_not_called_away(
    cluster: FakeCluster, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overloaded(*_: Any, **__: Any) -> None:
        raise Unavailable("x", status=429, body={"message": "too many requests"})

    monkeypatch.setattr(cluster, "request", overloaded)
    assert penstock("get", "pods").err == "penstock: too many requests\n"


def test_the_client_is_closed_after_success_and_failure(penstock: Type, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class Closing(FakeCluster):
        async def close(self) -> None:
            closed.append(True)

    async def connect(**_: Any) -> Closing:
        return Closing()

    monkeypatch.setattr(cluster_module.Cluster, "connect", connect)
    penstock("get", "nonsense")
    assert closed == [True]


@cases(("a full disk", "version > /dev/full", 1, "No space left on device"), ("no output at all", "version >&-", 0, ""))
def test_results_that_cannot_be_written_are_said_in_one_line(line: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'"$0" -m penstock {line}', sys.executable],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, said in done.stderr) == (code, True)
    assert len(done.stderr.splitlines()) == bool(said)
