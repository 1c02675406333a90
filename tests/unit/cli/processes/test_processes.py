"""The process commands: the command lines and settings of their processes."""

import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from redis.exceptions import ConnectionError as AwayError
from redis.exceptions import ResponseError

from deploy.local import up
from deploy.processes import command_lines, readiness
from scheduler.broker import clients
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from workers.api.kinds import CONFIG_MAP, JOB, POD, SCALED_JOB
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed
from workers.decision.plan import NOTHING
from workers.errors import UserError
from workers.metrics import process as metrics


@for_each(("worker", "penstock.reconcile", "reconcile-2@%h"), ("scaler", "penstock.poll", "poll-2@%h"))
def test_a_worker_becomes_celery_with_its_settings_in_the_environment(
    command: str, lane: str, node: str, penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    became: list[tuple[Sequence[str], Mapping[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda _path, argv, env: became.append((argv, env)))
    secret = "redis://:secret@h/0"
    assert penstock(command, "--number", "2", "--broker", secret, "--slots", "4").code == 0
    ((argv, env),) = became
    assert argv[argv.index("-Q") + 1] == lane
    assert argv[argv.index("-n") + 1] == node
    assert argv[argv.index("worker") + 1 :][:2] == ("-P", "threads")
    assert {"--without-mingle", "--without-gossip", "--without-heartbeat"} <= set(argv)
    assert not [word for word in argv if "secret" in word]
    assert (env["PENSTOCK_BROKER"], env["PENSTOCK_SLOTS"]) == (secret, "4")
    assert env["PATH"] == os.environ["PATH"]


def test_a_bad_setting_stops_a_process_before_it_becomes_another(
    penstock: Type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "execve", lambda *_: pytest.fail("started"))
    printed = penstock("worker", "--slots", "0")
    assert printed.code == 1
    assert printed.err.startswith("penstock: --slots: ")


def test_beat_and_watch_are_commands_of_ours() -> None:
    main = str(ROOT / "penstock" / "__main__.py")
    assert command_lines.beat()[1:] == ("-P", main, "beat")
    assert command_lines.watch()[1:] == ("-P", main, "watch")


def test_watch_without_a_cluster_fails_in_one_line(penstock: Type) -> None:
    printed = penstock("watch")
    # The log tells of the broker, which is not there either.
    said = [line for line in printed.err.splitlines() if not line.startswith("{")]
    assert (printed.code, len(said)) == (1, 1)
    assert "kubeconfig" in said[0]


def test_the_selector_narrows_only_unowned_kinds() -> None:
    def controller(kind: Any, *children: Any) -> Controller:
        return Controller(kind=kind, decide=lambda *_: NOTHING, children=children)

    found = {"a": controller(SCALED_JOB, JOB), "b": controller(JOB, POD), "c": controller(CONFIG_MAP)}
    narrowed = {SCALED_JOB: "team=a", CONFIG_MAP: "team=a", JOB: "", POD: ""}
    assert followed(found, "team=a") == narrowed


def test_the_ready_file_is_written_only_if_the_environment_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.delenv(readiness.VARIABLE, raising=False)
    readiness.announce()
    monkeypatch.setenv(readiness.VARIABLE, str(tmp_path / "ready"))
    readiness.announce()
    assert (tmp_path / "ready").exists()


@for_each(("127.0.0.1", False), ("0.0.0.0", True))
def test_metrics_are_served_on_their_address_and_the_log_says_so(
    address: str, elsewhere: bool, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    with caplog.at_level("INFO"):
        metrics.serve(port, address)
    (record,) = (each for each in caplog.records if each.getMessage() == "metrics are served")
    assert (record.address, record.port) == (address, port)  # type: ignore[attr-defined]
    for host, answers in (("127.0.0.1", True), ("127.0.0.2", elsewhere)):
        with socket.socket() as client:
            assert (client.connect_ex((host, port)) == 0) is answers


class _Broker:
    """Answers ping, and INFO with a version or an error."""

    def __init__(self, version: str | Exception) -> None:
        self._version = version

    async def __aenter__(self) -> "_Broker":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def ping(self) -> None:
        if isinstance(self._version, AwayError):
            raise self._version

    async def info(self, _section: str) -> dict[str, str]:
        if isinstance(self._version, Exception):
            raise self._version
        return {"redis_version": self._version}


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("6.2.0", None),
        ("7.2.4", None),
        ("10.0.1", None),
        (ResponseError("no permissions"), None),
        ("6.0.16", "version 6.0.16 is too old"),
        ("5.0.3", "too old"),
        (AwayError("refused"), "does not answer: refused"),
    ],
    ids=str,
)
async def test_a_named_broker_must_answer_and_be_new_enough(
    version: str | Exception, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "client", lambda *_, **__: _Broker(version))
    if message is None:
        await up.reachable("redis://h/0")
    else:
        with pytest.raises(UserError, match=message):
            await up.reachable("redis://h/0")
