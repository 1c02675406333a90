"""Imports that few processes need: deferred, working where they are used, and absent from `penstock standalone`."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.support.paths import ROOT
from tests.support.tables import for_each

HEAVY = ("celery", "kombu", "urllib3", "requests", "prompt_toolkit", "typer", "cryptography.hazmat", "click", "rich")


def run(program: str) -> str:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def test_the_single_process_imports_nothing_that_it_does_not_use() -> None:
    program = "import sys, deploy.processes.standalone, workers.controllers.registry; print(*sys.modules)"
    loaded = run(program).split()
    assert "workers.reconcile.reconciler" in loaded
    assert [name for name in HEAVY if name in loaded] == []


#: What a library brings with it, and no process of ours uses.
NOWHERE = (
    *("opentelemetry", "prompt_toolkit", "click_repl", "pygments", "rich", "textual"),
    *("requests", "oauthlib", "websocket", "kubernetes.dynamic.client", "celery.bin.celery"),
)
CELERY = ("celery", "kombu", "billiard", "amqp")
SERVERS = ("uvicorn.server", "starlette")
#: By process: a module that it has, and those that it has no use for.
PROCESSES: Mapping[str, tuple[str, Sequence[str]]] = {
    "apiserver": (
        "deploy.local.apiserver.app",
        (*CELERY, "starlette", "aiohttp", "urllib3", "scalers.polling"),
    ),
    "kubelet": ("deploy.local.kubelet.kubelet", (*CELERY, *SERVERS, "scalers", "kubernetes", "cryptography.x509")),
    "watch": (
        "workers.cache.reflector",
        (*CELERY, *SERVERS, "scalers", "kubernetes", "cryptography.hazmat.primitives"),
    ),
    "gateway": ("scalers.gateway.asgi_app", (*CELERY, "urllib3", "kubernetes", "deploy.local.apiserver.app")),
    "celery": ("celery.bin.worker", (*SERVERS, "celery.beat", "urllib3", "kubernetes", "celery.bin.amqp")),
    "beat": ("scheduler.beat", (*SERVERS, "aiohttp", "kubernetes", "workers.cache", "celery.worker", "celery.bin")),
}


@for_each(*PROCESSES)
def test_a_process_imports_nothing_that_it_does_not_use(name: str) -> None:
    needed, unwanted = PROCESSES[name]
    program = f"""
import importlib, sys
from penstock import __main__, _deferred_imports
_deferred_imports.spare(__main__.UNUSED)
from deploy.cli import forked_parts
for module in forked_parts.MODULES[{name!r}]:
    importlib.import_module(module)
print(*sys.modules)
"""
    loaded = set(run(program).split())
    assert needed in loaded
    # A deferred module is known, and has not executed: none of what it imports is there.
    assert sorted({*NOWHERE, *unwanted} & loaded) == []


@for_each(
    ("workers.reconcile.reconcile_worker", ("workers.controllers.volcano", "workers.admission", "scalers", "aiohttp")),
    ("scalers.polling.poll_worker", ("workers.controllers", "workers.reconcile", "aiohttp")),
    ("deploy.processes.gateway", ("workers.controllers", "aiohttp")),
    ("workers.tasks, scalers.tasks", ("workers.controllers", "workers.reconcile", "scalers.polling")),
)
def test_a_process_alone_has_nothing_of_other_lanes_and_of_what_is_seldom_used(
    modules: str, unwanted: Sequence[str]
) -> None:
    loaded = set(run(f"import sys, {modules}; print(*sys.modules)").split())
    assert set(modules.split(", ")) <= loaded
    assert sorted(set(unwanted) & loaded) == []


def test_a_hidden_package_is_there_outside_its_block() -> None:
    program = """
from penstock._deferred_imports import hidden
with hidden("wsgiref"):
    try:
        import wsgiref.util
    except ModuleNotFoundError as error:
        print(error.name)
import wsgiref.util
print(wsgiref.util.__name__)
"""
    assert run(program).split() == ["wsgiref", "wsgiref.util"]


def test_a_library_that_is_spared_its_extras_is_whole() -> None:
    program = """
import sys
from penstock import _deferred_imports
_deferred_imports.spare({"redis": ("opentelemetry",)})
import redis.asyncio
print("opentelemetry" in sys.modules, redis.asyncio.Redis.__name__, bool(redis.__loader__.get_source("redis")))
import opentelemetry.trace
print(opentelemetry.trace.__name__)
"""
    assert run(program).split() == ["False", "Redis", "True", "opentelemetry.trace"]


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
