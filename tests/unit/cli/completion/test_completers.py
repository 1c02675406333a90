"""Candidates of shell completion, from a server that answers as an API server does, or does not answer."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest
import yaml
from click.shell_completion import ShellComplete

from deploy.cli.completion import completers, quick_cluster
from deploy.cli.main import cli, command_of
from deploy.cli.options import SettingsCommand
from tests.support.tables import for_each


def resource(plural: str, kind: str, *, short: tuple[str, ...] = (), scope: str = "Namespaced", verbs=("list", "get")):
    return {
        "resource": plural,
        "singularResource": kind.lower(),
        "responseKind": {"kind": kind},
        "scope": scope,
        "shortNames": list(short),
        "verbs": list(verbs),
    }


def group(name: str, *resources: object) -> dict:
    return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": list(resources)}]}


def names(*found: str) -> dict:
    return {"items": [{"metadata": {"name": name}} for name in found]}


ANSWERS = {
    "/api": {
        "items": [
            group(
                "",
                resource("pods", "Pod", short=("po",)),
                resource("namespaces", "Namespace", scope="Cluster"),
                resource("bindings", "Binding", verbs=("create",)),
            )
        ]
    },
    "/apis": {"items": [group("batch", resource("jobs", "Job"))]},
    "/api/v1/namespaces": names("default", "batch", "ops"),
    "/api/v1/namespaces/batch/pods": names("crunch-1", "crunch-2", "other"),
    "/apis/batch/v1/namespaces/batch/jobs": names("crunch"),
    "/apis/batch/v1/namespaces/ops/jobs": names("backup"),
}


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = ANSWERS.get(self.path.partition("?")[0])
        found = body is not None and self.headers["Authorization"] == "Bearer sesame"
        text = json.dumps(body).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_address[1]}"
        found.shutdown()


def kubeconfig(folder: Path, server: str, **user: object) -> Path:
    path = folder / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [
                    {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "batch"}},
                    {"name": "there", "context": {"cluster": "c", "user": "u", "namespace": "ops"}},
                ],
                "clusters": [{"name": "c", "cluster": {"server": server}}],
                "users": [{"name": "u", "user": {"token": "sesame", **user}}],
            }
        )
    )
    return path


@pytest.fixture(autouse=True)
def config(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = kubeconfig(tmp_path, server)
    for name in ("PENSTOCK_HOME", "PENSTOCK_CONTEXT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_KUBECONFIG", str(path))
    return path


def complete(*words: str) -> list[str]:
    """The candidates for the last word of `penstock …`."""
    *before, incomplete = words
    found = ShellComplete(cli, {}, "penstock", "_PENSTOCK_COMPLETE").get_completions(before, incomplete)
    return [item.value for item in found]


CASES = {
    "kinds that can be listed": (("get", ""), ["jobs", "namespaces", "pods"]),
    "the rest of a kind": (("get", "po"), ["pods"]),
    "a further kind after a comma": (("get", "jobs,na"), ["jobs,namespaces"]),
    "names of a kind in the context's namespace": (("describe", "pods", ""), ["crunch-1", "crunch-2", "other"]),
    "names by a short name": (("get", "po", "cr"), ["crunch-1", "crunch-2"]),
    "a name that is given already is not offered again": (("get", "pods", "other", ""), ["crunch-1", "crunch-2"]),
    "names after a slash": (("logs", "po/cr"), ["po/crunch-1", "po/crunch-2"]),
    "a second KIND/NAME": (("get", "job/crunch", "po"), ["pods/"]),
    "the namespace of the flag": (("get", "-n", "ops", "jobs", ""), ["backup"]),
    "the context of the flag": (("get", "--context", "there", "jobs", ""), ["backup"]),
    "namespaces": (("get", "-n", ""), ["batch", "default", "ops"]),
    "contexts": (("get", "--context", "t"), ["there"]),
    "names of the kinds that a command takes": (("suspend", ""), ["crunch"]),
    "a kind that nobody serves": (("get", "kangaroos", ""), []),
    "a namespace without the kind": (("get", "-n", "nowhere", "jobs", ""), []),
    "values of a choice": (("get", "-o", "j"), ["json", "jsonpath="]),
    "values that may be left out": (("apply", "--dry-run", "s"), ["server"]),
    "commands": (("compl",), ["completion"]),
}


@pytest.mark.parametrize("case", CASES)
def test_candidates(case: str) -> None:
    words, expected = CASES[case]
    assert complete(*words) == expected


def test_files_are_left_to_the_shell() -> None:
    found = ShellComplete(cli, {}, "penstock", "_PENSTOCK_COMPLETE").get_completions(["apply", "-f"], "exam")
    assert [item.type for item in found] == ["file"]


def test_a_setting_that_is_a_path_is_left_to_the_shell() -> None:
    command = command_of("worker")
    assert isinstance(command, SettingsCommand)
    found = ShellComplete(cli, {}, "penstock", "_PENSTOCK_COMPLETE").get_completions(["worker", "--home"], "x")
    assert [item.type for item in found] == ["file"]


def test_a_server_that_is_away_offers_nothing(tmp_path: Path, config: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        kubeconfig(tmp_path, f"http://127.0.0.1:{closed.getsockname()[1]}")
        assert complete("get", "") == []


def test_a_server_that_does_not_answer_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quick_cluster, "DEADLINE", 0.05)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        kubeconfig(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert complete("get", "") == []


def test_no_key_press_runs_a_program_of_the_kubeconfig(tmp_path: Path, server: str) -> None:
    witness = tmp_path / "ran"
    kubeconfig(tmp_path, server, token=None, exec={"command": "touch", "args": [str(witness)]})
    assert complete("get", "") == []
    assert not witness.exists()


@for_each("[", "- a", "contexts: 3", "contexts: [{}]", "")
def test_a_broken_kubeconfig_offers_nothing(content: str, config: Path) -> None:
    config.write_text(content)
    assert complete("get", "") == []
    assert complete("get", "--context", "") == []


def test_candidates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completers, "MOST", 2)
    assert complete("get", "pods", "") == ["crunch-1", "crunch-2"]


def test_a_context_of_click_without_parameters_is_enough(config: Path) -> None:
    found = completers.namespaces(click.Context(cli), cli.params[0], "o")
    assert [item.value for item in found] == ["ops"]
