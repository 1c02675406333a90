"""What is in the wheel, and that it works wherever it is installed and typed, whatever else is called the same."""

import contextlib
import re
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import redis
import yaml

from penstock import __version__
from tests.packaging.conftest import FOLDERS, Installed, build
from tests.support.paths import ROOT
from tests.support.tables import for_each
from tests.support.terminal import until

pytestmark = pytest.mark.timeout(300)

#: Files of the page for browsers.
PAGE = (".html", ".css", ".js", ".svg", ".png")


def test_the_wheel_has_one_package_at_its_top(files: set[str]) -> None:
    assert {name.split("/")[0] for name in files} == {"penstock", f"penstock-{__version__}.dist-info"}


def test_every_file_of_the_checkouts_packages_is_in_the_wheel(files: set[str]) -> None:
    wanted = {
        str(path.relative_to(ROOT) if folder == "penstock" else Path("penstock") / path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".lua", ".yaml", ".acl", ".json", *PAGE) or path.name == "py.typed"
    }
    assert len(wanted) > 600
    assert {name for name in files if name.startswith("penstock/")} == wanted


def test_the_inside_can_be_imported_by_our_processes_alone(installed: Installed) -> None:
    program = "import penstock.app, workers.tasks; print(workers.tasks.__file__)"
    inside = f"{installed.site}/penstock/workers/tasks.py\n"
    assert installed.type(str(installed.python), "-P", "-c", program) == inside
    alone = (
        "import penstock.scaler, penstock.errors; import sys; print(sorted({'workers', 'scalers'} & {*sys.modules}))"
    )
    assert installed.type(str(installed.python), "-P", "-c", alone) == "[]\n"


@pytest.mark.parametrize("start", [("penstock",), ("python", "-m", "penstock"), ("python", "-I", "-m", "penstock")])
def test_the_command_runs_in_a_folder_of_namesakes(start: tuple[str, ...], installed: Installed) -> None:
    assert "Lets work through" in installed.type(*start, "--help")
    assert __version__ in installed.type(*start, "version")
    assert "PENSTOCK_BROKER" in installed.type(*start, "settings")


def test_celerys_command_runs_our_beat(installed: Installed, redis_url: str, tmp_path: Path) -> None:
    variables = {"PENSTOCK_BROKER": redis_url, "DJANGO_SETTINGS_MODULE": "theirs"}
    command = ("celery", "-A", "penstock.app", "beat")
    with started(installed, command, variables, tmp_path / "log", "scheduler -> scheduler.beat.Scheduler"):
        pass


@contextlib.contextmanager
def started(
    installed: Installed, words: Sequence[str], variables: Mapping[str, str], log: Path, ready: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the folder of namesakes that has printed that it is ready; ended with the block."""
    with (
        log.open("w") as output,
        subprocess.Popen(
            words,
            executable=installed.bin / words[0],
            cwd=installed.folder,
            env=installed.environment(PYTHONUNBUFFERED="1", **variables),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:

            def is_ready() -> bool:
                assert process.poll() is None, log.read_text()
                return ready in log.read_text()

            until(is_ready, f"{words}: {ready}")
            yield process
        finally:
            process.terminate()
            process.wait(90)


@pytest.fixture(scope="module")
def up(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """`penstock up` typed in the folder of namesakes; the variables for those who talk to it."""
    home = tmp_path_factory.mktemp("home")
    variables = {"PENSTOCK_HOME": str(home / "penstock"), "HOME": str(home)}
    strange = {"DJANGO_SETTINGS_MODULE": "theirs", "APP": "theirs", "CELERY_BROKER_URL": "redis://127.0.0.1:1/0"}
    words = ("penstock", "up", "--polling", "1")
    with started(installed, words, variables | strange, home / "up.log", "Ctrl-C stops everything"):
        yield variables


@for_each("reconcile", "poll")
def test_celerys_command_runs_a_worker_of_our_app(
    lane: str, installed: Installed, up: dict[str, str], tmp_path: Path
) -> None:
    home, ready = Path(up["PENSTOCK_HOME"]), tmp_path / "ready"
    variables = {
        "PENSTOCK_BROKER": (home / "broker.url").read_text().strip(),
        "PENSTOCK_KUBECONFIG": str(home / "kubeconfig"),
        "PENSTOCK_READY_FILE": str(ready),
        "DJANGO_SETTINGS_MODULE": "theirs",
    }
    command = (
        "celery",
        "-A",
        "penstock.app",
        "worker",
        "-Q",
        f"penstock.{lane}",
        "-I",
        "deploy.processes.worker_signals",
    )
    with started(installed, command, variables, tmp_path / "log", "[queues]"):
        until(ready.exists, "the worker takes messages")


def scaled_job(trigger: dict[str, object]) -> str:
    program = "import os, sys; print(sys.flags.safe_path, os.environ.get('PYTHONPATH'), 'PYTHONSAFEPATH' in os.environ)"
    container = {"name": "main", "image": "none", "command": ["python", "-c", program]}
    return yaml.safe_dump(
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledJob",
            "metadata": {"name": trigger["type"]},
            "spec": {
                "pollingInterval": 1,
                "maxReplicaCount": 2,
                "jobTargetRef": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
                "triggers": [trigger],
            },
        }
    )


def _completed(installed: Installed, variables: dict[str, str], name: str) -> list[str]:
    words = ("get", "jobs", "-l", f"scaledjob.keda.sh/name={name}", "-o", "yaml")
    jobs = yaml.safe_load(installed.type("penstock", *words, variables=variables))["items"]
    return [
        job["metadata"]["name"]
        for job in jobs
        if any(one["type"] == "Complete" for one in (job.get("status") or {}).get("conditions") or ())
    ]


def test_an_applied_scaledjob_ends_in_a_finished_job(
    up: dict[str, str], installed: Installed, redis_server: str
) -> None:
    address = redis_server.removeprefix("redis://").partition("/")[0]
    manifest = installed.folder / "work.yaml"
    manifest.write_text(scaled_job({"type": "redis", "metadata": {"address": address, "listName": "packaged"}}))
    with redis.Redis.from_url(redis_server) as queue:
        queue.rpush("packaged", "one")
        installed.type("penstock", "apply", "-f", str(manifest), variables=up)
        until(lambda: _completed(installed, up, "redis"), "a Job is complete")
        queue.delete("packaged")
    # A pod is somebody else's program: nothing of ours reaches its path.
    said = installed.type("penstock", "logs", "scaledjob/redis", variables=up)
    assert set(re.findall(r"(?:True|False) .*", said)) == {"False None False"}


EXTERNAL = {
    "pyproject.toml": """
        [build-system]
        requires = ["setuptools"]
        build-backend = "setuptools.build_meta"
        [project]
        name = "their-scaler"
        version = "1"
        [project.entry-points."penstock.scalers"]
        their-folder = "their_scaler:Folder"
        [tool.setuptools]
        py-modules = ["their_scaler"]
    """,
    "their_scaler.py": '''
        """A scaler of another project: it imports the public package alone."""

        from pathlib import Path

        from penstock.errors import SourceError
        from penstock.scaler import Scaler, parameter


        class Folder(Scaler):
            path: str = parameter()

            @property
            def metric(self) -> str:
                return "their-folder"

            @property
            def target(self) -> float:
                return 1

            async def measure(self) -> float:
                try:
                    return len(list(Path(self.path).iterdir()))
                except OSError as error:
                    raise SourceError(str(error)) from None
    ''',
}


@pytest.fixture(scope="module")
def _external(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Another project's scaler, installed before anything runs."""
    source = tmp_path_factory.mktemp("their")
    for name, text in EXTERNAL.items():
        (source / name).write_text(textwrap.dedent(text).lstrip())
    installed.install(build(source, tmp_path_factory.mktemp("their-wheel")))


@pytest.mark.usefixtures("_external")
def test_another_packages_scaler_measures(installed: Installed, up: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "waiting").mkdir()
    (tmp_path / "waiting" / "one").touch()
    manifest = installed.folder / "their.yaml"
    manifest.write_text(scaled_job({"type": "their-folder", "metadata": {"path": str(tmp_path / "waiting")}}))
    installed.type("penstock", "apply", "-f", str(manifest), variables=up)
    until(lambda: _completed(installed, up, "their-folder"), "a Job is complete")
    installed.type("penstock", "delete", "scaledjob", "their-folder", variables=up)


DEMOS = (("demo", "--files", "3"), ("demo-pool", "--tasks", "4", "--most", "1"), ("demo-events", "--events", "6"))


@pytest.mark.parametrize("words", DEMOS, ids=lambda words: words[0])
def test_the_demos_run(installed: Installed, words: tuple[str, ...]) -> None:
    said = installed.type("penstock", *words)
    assert "wrong:" not in said
