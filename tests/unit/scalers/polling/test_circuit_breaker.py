"""The circuit breaker: when a failing server is left alone, and how it is tried again."""

import pytest

from scalers.polling.circuit_breaker import BreakerPolicy, CircuitBreaker, CircuitBreakers
from tests.support.tables import cases

pytestmark = pytest.mark.virtual_time

SECOND = 1_000_000
POLICY = BreakerPolicy(threshold=3, base=1.0, cap=8.0, probe=2.0)


def opened(now: int = 0) -> CircuitBreakers:
    breakers = CircuitBreakers(POLICY)
    for _ in range(3):
        assert breakers.acquire("s", now) is None
        breakers.record_failure("s", now, "refused")
    return breakers


@cases(
    ("none", 0, 0.0),
    ("below the threshold", 2, 0.0),
    ("at the threshold", 3, 1.0),
    ("doubling", 5, 4.0),
    ("the cap", 6, 8.0),
    ("far beyond", 10_000, 8.0),
)
def test_the_wait_grows_with_the_failures(failures: int, wait: float) -> None:
    assert POLICY.wait(failures) == wait


def test_a_server_is_left_alone_from_the_threshold_on_until_it_answers() -> None:
    breakers = CircuitBreakers(POLICY)
    breakers.record_failure("s", 0, "refused")
    breakers.record_failure("s", 0, "refused")
    assert breakers.opened("s") is None
    breakers.record_failure("s", 0, "refused")
    assert breakers.opened("s") == CircuitBreaker(3, SECOND, "refused")
    assert breakers.opened("other") is None
    breakers.record_success("s")
    assert breakers.opened("s") is None


def test_a_server_that_fails_now_and_then_is_always_tried() -> None:
    breakers = CircuitBreakers(POLICY)
    for _ in range(5):
        breakers.record_failure("s", 0, "refused")
        breakers.record_failure("s", 0, "refused")
        assert breakers.acquire("s", 0) is None
        assert not breakers.record_success("s")


def test_it_opens_at_the_threshold_and_says_so_once() -> None:
    breakers = CircuitBreakers(POLICY)
    assert [breakers.record_failure("s", 0, "refused") for _ in range(4)] == [False, False, True, False]


def test_an_open_one_answers_the_last_reason_until_its_wait_is_over() -> None:
    breakers = opened()
    assert breakers.acquire("s", 0) == "refused"
    assert breakers.acquire("s", SECOND - 1) == "refused"
    assert breakers.acquire("s", SECOND) is None


def test_the_last_reason_is_kept_until_success() -> None:
    breakers = CircuitBreakers(POLICY)
    assert breakers.reason("s") == ""
    breakers.record_failure("s", 0, "refused")
    breakers.record_failure("other", 0, "forbidden")
    assert (breakers.reason("s"), breakers.reason("other")) == ("refused", "forbidden")
    breakers.record_success("s")
    assert breakers.reason("s") == ""


def test_only_one_attempt_at_a_time_is_let_through() -> None:
    breakers = opened()
    assert breakers.acquire("s", SECOND) is None
    assert breakers.acquire("s", SECOND) == "refused"
    assert breakers.acquire("s", 3 * SECOND) is None, "an attempt that never came back blocks nobody for ever"


def test_a_failed_attempt_doubles_the_wait() -> None:
    breakers = opened()
    breakers.acquire("s", SECOND)
    breakers.record_failure("s", SECOND, "still refused")
    assert breakers.acquire("s", 3 * SECOND - 1) == "still refused"
    assert breakers.acquire("s", 3 * SECOND) is None


def test_success_closes_it() -> None:
    breakers = opened()
    breakers.acquire("s", SECOND)
    assert breakers.record_success("s")
    breakers.record_failure("s", SECOND, "refused")
    assert breakers.acquire("s", SECOND) is None


def test_servers_do_not_share_a_breaker() -> None:
    assert opened().acquire("another", 0) is None


def test_the_oldest_failure_makes_room() -> None:
    breakers = CircuitBreakers(BreakerPolicy(threshold=1), limit=2)
    for server in ("a", "b", "c"):
        breakers.record_failure(server, 0, "refused")
    assert [breakers.acquire(server, 0) for server in ("a", "b", "c")] == [None, "refused", "refused"]


def test_a_clock_that_was_set_back_leaves_no_server_alone_for_longer() -> None:
    breakers = opened(3600 * SECOND)
    assert breakers.refusal("s", 60 * SECOND) is None
    assert breakers.acquire("s", 60 * SECOND) is None
    assert breakers.acquire("s", 61 * SECOND) == "refused", "one attempt at a time still"
    breakers.record_failure("s", 61 * SECOND, "still refused", began=60 * SECOND)
    assert breakers.acquire("s", 62 * SECOND) == "still refused"
    assert breakers.acquire("s", 63 * SECOND) is None


def test_a_poll_that_began_before_the_last_failure_is_refused_too() -> None:
    breakers = CircuitBreakers(POLICY)
    for _ in range(10):
        breakers.record_failure("s", 100 * SECOND, "refused")
    assert breakers.acquire("s", 98 * SECOND) == "refused"
