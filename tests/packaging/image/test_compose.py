"""deploy/compose.yaml: valid, spelt as the command and the settings are, and its processes run on the image's files."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis

from deploy.cli import options
from deploy.cli.main import command_of
from deploy.release import tools
from penstock import __version__
from tests.packaging.image import compose
from tests.packaging.image.compose import FILE, PROCESSES
from tests.packaging.image.container import Image
from tests.support.embedded import embedded_apiserver
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.tables import for_each
from tests.support.terminal import until
from workers.settings import Settings

pytestmark = pytest.mark.timeout(600)

PASSWORD = "se cret/@:"
#: Seconds after which `docker stop` would kill.
GRACE = 30.0


def test_the_file_follows_the_compose_specification() -> None:
    judge = tools.environment(ROOT).program("check-jsonschema")
    words = (judge, "--builtin-schema", "vendor.compose-spec", str(compose.PATH))
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_services_are_all_processes_beside_a_cluster() -> None:
    assert set(PROCESSES) == {"watch", "worker", "scaler", "beat", "gateway", "standalone"}
    assert {name for name, service in PROCESSES.items() if "profiles" in service} == {"standalone"}
    assert {service["image"] for service in PROCESSES.values()} == {f"penstock:{__version__}"}


@pytest.mark.parametrize("name", PROCESSES)
def test_a_command_line_is_one_that_the_command_knows(name: str) -> None:
    word, *rest = compose.command(PROCESSES[name])
    command_of(word).make_context(word, rest)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_health_check_is_one_that_the_command_knows(name: str) -> None:
    program, word, *rest = compose.health_check(PROCESSES[name])
    assert program == "penstock"
    command_of(word).make_context(word, rest)


def test_a_misspelt_flag_is_noticed() -> None:
    with pytest.raises(Exception, match="No such option"):
        command_of("worker").make_context("worker", ["--brokr", "x"])


@pytest.mark.parametrize("name", PROCESSES)
def test_the_variables_are_settings_with_valid_values(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = dict(PROCESSES[name]["environment"])
    assert options.misspelt(variables) == []
    (tmp_path / "redis_password").write_text(PASSWORD)
    for variable, value in variables.items():
        assert isinstance(value, str), f"{variable}: compose takes no other type for a variable's value"
        monkeypatch.setenv(variable, value.replace("/run/secrets", str(tmp_path)))
    assert options.load().own_namespace == "penstock"


@pytest.mark.parametrize("name", FILE["services"])
def test_no_secret_is_a_variable_and_every_secret_that_is_named_is_given(name: str) -> None:
    service = FILE["services"][name]
    for variable, value in service.get("environment", {}).items():
        assert urlsplit(value).password is None, variable
        assert not re.search(r"PASSWORD$|SECRET$|TOKEN$", variable)
    named = set(re.findall(r"/run/secrets/(\w+)", repr(service)))
    assert named == set(service["secrets"])
    assert named <= set(FILE["secrets"])
    assert all(set(each) == {"file"} for each in FILE["secrets"].values())


@pytest.mark.parametrize("name", FILE["services"])
def test_a_service_has_few_rights_and_limits(name: str) -> None:
    service = FILE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service["restart"] == "unless-stopped"
    assert re.fullmatch(r"\d+[MG]", service["deploy"]["resources"]["limits"]["memory"])
    assert service["pids_limit"] > 0
    assert service["healthcheck"]["test"]


@for_each("worker", "scaler")
def test_a_service_that_carries_out_plans_is_not_killed_before_their_deadline(name: str) -> None:
    grace = PROCESSES[name]["stop_grace_period"]
    assert float(grace.removesuffix("s")) > Settings().deadline


def test_redis_is_reached_by_the_processes_alone() -> None:
    service = FILE["services"]["redis"]
    assert "ports" not in service
    assert service["networks"] == ["broker"]
    assert FILE["networks"]["broker"]["internal"] is True
    published = {port for service in FILE["services"].values() for port in service.get("ports", ())}
    assert published == {"127.0.0.1:8080:8080"}


@dataclass(frozen=True)
class Deployed:
    """What the processes meet: Redis as the file starts it, and a cluster. files: secrets by their paths."""

    redis: subprocess.Popen[bytes]
    port: int
    files: Mapping[str, Path]

    def variables(self, name: str) -> dict[str, str]:
        """A service's environment, with addresses of this machine for those of the file's networks."""
        ports = {"PENSTOCK_GATEWAY": str(free_port()), "PENSTOCK_HEALTH": str(free_port())}
        service = {
            variable: f"127.0.0.1:{ports[variable]}" if variable in ports else value
            for variable, value in PROCESSES[name]["environment"].items()
        }
        broker = service["PENSTOCK_BROKER"].replace("redis:6379", f"127.0.0.1:{self.port}")
        return {**service, "PENSTOCK_BROKER": broker, "PENSTOCK_METRICS_PORT": "0", "PENSTOCK_READY_FILE": "/tmp/ready"}


@pytest.fixture(scope="module")
def deployed(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    if not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    folder = tmp_path_factory.mktemp("deployed")
    (folder / "redis_password").write_text(f"{PASSWORD}\n")
    (folder / "data").mkdir()
    port = free_port()
    replaced = {
        **{"/tmp/redis.conf": str(folder / "redis.conf"), "/run/secrets": str(folder), "/data": str(folder / "data")},
        "0.0.0.0": "127.0.0.1",
    }
    program, option, line = compose.command(FILE["services"]["redis"])
    for place, here in replaced.items():
        line = line.replace(place, here)
    with (
        embedded_apiserver(folder / "cluster") as cluster,
        (folder / "redis.log").open("wb") as log,
        subprocess.Popen((program, option, f"{line} --port {port}"), stdout=log, stderr=log) as server,
    ):
        try:
            with redis.Redis(port=port, password=PASSWORD) as client:
                until(lambda: _answers(client, server, folder), "Redis answers")
            shutil.copy(cluster.kubeconfig, folder / "readable")
            (folder / "namespace.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: penstock}}")
            for name in ("readable", "redis_password", "namespace.yaml"):
                (folder / name).chmod(0o644)
            files = {"kubeconfig": folder / "readable", "redis_password": folder / "redis_password"}
            one = Deployed(server, port, {f"/run/secrets/{name}": path for name, path in files.items()})
            done = image.run(
                *("apply", "-f", "/run/namespace.yaml", "-f", "/run/crds"),
                variables={"PENSTOCK_KUBECONFIG": "/run/secrets/kubeconfig"},
                files={
                    **one.files,
                    "/run/namespace.yaml": folder / "namespace.yaml",
                    "/run/crds": ROOT / "deploy" / "crds",
                },
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            yield one
        finally:
            server.terminate()
            server.wait(GRACE)


def _answers(client: redis.Redis, server: subprocess.Popen[bytes], folder: Path) -> bool:
    assert server.poll() is None, (folder / "redis.log").read_text()
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


def test_redis_keeps_every_write_and_asks_for_the_password(deployed: Deployed) -> None:
    with redis.Redis(port=deployed.port, password=PASSWORD, decode_responses=True) as client:
        config = client.config_get("maxmemory-policy", "appendonly", "maxmemory", "notify-keyspace-events")
    assert (config["maxmemory-policy"], config["appendonly"]) == ("noeviction", "yes")
    with redis.Redis(port=deployed.port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    # What the container's signals reach is the server, and no list of processes shows the password.
    command = Path(f"/proc/{deployed.redis.pid}/cmdline").read_text()
    assert command.startswith("redis-server")
    assert PASSWORD not in command
    [limit] = (FILE["services"]["redis"]["deploy"]["resources"]["limits"]["memory"],)
    assert int(config["maxmemory"]) * 2 <= int(limit.removesuffix("M")) * 2**20, "a fork for a rewrite has room"


@pytest.mark.parametrize("name", PROCESSES)
def test_a_service_becomes_ready_and_ends_when_it_is_asked_to(
    name: str, deployed: Deployed, image: Image, tmp_path: Path
) -> None:
    tmp, log = tmp_path / "tmp", tmp_path / "log"
    tmp.mkdir()
    words = compose.command(PROCESSES[name])
    with (
        log.open("w") as output,
        image.started(
            *words, output=output, variables=deployed.variables(name), files=deployed.files, tmp=tmp
        ) as running,
    ):

        def ready() -> bool:
            assert running.process.poll() is None, log.read_text()
            return (tmp / "ready").exists()

        until(ready, f"{name} is ready")
        assert running.stop(GRACE) == 0, log.read_text()
    assert "Traceback" not in log.read_text()
    assert {path.name for path in tmp.rglob("*")} == {"ready"}, "nothing else is written"


@for_each("beat")
def test_a_running_service_is_healthy_by_the_images_check(
    name: str, deployed: Deployed, image: Image, tmp_path: Path
) -> None:
    program, *check = compose.health_check(PROCESSES[name])
    assert (program,) == image.entrypoint
    options_ = {"variables": deployed.variables(name), "files": deployed.files}
    assert image.run(*check, **options_).returncode == 1
    log = tmp_path / "log"
    with log.open("w") as output, image.started(*PROCESSES[name]["command"], output=output, **options_) as running:
        until(lambda: image.run(*check, **options_).returncode == 0, f"{name} is healthy: {log}")
        assert running.stop(GRACE) == 0, log.read_text()
