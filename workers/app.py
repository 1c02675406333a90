"""The Celery app: Celery delivers notifications, Redis structures of our own remember the work.

A message has no content, and losing one or sending one too many loses no work. That is why results, events, retries,
countdowns, gossip, mingle and remote control are off: none of them helps such a message, and each costs something.
"""

import importlib
import socket
from types import ModuleType
from typing import Any

from celery import Celery
from celery.loaders.app import AppLoader
from pydantic import ValidationError

from penstock import _wording
from scheduler.broker import celery_transport
from scheduler.broker.address import BrokerAddress
from workers.lanes import LANES, celery_prefix
from workers.settings import Settings

#: Socket options by which the kernel finds a half-open connection within some eleven seconds, where it has them.
KEEPALIVE: dict[int, int] = {
    getattr(socket, name): value
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
}


def configuration(settings: Settings) -> dict[str, Any]:
    """Returns Celery's configuration for these settings."""
    address = settings.broker_address
    return {
        **_broker(address, settings.prefix),
        "task_acks_late": True,
        "task_reject_on_worker_lost": False,
        "task_ignore_result": True,
        "result_backend": None,
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        # Tasks run on one event loop per process; a forked child would wait for a loop that only its parent has.
        "worker_pool": "threads",
        "worker_concurrency": settings.slots,
        "worker_disable_rate_limits": True,
        # Anyone who can PUBLISH could otherwise stop the fleet.
        "worker_enable_remote_control": False,
        "worker_send_task_events": False,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "task_routes": {task: {"queue": queue} for task, queue in LANES.values()},
        "task_default_queue": "penstock.default",
        "imports": ("workers.tasks", "scalers.tasks"),
        "beat_scheduler": "scheduler.beat:Scheduler",
        "penstock_broker": address,
        "penstock_prefix": settings.prefix,
        "penstock_lanes": LANES,
        "penstock_lease": settings.lease,
        "penstock_backoff": (settings.backoff_base, settings.backoff_cap),
        "penstock_slots": settings.slots,
    }


def _broker(address: BrokerAddress, prefix: str) -> dict[str, Any]:
    options = celery_transport.celery_options(address)
    return {
        **options,
        "broker_transport_options": {
            **options["broker_transport_options"],
            # With its hash tag: a cluster keeps all of it on one node.
            "global_keyprefix": celery_prefix(prefix),
            # Nothing keeps a message until it is acknowledged, which takes two transactions: the sweep replaces one
            # that a crash loses.
            "ack_emulation": False,
            # Without them a publish to a half-open connection waits for ever.
            "socket_timeout": 5,
            "socket_connect_timeout": 3,
            "socket_keepalive": True,
            # The one that waits for messages has no deadline: the kernel finds out that it is half open.
            "socket_keepalive_options": KEEPALIVE,
            "health_check_interval": 10,
            "max_connections": 64,
            "client_name": "penstock",
        },
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        "broker_pool_limit": 4,
        "task_publish_retry_policy": {
            "max_retries": 2,
            "interval_start": 0.1,
            "interval_step": 0.2,
            "interval_max": 0.5,
        },
    }


def from_environment() -> dict[str, Any]:
    """Returns the configuration from the ``PENSTOCK_*`` variables. Raises SystemExit naming those that are wrong."""
    try:
        return configuration(Settings())
    except ValidationError as error:
        # Without the values: one of them may be a URL with a password.
        problems = (f"PENSTOCK_{each.path[0]}".upper() + f": {each.message}" for each in _wording.findings(error))
        raise SystemExit(f"penstock: {'; '.join(problems)}") from error


class _TaskLoader(AppLoader):  # type: ignore[misc]
    """Imports tasks from the path of this process alone; Celery would try the current folder first."""

    def import_from_cwd(self, module: str, imp: Any = None, package: str | None = None) -> ModuleType:  # noqa: ARG002
        return importlib.import_module(module, package)


# Without fix-ups: Django's puts the current folder on the path when the environment names Django settings.
app = Celery("penstock", set_as_current=False, loader=_TaskLoader, fixups=())
# A function, so that importing this module reads no environment: Celery calls it when it first needs a setting.
app.add_defaults(from_environment)
# By name: the module is imported where a worker starts, and nowhere else.
app.steps["consumer"].add("workers.runtime.worker_lifecycle:CeleryTurns")
