"""What is said in the log, and how often."""

import logging
from unittest.mock import Mock

import pytest

from workers.app import app
from workers.json_logs import Outage

log = logging.getLogger("workers.test")


@pytest.mark.parametrize(
    ("moments", "reports"),
    [
        pytest.param([], 0, id="nothing failed"),
        pytest.param([0], 1, id="its beginning"),
        pytest.param([0, 1, 2, 59], 1, id="not every time"),
        pytest.param([0, 30, 60, 90, 120], 3, id="now and then while it lasts"),
    ],
)
def test_an_outage_is_logged_when_it_begins_now_and_then_and_when_it_is_over(caplog, moments, reports):
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
