"""Imports that few processes need: deferred, working where they are used, and absent from `penstock standalone`."""

import subprocess
import sys

from tests.support.paths import ROOT
from tests.unit.tables import for_each

HEAVY = ("celery", "kombu", "urllib3", "requests", "prompt_toolkit", "typer", "cryptography.hazmat", "click", "rich")


def run(program: str) -> str:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_the_single_process_imports_nothing_that_it_does_not_use() -> None:
    program = "import sys, deploy.processes.standalone, workers.controllers.registry; print(*sys.modules)"
    loaded = run(program).split()
    assert "workers.reconcile.reconciler" in loaded
    assert [name for name in HEAVY if name in loaded] == []


@for_each(
    ("import workers.client.rest, kubernetes.client as c; print(c.V1Pod(kind='Pod').kind)", "Pod"),
    ("import workers.client.rest, kubernetes; print(kubernetes.watch.Watch.__name__)", "Watch"),
    ("from workers.events import expressions; import cel.cli; print(callable(cel.cli.app))", "True"),
)
def test_what_is_deferred_works_where_it_is_used(program: str, answer: str) -> None:
    assert run(program) == answer


def test_a_probe_imports_the_standard_library_alone() -> None:
    program = "import sys; before = set(sys.modules); import penstock._healthy; print(*(set(sys.modules) - before))"
    loaded = {name.partition(".")[0] for name in run(program).split()}
    assert loaded - {"penstock"} <= set(sys.stdlib_module_names)
    assert not loaded & {"asyncio", "ssl", "email", "http", "logging"}
