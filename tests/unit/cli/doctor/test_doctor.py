"""``penstock doctor``: what each check makes of the facts, and what the command finds on this machine."""

import json
import socket
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from redis.asyncio import Redis

from deploy.cli.doctor import facts as asking
from deploy.cli.doctor.verdicts import CHECKS, BrokerFacts, ClusterFacts, Facts, examine
from deploy.local.home import Home, owned
from scheduler.broker import permissions
from tests.support.tables import cases, for_each
from tests.unit.cli.conftest import Type, connected
from tests.unit.cli.fake import FakeCluster
from workers.api import times
from workers.api.kinds import CRON_JOB, JOB, Kind
from workers.client.missing_rights import MissingRight
from workers.settings import Settings

GOOD = {"maxmemory": "0", "maxmemory-policy": "noeviction", "appendonly": "yes", "notify-keyspace-events": "Klszhtg"}
BROKER = BrokerFacts("redis://h/0", named=True, version="7.2.4", config=GOOD, skew=0.1, versions=frozenset({"2.0"}))
CLUSTER = ClusterFacts("kubeconfig", named=True, ours=False, version="v1.36.0", skew=-0.2)
LIMITS = {
    **{"user namespaces": 1, "inotify instances": 128, "inotify watches": 9000},
    **{"/proc": 1, "cgroups v2": 1, "open files": 1024},
}
LACKING = MissingRight("create", "batch", "jobs", "shop", "penstock-worker")
FACTS = Facts(
    *("2.0", "2.0", (3, 12), "/h"), running="7", ports={9000: True}, limits=LIMITS, broker=BROKER, cluster=CLUSTER
)


def broker(**changed: Any) -> dict[str, Any]:
    return {"broker": replace(BROKER, **changed)}


def config(**changed: str) -> dict[str, Any]:
    return broker(config={**GOOD, **{name.replace("_", "-"): value for name, value in changed.items()}})


def cluster(**changed: Any) -> dict[str, Any]:
    return {"cluster": replace(CLUSTER, **changed)}


def limits(**changed: Any) -> dict[str, Any]:
    return {"limits": {**LIMITS, **{name.replace("_", " "): value for name, value in changed.items()}}}


AWAY = {"named": False, "problem": "stopped"}


def test_nothing_is_wrong_where_everything_is_right_and_nothing_is_judged_that_is_not_there() -> None:
    assert {each.level for each in examine(FACTS)} == {"ok"}
    bare = replace(FACTS, running=None, ports={}, limits={"/proc": 1}, broker=None, cluster=None)
    assert {each.check for each in examine(bare) if each.level == "ok"} == {"versions", "settings", "home", "processes"}
    assert {each.level for each in examine(bare)} == {"ok", "skipped"}


@cases(
    ("an old Python", "versions", {"python": (3, 9)}, "wrong", "Python 3.9 is too old"),
    ("a missing package", "versions", {"unmet": ("redis is missing",)}, "wrong", "redis is missing"),
    ("two versions", "versions", {"installed": "1.9"}, "warning", "the installed package 1.9"),
    ("a bad setting", "settings", {"settings_problem": "--lease: must be a number"}, "wrong", "--lease"),
    ("a misspelt variable", "settings", {"misspelt": ("PENSTOCK_POD is not",)}, "warning", "PENSTOCK_POD"),
    ("a home of others", "home", {"home_problem": "/h: others may change it"}, "wrong", "others may"),
    ("a taken port", "ports", {"ports": {9000: False}, "running": None}, "wrong", "another process: 9000"),
    ("our port", "ports", {"ports": {9000: False}}, "ok", "running `penstock up`: 9000"),
    (
        "a port of this container's process",
        *("ports", {"ports": {9000: False}, "running": None, "process": "0.0.0.0:8081"}),
        *("ok", "process of Penstock that answers at 0.0.0.0:8081: 9000"),
    ),
    ("a port of the last run", "ports", {"kept": {7: False}, "running": None}, "warning", "another process: 7"),
    ("a silent broker", "broker", broker(problem="does not answer: refused"), "wrong", "refused"),
    ("our stopped broker", "broker", broker(**AWAY) | {"running": None}, "skipped", "stopped"),
    ("our broker is gone", "broker", broker(**AWAY), "wrong", "stopped"),
    ("an old broker", "broker", broker(version="5.0.3"), "wrong", "5.0.3"),
    (
        "a user that lacks commands",
        *("broker permissions", broker(user="worker", lacking=("zadd", "script|load", "keys"))),
        *("wrong", "user worker may not run zadd, run script|load, use Penstock's keys"),
    ),
    (
        "a service that forbids some",
        *("broker permissions", broker(degraded={"info": "there are no metrics"})),
        *("warning", "without info there are no metrics"),
    ),
    (
        "a broker that forgets",
        *("broker maxmemory-policy", config(maxmemory="9", maxmemory_policy="allkeys-lru")),
        *("wrong", "allkeys-lru"),
    ),
    (
        "one that would forget",
        *("broker maxmemory-policy", config(maxmemory_policy="allkeys-lru")),
        *("warning", "while maxmemory is 0"),
    ),
    ("no appendonly", "broker appendonly", config(appendonly="no"), "warning", "are lost"),
    ("no notifications", "broker notify-keyspace-events", config(notify_keyspace_events=""), "warning", "at once"),
    ("some notifications", "broker notify-keyspace-events", config(notify_keyspace_events="Kl"), "ok", "every kind"),
    ("a broker that shows nothing", "broker appendonly", broker(config={}), "skipped", ""),
    ("another version", "broker clients", broker(versions=frozenset({"1.9", "2.0"})), "wrong", "Penstock 1.9"),
    ("a silent cluster", "cluster", cluster(problem="does not answer: refused"), "wrong", "refused"),
    ("one that nobody named", "cluster", cluster(problem="refused", named=False), "warning", "refused"),
    ("our stopped cluster", *("cluster", cluster(ours=True, **AWAY) | {"running": None}), *("skipped", "stopped")),
    ("our cluster is gone", "cluster", cluster(ours=True, **AWAY), "wrong", "stopped"),
    (
        "a cluster without CronJobs",
        *("cluster", cluster(version="v1.20.15", lacks_cron_jobs=True)),
        *("wrong", "v1.20.15 serves no CronJobs of batch/v1"),
    ),
    ("lacking rights", "cluster rights", cluster(denied=(LACKING,)), "wrong", "create jobs.batch in namespace shop"),
    ("lacking kinds", "cluster rights", cluster(missing=("queues.x",)), "wrong", "lacks queues.x"),
    ("a broker's clock", "clocks", broker(skew=-90.0), "wrong", "the broker's is 90 s behind"),
    ("a cluster's clock", "clocks", cluster(skew=7.0), "wrong", "the API server's is 7 s ahead"),
    ("no namespaces", "user namespaces", limits(user_namespaces=0), "warning", "off"),
    ("no proc", "processes", {"limits": {}}, "warning", "not mounted"),
    ("another system", "processes", {"system": "Darwin"}, "warning", "Darwin"),
    ("few watches", "inotify", limits(inotify_watches=10), "warning", "10 watches"),
    ("few files", "open files", limits(open_files=256), "wrong", "256"),
)
def test_what_is_wrong_is_said_with_what_to_do(check: str, changed: dict[str, Any], level: str, text: str) -> None:
    (found,) = (each for each in examine(replace(FACTS, **changed)) if each.check == check)
    assert (found.level, text in found.text) == (level, True), found
    assert found.advice or level in ("ok", "skipped") or changed.get("system")


@cases(
    ("between the two", 101.0, 0.0, 0.0),
    ("cut to the second", 99.2, 1.0, 0.0),
    ("behind", 90.0, 0.0, -10.0),
    ("ahead", 112.0, 0.0, 8.0),
)
def test_a_slow_answer_explains_a_difference_of_clocks(told: float, unit: float, ahead: float) -> None:
    assert asking.skew(told, 100.0, 104.0, unit=unit) == pytest.approx(ahead)


@pytest.fixture(autouse=True)
def _any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of a machine on which Penstock runs well, and an installation that is complete."""
    monkeypatch.setattr(asking, "_limits", lambda: LIMITS)
    monkeypatch.setattr(asking, "_unmet", lambda: ())


def doctor(penstock: Type, *words: str, code: int) -> dict[str, dict[str, str]]:
    printed = penstock("doctor", "-o", "json", *words)
    assert (printed.code, printed.err) == (code, "")
    found = {each["check"]: each for each in json.loads(printed.out)}
    assert list(found) == list(CHECKS)
    return found


def test_before_the_first_start_nothing_is_wrong(tmp_path: Path, penstock: Type) -> None:
    home = tmp_path / "home"
    found = doctor(penstock, "--home", str(home), code=0)
    assert {found[name]["level"] for name in ("broker", "cluster", "clocks")} == {"skipped"}
    assert found["home"]["text"] == f"{home}: nothing runs in it"
    assert not home.exists()


def test_a_home_that_is_a_file_is_found(tmp_path: Path, penstock: Type) -> None:
    home = tmp_path / "home"
    home.write_text("")
    found = doctor(penstock, "--home", str(home), code=1)["home"]
    assert (found["level"], found["text"]) == ("wrong", f"{home}: is no folder")


def test_an_address_for_the_gateway_that_is_none_or_taken_is_found(tmp_path: Path, penstock: Type) -> None:
    home = ("--home", str(tmp_path / "home"))
    for address in ("x", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"):
        found = doctor(penstock, *home, "--gateway", address, code=1)["settings"]
        assert (found["level"], found["text"]) == ("wrong", f"--gateway: {address} is no HOST:PORT")
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = doctor(penstock, *home, "--gateway", f"127.0.0.1:{port}", code=1)["ports"]
        assert (found["level"], found["text"]) == ("wrong", f"taken by another process: {port}")
    for address in ("off", "127.0.0.1:0", "[::1]:0"):
        assert doctor(penstock, *home, "--gateway", address, code=0)["ports"]["level"] == "skipped"


def test_a_run_of_the_home_and_files_that_others_may_read_are_found(
    tmp_path: Path, penstock: Type, redis_server: str
) -> None:
    home = Home(tmp_path / "home")
    with owned(home):
        for path in (home.url, home.kubeconfig):
            path.touch(0o600)
        home.url.write_text("redis://default:x@127.0.0.1:7001/0\n")
        home.kubeconfig.write_text('{"clusters": [{"cluster": {"server": "https://127.0.0.1:1"}}]}')
        assert asking._kept_ports(home) == [1, 7001]
        found = doctor(penstock, "--home", str(home.root), "--broker", redis_server, code=1)
        assert "`penstock up` runs in it (pid " in found["home"]["text"]
        assert (found["broker"]["level"], found["cluster"]["level"]) == ("ok", "wrong")
        home.url.chmod(0o644)
        found = doctor(penstock, "--home", str(home.root), code=1)["home"]
    assert "others may read or change it" in found["text"]


@cases(
    ("a process of Penstock", {"status": "ok", "failed": {}, "passed": ["event loop"]}, "ok"),
    ("one that stands still", {"status": "failed", "failed": {"event loop": "stands still"}, "passed": []}, "ok"),
    ("another program", {"status": "ok"}, "wrong"),
)
def test_a_containers_own_process_has_the_ports_of_its_metrics(
    answer: dict[str, Any], level: str, tmp_path: Path, penstock: Type
) -> None:
    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/healthz"
            self.send_response(503 if answer.get("failed") else 200)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Health) as health, socket.create_server(("127.0.0.1", 0)) as metrics:
        serving = Thread(target=health.serve_forever)
        serving.start()
        ports = ("--health", f"0.0.0.0:{health.server_port}", "--metrics-port", str(metrics.getsockname()[1]))
        try:
            words = (*ports, "--home", str(tmp_path / "home"))
            assert doctor(penstock, *words, code=int(level == "wrong"))["ports"]["level"] == level
        finally:
            health.shutdown()
            serving.join()


def test_a_broker_and_a_kubeconfig_that_are_named_and_away_are_wrong(tmp_path: Path, penstock: Type) -> None:
    # Port 0 can never be connected to.
    words = ("--broker", "redis://:secret@127.0.0.1:0/0", "--kubeconfig", str(tmp_path / "no"), "--lease", "5")
    found = doctor(penstock, *words, "--home", str(tmp_path / "home"), code=1)
    assert [found[name]["level"] for name in ("broker", "cluster", "settings")] == ["wrong", "wrong", "ok"]
    assert "secret" not in json.dumps(found)


@for_each("flag", "variable")
def test_a_setting_that_cannot_be_read_is_one_finding(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock: Type
) -> None:
    named = ["--broker", "redis://127.0.0.1:0/0", "--kubeconfig", str(tmp_path / "no")]
    if way == "variable":
        monkeypatch.setenv("PENSTOCK_LEASE", "soon")
    found = doctor(penstock, *named, *(["--lease", "soon"] if way == "flag" else ()), code=1)
    where = {"flag": "--lease", "variable": "PENSTOCK_LEASE"}[way]
    assert found["settings"]["text"] == f"{where}: must be a number (got 'soon')"
    assert [found[name]["level"] for name in ("broker", "cluster")] == ["skipped", "skipped"]


def test_the_home_that_was_named_is_judged_beside_a_setting_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, penstock: Type
) -> None:
    monkeypatch.setenv("PENSTOCK_LEASE", "soon")
    for name, words in {"variable": (), "flag": ("--home", str(tmp_path / "flag"))}.items():
        (tmp_path / name).write_text("")
        monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "variable"))
        assert doctor(penstock, *words, code=1)["home"]["text"] == f"{tmp_path / name}: is no folder"


class LenientCluster(FakeCluster):
    """An API server that lets its user do everything."""

    async def request(self, method: str, path: str, **more: Any) -> Any:
        if path == "/version":
            return {"gitVersion": "v1.20.15"}
        if method == "POST":
            status = {"allowed": True, "userInfo": {"username": "me"}}
            return {"metadata": {"creationTimestamp": times.render(datetime.now(UTC))}, "status": status}
        return await super().request(method, path, **more)

    async def __aenter__(self) -> "LenientCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@cases(("asked for", True, [JOB], True), ("served", True, [JOB, CRON_JOB], False), ("left alone", False, [JOB], False))
async def test_a_cluster_without_cron_jobs_of_our_version_is_found_where_they_are_asked_for(
    cronjobs: bool, kinds: list[Kind], lacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = connected(LenientCluster(), monkeypatch)
    fake.kinds = [kind for kind in fake.kinds if kind.group != "batch"] + kinds
    path = tmp_path / "kubeconfig"
    path.write_text("current-context: a\ncontexts:\n- name: a\n  context: {cluster: c}\n")
    settings = Settings(cronjobs=cronjobs, kubeconfig=path)
    found = await asking._cluster(settings, Home(tmp_path / "home"), None)
    assert found is not None
    assert (found.problem, found.version, found.lacks_cron_jobs) == ("", "v1.20.15", lacks)


async def test_a_broker_is_asked_for_its_settings_clock_and_clients(redis_server: str) -> None:
    async with Redis.from_url(redis_server, client_name="penstock/0.0.9") as other:
        await other.ping()
        found = await asking._ask_broker(redis_server, "here", named=True)
    assert found.problem == ""
    assert found.versions >= {"0.0.9"}
    assert found.config.keys() == GOOD.keys()
    assert found.skew == 0.0
    assert (found.user, found.lacking, found.degraded) == ("default", (), {})


async def test_a_broker_that_shows_no_configuration_is_judged_by_its_memory(redis_server: str) -> None:
    async with Redis.from_url(redis_server, client_name="tests") as admin:
        await admin.execute_command(
            "ACL", "SETUSER", "limited", "reset", "on", ">pw", *permissions.rules(), "-config|get"
        )
        try:
            url = redis_server.replace("redis://", "redis://limited:pw@")
            found = await asking._ask_broker(url, "here", named=True)
        finally:
            await admin.execute_command("ACL", "DELUSER", "limited")
    assert found.config == {"maxmemory": "0", "maxmemory-policy": "noeviction"}
    assert (found.user, found.lacking, set(found.degraded)) == ("limited", (), {"config|get"})


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        assert not asking.is_free(server.getsockname()[1])
