"""Deliveries as the page shows them."""

from deploy.page.answers.delivery_answers import shown
from scalers.deliveries.delivery import Delivery, DeliveryAttempt

EVENT = {"id": "1", "source": "/s", "type": "t"}


def test_a_running_delivery_names_its_job_and_one_that_waits_names_none() -> None:
    running = Delivery("1-0", EVENT, "running", 1_000_000, claim=("1-0", 1))
    job = shown(running, "orders", "uid-1")["job"]
    assert job == running.job("orders", "uid-1")
    assert job.startswith("orders-")
    assert shown(Delivery("1-0", EVENT, "waiting", 1_000_000), "orders", "uid-1")["job"] is None


def test_ended_attempts_keep_their_jobs() -> None:
    attempt = DeliveryAttempt("orders-1-0", 2_000_000, "failed", "exit code 1")
    found = shown(Delivery("1-0", EVENT, "retrying", 1_000_000, due=3_000_000, attempts=(attempt,)), "orders", "u")
    assert found["attempts"] == [
        {"job": "orders-1-0", "ended": "1970-01-01T00:00:02.000Z", "outcome": "failed", "reason": "exit code 1"}
    ]
    assert (found["job"], found["due"]) == (None, "1970-01-01T00:00:03.000Z")
