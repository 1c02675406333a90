"""The parts that `penstock up` runs, and the ownership of its home."""

import fcntl
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.exceptions import ConnectionError as AwayError

from deploy.cli import options
from deploy.local import broker, crd_installation, parts, up
from deploy.local.home import Home, owned
from deploy.local.parts import Parts, UpOptions, plan
from deploy.local.supervisor import guard
from tests.support.paths import ROOT
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import FakeCluster
from workers.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from workers.client.rest import Cluster
from workers.errors import Forbidden, UserError

STORE = "redis://:secret@127.0.0.1:7000/0"


def planned(*, workers: int = 1, scalers: int = 1, **flags: Any) -> Parts:
    settings = options.load({"home": "/h", **flags})
    options_ = UpOptions(settings, workers=workers, scalers=scalers)
    own = broker.EmbeddedBroker(STORE, ("valkey-server", "conf")) if options_.own_broker else None
    return plan(options_, STORE, own)


@cases(
    ("everything embedded", {}, ["broker", "apiserver", "kubelet"]),
    ("a real broker", {"broker": "redis://h/0"}, ["apiserver", "kubelet"]),
    ("a real broker by its variable", {"variable": "redis://h/0"}, ["apiserver", "kubelet"]),
    ("a real cluster", {"kubeconfig": "/k"}, ["broker"]),
    ("a real cluster by its context", {"context": "c"}, ["broker"]),
    ("both real", {"broker": "redis://h/0", "kubeconfig": "/k"}, []),
)
def test_a_broker_or_cluster_without_an_address_is_embedded(
    flags: dict[str, Any], foundations: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "variable" in flags:
        monkeypatch.setenv("PENSTOCK_BROKER", flags.pop("variable"))
    plan = planned(**flags)
    assert [part.name for part in plan.foundations] == foundations
    assert [part.name for part in plan.processes] == ["watch", "beat", "worker-1", "scaler-1"]


def test_as_many_workers_and_scalers_as_asked_for_each_with_its_own_name() -> None:
    plan = planned(workers=2, scalers=2)
    assert [part.name for part in plan.processes][2:] == ["worker-1", "worker-2", "scaler-1", "scaler-2"]
    nodes = [part.argv[part.argv.index("-n") + 1] for part in plan.processes[2:]]
    assert nodes == ["reconcile-1@%h", "reconcile-2@%h", "poll-1@%h", "poll-2@%h"]
    queues = [part.argv[part.argv.index("-Q") + 1] for part in plan.processes[2:]]
    assert queues == ["penstock.reconcile"] * 2 + ["penstock.poll"] * 2


def test_every_process_gets_the_settings_the_store_and_the_embedded_cluster() -> None:
    wanted = {
        **{"LEASE": "3.0", "SLOTS": "2", "BROKER": STORE, "KUBECONFIG": "/h/kubeconfig", "JOBS": "all"},
        **dict.fromkeys(("CRONJOBS", "POLICIES", "WORKLOADS", "VOLCANO"), "true"),
    }
    for part in planned(lease="3", slots="2").processes:
        assert {f"PENSTOCK_{name}": value for name, value in wanted.items()}.items() <= part.env.items()


def test_on_a_real_cluster_only_the_jobs_that_name_us_are_ours() -> None:
    for part in planned(kubeconfig="/k").processes:
        assert part.env["PENSTOCK_KUBECONFIG"] == "/k"
        assert not part.env.keys() & {
            f"PENSTOCK_{name}" for name in ("JOBS", "CRONJOBS", "POLICIES", "WORKLOADS", "VOLCANO")
        }
    assert all(part.env["PENSTOCK_JOBS"] == "managed" for part in planned(jobs="managed").processes)


@cases(
    ("by default", {}, ["volcano", "default-scheduler"]),
    ("without gangs", {"volcano": "false"}, []),
    ("as they are named", {"scheduler_names": "a,b", "pod_scheduler": "mine"}, ["a,b", "mine"]),
)
def test_the_embedded_api_server_holds_pods_back_where_gangs_are_admitted(
    flags: dict[str, Any], told: list[str]
) -> None:
    (apiserver,) = (part for part in planned(**flags).foundations if part.name == "apiserver")
    words = list(apiserver.argv)
    assert [words[words.index(flag) + 1] for flag in ("--gangs", "--pod-scheduler") if flag in words] == told


def test_the_embedded_cluster_is_told_what_images_run() -> None:
    foundations = planned(images="nginx=| nginx -g 'daemon off;', worker=run -q 'a,b'").foundations
    told = {part.name: [word for word in part.argv if word.startswith("--image")] for part in foundations}
    wanted = ["--image=nginx=| nginx -g 'daemon off;'", "--image=worker=run -q 'a,b'"]
    assert told == {"broker": [], "apiserver": wanted, "kubelet": wanted}


def test_no_command_line_contains_a_password() -> None:
    plan = planned(workers=2)
    assert [
        part.name for part in (*plan.foundations, *plan.processes) if any("secret" in word for word in part.argv)
    ] == []


@for_each(("0", ["0"] * 5), ("9000", ["9003", "0", "9000", "9001", "9002"]))
def test_each_process_that_serves_metrics_has_a_port_of_its_own(port: str, ports: list[str]) -> None:
    plan = planned(workers=2, metrics_port=port)
    assert [part.env["PENSTOCK_METRICS_PORT"] for part in plan.processes] == ports


@cases(
    ("a pool", {"workers": 2}, {"worker-1": 0, "worker-2": 1, "scaler-1": 2, "watch": 3, "gateway": 4, "beat": 5}),
    ("a pool without a gateway", {"gateway": ""}, {"worker-1": 0, "scaler-1": 1, "watch": 2, "beat": 3}),
    ("one process", {"single": True}, {"standalone": 0, "gateway": 1}),
    ("one process without a gateway", {"single": True, "gateway": ""}, {"standalone": 0}),
)
def test_ports_of_health_are_counted_without_a_gap(started: dict[str, Any], places: dict[str, int]) -> None:
    """docs/standalone.md tells the order."""
    gateway = started.get("gateway", "127.0.0.1:8080")
    asked = {"workers": 1, "scalers": 1, **{key: value for key, value in started.items() if key != "gateway"}}
    settings = options.load({"home": "/h", "broker": STORE, "kubeconfig": "/k", "health": "127.0.0.1:8081"})
    found = plan(UpOptions(settings, **asked), STORE, gateway=gateway).processes
    assert {part.name: int(part.env["PENSTOCK_HEALTH"].rpartition(":")[2]) - 8081 for part in found} == places


@cases(("by default", {}, "127.0.0.1"), ("as it was asked for", {"metrics_address": "0.0.0.0"}, "0.0.0.0"))
def test_metrics_of_up_are_for_this_machine_unless_told_otherwise(flags: dict[str, Any], address: str) -> None:
    for kubeconfig in ({}, {"kubeconfig": "/k"}):
        parts = planned(metrics_port="9000", **kubeconfig, **flags).processes
        assert {part.env["PENSTOCK_METRICS_ADDRESS"] for part in parts} == {address}


@for_each((7, 1, 2, 7), (0, 1, 1, 4), (0, 1, 2, 4), (0, 1, 8, 16), (0, 1, None, 4), (0, 4, 2, 16), (7, 4, 2, 7))
def test_pods_are_as_many_as_asked_for_or_two_per_core_and_four_per_node(
    wanted: int, nodes: int, cores: int | None, pods: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert parts.pods(wanted, nodes) == pods


def test_the_kubelet_is_told_which_nodes_are_wished_for() -> None:
    flags = {"nodes": "4", "cpus": "64", "memory": "256Gi", "gpus": "8", "node_labels": "zone=a/b,rack=1"}
    (kubelet,) = (part for part in planned(**flags).foundations if part.name == "kubelet")
    words = list(kubelet.argv)
    told = {name: words[words.index("--" + name.replace("_", "-")) + 1] for name in flags}
    assert told == flags
    for wrong in ({"memory": "much"}, {"cpus": "-1"}, {"node_labels": "zone"}, {"node_labels": "zone=a b"}):
        with pytest.raises(UserError):
            planned(**wrong)


@cases(("a file", ""), ("below a file", "home"))
def test_a_home_that_cannot_be_made_is_an_error_of_one_line(inside: str, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    home = Home(occupied / inside)
    with pytest.raises(UserError, match=rf"^--home {home.root}: [A-Z][a-z ]+$"), owned(home):
        pass


def test_a_home_has_one_owner_and_the_second_learns_its_process(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    holding = (
        "import sys; from pathlib import Path; from deploy.local.home import Home, owned\n"
        "with owned(Home(Path(sys.argv[1]))): print('mine', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", holding, str(home.root)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        with pytest.raises(UserError, match=rf"runs already in {home.root} \(pid {other.pid}\)"), owned(home):
            pass
        other.kill()
    with owned(home):
        assert home.lock.read_text() == f"{os.getpid()}\n"
        assert guard.hold(home.lock) is None


@cases(("an embedded cluster", (), [True, False]), ("one that is named", ("--kubeconfig", "k"), [False, False]))
def test_other_commands_are_told_that_a_cluster_starts_until_it_has(
    words: tuple[str, ...], told: list[bool], penstock: Type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    the_home = Home(tmp_path / ".penstock")
    seen: list[bool] = []

    def look() -> None:
        """Notes whether a command would wait."""
        with the_home.starting.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                seen.append(True)
            else:
                seen.append(False)

    async def run(*_: Any, started: Callable[[up.RunningPart], Awaitable[None]], **__: Any) -> None:
        the_home.root.mkdir(exist_ok=True)
        look()
        await started(up.RunningPart(the_home, {}, None, "redis://h", ""))
        look()

    monkeypatch.setattr(up, "run", run)
    assert penstock("up", *words).code == 0
    assert seen == told


def test_a_broker_that_does_not_answer_is_named_before_anything_starts(penstock: Type, tmp_path: Path) -> None:
    printed = penstock("up", "--home", str(tmp_path / "h"), "--broker", "redis://:secret@127.0.0.1:1/0")
    assert printed.code == 1
    assert "--broker: does not answer" in printed.err
    assert "secret" not in printed.err
    assert "starting" not in printed.err


@cases(
    ("it comes back", 2, 60.0, None),
    ("not embedded, or away for too long", 1, 0.0, "the broker does not answer: refused"),
)
async def test_a_part_that_is_down_while_others_start_is_waited_for(
    failures: int, patience: float, message: str | None
) -> None:
    answers = iter([AwayError("refused")] * failures)

    async def step() -> None:
        if error := next(answers, None):
            raise error

    waiting = up.while_away("the broker", step, (AwayError,), patience)
    if message is None:
        await waiting
    else:
        with pytest.raises(UserError, match=message):
            await waiting


# --- our kinds in the cluster

WIDGETS = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets"},
        "versions": [{"name": "v1", "served": True}, {"name": "v0", "served": False}],
    },
}
WIDGET = Kind("example.com", "v1", "Widget", "widgets")


@cases(
    ("no group", (), True),
    ("a group without the kind", (Kind("example.com", "v1", "Gadget", "gadgets"),), True),
    ("served", (WIDGET,), False),
)
async def test_kinds_the_cluster_does_not_serve_are_missing(kinds: tuple[Kind, ...], missing: bool) -> None:
    cluster: Any = FakeCluster(kinds)
    assert await crd_installation.missing(cluster, [WIDGETS]) == ["widgets.example.com"] * missing


async def test_a_cluster_that_refuses_the_user_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(FakeCluster):
        async def request(self, *_: Any, **__: Any) -> Any:
            raise Forbidden("Unauthorized", status=401)

    async def connect(**_: Any) -> Any:
        return Refusing()

    monkeypatch.setattr(Cluster, "connect", connect)
    options_ = UpOptions(options.load({"kubeconfig": "old"}))
    with pytest.raises(UserError, match=r"^the cluster \(old\) refuses this user: .*Unauthorized"):
        await crd_installation.define(options_, Path("old"))


class _Serving(FakeCluster):
    """Serves a kind once its definition is stored."""

    async def create(self, kind: Kind, body: dict[str, Any]) -> Any:
        answer = await self.request("POST", kind.path(), body=body)
        self.kinds.append(WIDGET)
        return answer

    async def patch(self, ref: Any, body: dict[str, Any]) -> Any:
        return await self.request("PATCH", ref.kind.path("", ref.name), body=body)


async def test_definitions_are_stored_and_an_older_one_is_replaced() -> None:
    cluster: Any = _Serving()
    await crd_installation.install(cluster, [WIDGETS])
    newer = {**WIDGETS, "spec": {**WIDGETS["spec"], "scope": "Namespaced"}}  # type: ignore[dict-item]
    await crd_installation.install(cluster, [newer])
    stored = cluster.objects[CUSTOM_RESOURCE_DEFINITION.path("", "widgets.example.com")]
    assert stored["spec"]["scope"] == "Namespaced"
