"""Log lines: outages once and as warnings, faults with their tracebacks."""

import logging
import sys
from types import ModuleType
from unittest.mock import Mock

import orjson
import pytest
import redis.exceptions as redis
from kombu.exceptions import OperationalError

from tests.support.tables import cases, for_each
from workers.app import app
from workers.json_logs import JsonLines, OrdinaryOutages, Outage

log = logging.getLogger("workers.test")


@cases(
    ("nothing failed", [], 0),
    ("its beginning", [0], 1),
    ("not every time", [0, 1, 2, 59], 1),
    ("now and then while it lasts", [0, 30, 60, 90, 120], 3),
)
def test_an_outage_is_logged_when_it_begins_now_and_then_and_when_it_is_over(moments, reports, caplog):
    caplog.set_level("INFO", "workers")
    clock = Mock()
    outage = Outage(log, clock=clock)
    for moment in moments:
        clock.return_value = moment
        outage.lasts("the server is away", server="s")
    outage.over("the server is back")
    outage.over("the server is back")
    messages = [record.message for record in caplog.records]
    assert messages == ["the server is away"] * reports + ["the server is back"] * bool(moments)


def test_a_new_outage_is_logged_at_once(caplog):
    caplog.set_level("INFO", "workers")
    outage = Outage(log, clock=lambda: 0.0)
    outage.lasts("away")
    outage.over("back")
    outage.lasts("away")
    assert [record.message for record in caplog.records] == ["away", "back", "away"]


def test_a_worker_started_by_celery_alone_has_threads_that_share_the_loop():
    assert app.conf.worker_pool == "threads"


@pytest.mark.parametrize(
    ("error", "ordinary"),
    [
        (redis.ConnectionError("Error 111 connecting to 127.0.0.1:6379"), True),
        (redis.TimeoutError("Timeout reading"), True),
        (OperationalError("no route to the broker"), True),
        (ConnectionRefusedError(111, "Connection refused"), True),
        (redis.ResponseError("WRONGTYPE"), False),
        (KeyError("spec"), False),
    ],
    ids=lambda value: type(value).__name__,
)
@for_each("traceback", "argument")
def test_an_outage_is_a_warning_of_one_line_and_a_fault_an_error(how, error, ordinary):
    try:
        raise error
    except Exception:
        raised = sys.exc_info()
    text, args, info = ("consumer failed", (), raised) if how == "traceback" else ("cannot connect: %s", (error,), None)
    record = logging.LogRecord("celery.worker", logging.ERROR, __file__, 1, text, args, info)
    assert OrdinaryOutages().filter(record)
    line = orjson.loads(JsonLines().format(record))
    assert line["level"] == ("WARNING" if ordinary else "ERROR")
    assert ("Traceback" in line.get("error", "")) is (not ordinary and how == "traceback")
    assert not ordinary or str(error) in line["error"]


@for_each("kombu.exceptions", "redis.exceptions")
def test_a_line_is_written_while_another_thread_imports_a_library(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    record = logging.LogRecord("workers", logging.INFO, __file__, 1, "reconciled", (), None)
    assert OrdinaryOutages().filter(record)
    assert record.levelno == logging.INFO
