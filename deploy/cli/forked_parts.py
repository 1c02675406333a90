"""The modules that the fork server imports for the parts of `penstock up`, and the command that becomes a part.

The commands and the demos start a fork server with it; `deploy.local.supervisor` knows no command.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager

from deploy.local.supervisor import fork_server

#: The module whose `main` carries out the command line of a part.
COMMAND = "deploy.cli.main"
_EMBEDDED = (COMMAND, "deploy.cli.processes.embedded")
_SERVICE = (COMMAND, "deploy.cli.processes.services")
#: Imported with the first stream otherwise, by each part for itself.
_STREAMS = "aiohttp"
#: The registry imports Volcano's where they are enabled, as on an embedded cluster.
_CONTROLLERS = ("workers.controllers.registry", "workers.controllers.volcano.volcano_controllers")
#: The parts of an application of Celery, which it imports by names when they are first used.
_CELERY_APP = ("celery.app.amqp", "celery.app.control", "celery.app.events", "celery.app.log", "celery.backends.base")
#: What each part imports, by the first word of its command.
MODULES: Mapping[str, tuple[str, ...]] = {
    "apiserver": (*_EMBEDDED, "deploy.local.apiserver.server"),
    "kubelet": (*_EMBEDDED, "deploy.local.kubelet.kubelet", _STREAMS),
    "watch": (*_SERVICE, "deploy.processes.watch", *_CONTROLLERS, _STREAMS),
    "standalone": (*_SERVICE, "deploy.processes.standalone", *_CONTROLLERS, _STREAMS),
    "gateway": (*_SERVICE, "deploy.processes.gateway", _STREAMS),
    "celery": (
        *_SERVICE,
        "deploy.processes.celery_process",
        "deploy.processes.worker_command",
        "celery.apps.worker",
        # Celery imports what its worker consists of by names, once that starts.
        "celery.concurrency.thread",
        "celery.worker.autoscale",
        "celery.worker.components",
        "celery.worker.consumer",
        "celery.worker.control",
        "celery.worker.loops",
        "celery.worker.pidbox",
        "celery.worker.strategy",
        *_CELERY_APP,
        "workers.tasks",
        "workers.reconcile.reconcile_worker",
        *_CONTROLLERS,
        "scalers.tasks",
        "scalers.polling.poll_worker",
        _STREAMS,
    ),
    "beat": (*_SERVICE, "deploy.processes.beat", "scheduler.beat", "celery.apps.beat", *_CELERY_APP, "workers.app"),
}


#: What the process that has them started imports, too: it shares this with them.
_SUPERVISOR = ("deploy.local.up", "workers.wiring")


def forking() -> AbstractContextManager[fork_server.ForkServer | None]:
    """Starts a fork server for our parts, see `fork_server.forking`."""
    fork_server.load(_SUPERVISOR)
    return fork_server.forking(MODULES, COMMAND)
