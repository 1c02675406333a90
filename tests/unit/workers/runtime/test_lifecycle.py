"""A Celery worker's life: what opens with it, and what keeps it from beginning."""

import sys
from functools import partial
from importlib import import_module
from unittest.mock import Mock

import pytest
from celery import signals
from celery.exceptions import WorkerShutdown
from celery.utils.dispatch import Signal
from pydantic import ValidationError

from tests.support.tables import for_each
from workers.app import from_environment
from workers.errors import UserError
from workers.runtime import garbage_collection, worker_lifecycle
from workers.runtime.health import Health
from workers.settings import Settings


@pytest.fixture(autouse=True)
def frozen(monkeypatch):
    """How often what is there was set aside; not in this process, where tests come and go."""
    freeze = Mock()
    monkeypatch.setattr(garbage_collection, "begin", freeze)
    return freeze


class Process:
    """Counts how often it was opened and closed."""

    def __init__(self, error=None):
        self.error = error
        self.started = self.stopped = 0

    def start(self):
        self.started += 1
        if self.error:
            raise self.error

    def stop(self):
        self.stopped += 1


@pytest.fixture
def celery(monkeypatch):
    """A Celery whose worker for these queues becomes ready, and stops."""
    begin, ready, shutdown = Signal("init"), Signal("ready"), Signal("shutdown")
    monkeypatch.setattr(signals, "worker_init", begin)
    monkeypatch.setattr(signals, "worker_ready", ready)
    monkeypatch.setattr(signals, "worker_shutdown", shutdown)

    def worker(*queues):
        sender = Mock()
        sender.app.amqp.queues.consume_from = dict.fromkeys(queues)
        begin.send(sender)
        ready.send(sender)
        shutdown.send(None)

    return worker


def test_a_worker_opens_the_service_of_the_lane_it_listens_to_and_no_other(celery):
    reconcile, poll = Process(), Process()
    worker_lifecycle.serve("reconcile", reconcile, Health(), Mock())
    worker_lifecycle.serve("poll", poll, Health(), Mock())
    celery("penstock.poll")
    assert (reconcile.started, poll.started, poll.stopped) == (0, 1, 1)


def test_a_worker_imports_the_modules_of_the_lane_it_listens_to_and_no_others(celery, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for lane in ("reconcile", "poll"):
        (tmp_path / f"modules_of_{lane}.py").touch()
        worker_lifecycle.serve(lane, Process(), Health(), partial(import_module, f"modules_of_{lane}"))
    celery("penstock.poll")
    assert [lane for lane in ("reconcile", "poll") if f"modules_of_{lane}" in sys.modules] == ["poll"]


def test_a_worker_whose_modules_are_not_there_ends_instead_of_seeming_at_work(celery):
    worker_lifecycle.serve("reconcile", Process(), Health(), partial(import_module, "no_such_module"))
    with pytest.raises(SystemExit, match="penstock: No module named 'no_such_module'"):
        celery("penstock.reconcile")


def test_what_a_worker_begins_with_is_not_walked_over_again(celery, frozen):
    opened = []
    process = Process()
    frozen.side_effect = lambda young: opened.append((process.started, young))
    worker_lifecycle.serve("reconcile", process, Health(), Mock())
    celery("penstock.poll")
    assert opened == []
    celery("penstock.reconcile")
    assert opened == [(1, garbage_collection.YOUNG_OF_PLANS)]


def test_a_worker_that_polls_looks_for_closed_connections_earlier_and_not_within_a_claim(celery, frozen):
    worker_lifecycle.serve("poll", Process(), Health(), Mock())
    celery("penstock.poll")
    frozen.assert_called_once_with(garbage_collection.YOUNG_OF_POLLS)
    assert garbage_collection.YOUNG < garbage_collection.YOUNG_OF_POLLS < garbage_collection.YOUNG_OF_PLANS


def test_a_worker_whose_settings_name_nothing_that_works_ends_instead_of_seeming_at_work(celery, caplog):
    worker_lifecycle.serve("reconcile", Process(UserError("kubeconfig /nowhere: no such file")), Health(), Mock())
    with pytest.raises(WorkerShutdown) as ended:
        celery("penstock.reconcile")
    assert ended.value.code == 1
    assert [(record.message, record.error) for record in caplog.records] == [
        ("this worker cannot work", "kubeconfig /nowhere: no such file")
    ]


def test_a_wrong_variable_ends_celery_with_a_line_that_names_it_and_keeps_secrets(monkeypatch):
    monkeypatch.setenv("PENSTOCK_LEASE", "soon")
    monkeypatch.setenv("PENSTOCK_BROKER", "amqp://:secret@broker")
    with pytest.raises(SystemExit) as ended:
        from_environment()
    assert str(ended.value) == (
        "penstock: PENSTOCK_BROKER: must begin with redis://, rediss:// or sentinel:// and name a server, "
        "such as redis://redis.example:6379/0; PENSTOCK_LEASE: must be a number"
    )


@for_each("amqp://broker", "nonsense", "unix:///run/redis.sock", "")
def test_a_broker_that_celery_and_we_cannot_both_speak_to_is_refused_by_name(url, monkeypatch):
    monkeypatch.setenv("PENSTOCK_BROKER", url)
    with pytest.raises(ValidationError, match=r"(?s)broker.*must begin with redis://, rediss:// or sentinel://"):
        Settings()
