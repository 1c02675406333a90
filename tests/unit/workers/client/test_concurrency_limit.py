"""The concurrency limit: moved by refusals and latency, and measured against servers in virtual time."""

from itertools import pairwise

import pytest

from tests.support.overload import SCENARIOS, play
from workers.client.concurrency_limit import (
    EPOCH,
    HOLD,
    MOST_HOLD,
    MOST_PAUSE,
    PAUSE,
    Bounds,
    ConcurrencyLimit,
)

BOUNDS = Bounds(least=1, floor=16, start=32, most=128)


class Talk:
    """A limit, and the moment at which it hears of answers."""

    def __init__(self, bounds=BOUNDS):
        self.of = ConcurrencyLimit(bounds)
        self.now = 0.0

    def answers(self, number, seconds=0.02, *, shape="POST jobs", crowded=True):
        for _ in range(number):
            self.now += seconds
            self.of.answered(shape, self.now - seconds, self.now, crowded=crowded)

    def refuse(self, retry_after=1.0, *, sent=None):
        self.now += 0.001
        self.of.refused(self.now if sent is None else sent, self.now, retry_after)


@pytest.fixture
def talk():
    return Talk()


def test_a_refusal_lowers_the_limit_once_for_all_requests_of_its_flight(talk):
    sent = talk.now
    for _ in range(32):
        talk.refuse(sent=sent)
    assert talk.of.limit == 22
    assert talk.of.paused(talk.now) == 0, "it had been answering until now"


def test_a_server_that_answers_nothing_is_left_alone_for_as_long_as_it_asks_then_one_request_goes_first(talk):
    talk.refuse()
    talk.refuse(7.0)
    assert 7.0 <= talk.of.paused(talk.now) <= 7.0 * 1.25
    assert talk.of.limit == 1
    talk.now += 9
    assert talk.of.paused(talk.now) == 0
    talk.answers(1)
    assert talk.of.limit == 1, "one answer is no flight"
    talk.answers(40)
    assert talk.of.limit > 10, "what was possible before is possible soon"


def test_pauses_that_the_server_does_not_name_double_up_to_the_longest(talk):
    talk.refuse(None)
    pauses = []
    for _ in range(8):
        talk.refuse(None)
        pauses.append(talk.of.paused(talk.now))
        talk.now += pauses[-1]
    assert PAUSE <= pauses[0] <= PAUSE * 1.25
    assert all(shorter < longer for shorter, longer in pairwise(pauses[:5]))
    assert max(pauses) <= MOST_PAUSE * 1.25


def test_retry_after_is_jittered():
    def pause():
        talk = Talk()
        talk.refuse()
        talk.refuse(10.0)
        return talk.of.paused(talk.now)

    assert len({pause() for _ in range(5)}) == 5


def test_the_limit_that_was_refused_is_not_tried_again_before_its_hold(talk):
    talk.answers(200)
    refused_at = talk.of.limit
    talk.refuse()
    lowered = talk.now
    while talk.now < lowered + 2 * HOLD - 0.1:
        talk.answers(10, 0.001)
    assert talk.of.limit < refused_at
    while talk.now < lowered + 2 * MOST_HOLD:
        talk.answers(10, 0.001)
    assert talk.of.limit >= refused_at


def test_latency_stops_growth_and_lowers_the_limit_to_the_floor_but_no_further(talk):
    talk.answers(200, 0.02)
    grown = talk.of.limit
    assert grown > BOUNDS.start
    talk.answers(64, 0.035)
    assert talk.of.limit <= grown + 1, "slower, but not by much"
    talk.answers(1000, 0.05)
    assert talk.of.limit == BOUNDS.floor


def test_a_server_that_became_slower_for_good_is_believed_after_two_epochs(talk):
    talk.answers(100, 0.02)
    talk.answers(round(2.5 * EPOCH / 0.05), 0.05)
    assert talk.of.limit > BOUNDS.floor


def test_one_slow_shape_is_no_overload(talk):
    talk.answers(100, 0.02)
    grown = talk.of.limit
    for _ in range(200):
        talk.answers(1, 0.2, shape="POST pods")
        talk.answers(1, 0.02)
    assert talk.of.limit >= grown


def test_a_limit_that_keeps_nothing_waiting_does_not_grow(talk):
    talk.answers(500, crowded=False)
    assert talk.of.limit == BOUNDS.start


def test_the_limit_stays_within_its_bounds(talk):
    talk.answers(5000)
    assert talk.of.limit == BOUNDS.most
    for _ in range(50):
        talk.answers(1)
        talk.refuse()
    assert talk.of.limit == BOUNDS.least


@pytest.mark.parametrize(
    ("scenario", "used", "refused"),
    [
        pytest.param("steady, 8 seats, no queue", 0.9, 0.01),
        pytest.param("steady, 1 seat, no queue", 0.88, 0.06),
        pytest.param("steady, 8 seats, queue of 300", 0.98, 0.0),
        pytest.param("outage of 10 s, 16 seats", 0.85, 0.01),
        pytest.param("step up, 4 to 64 seats, no queue", 0.6, 0.02),
    ],
)
def test_a_limited_server_is_used_and_hardly_refuses(scenario, used, refused):
    run = play(SCENARIOS[scenario], ConcurrencyLimit(BOUNDS))
    assert run.used >= used
    assert run.refusals <= refused


def test_once_the_limit_is_found_less_than_one_in_a_hundred_is_refused():
    run = play(SCENARIOS["steady, 1 seat, no queue"], ConcurrencyLimit(BOUNDS))
    later = [moment for moment in run.refusals_at if moment > 10]
    assert len(later) < 0.01 * sum(moment > 10 for moment in run.answers)


def test_a_server_that_queues_answers_soon_after_the_limit_is_found():
    run = play(SCENARIOS["steady, 8 seats, queue of 300"], ConcurrencyLimit(BOUNDS))
    assert run.latency(0.5) < 0.06, "three times as long as a request takes; 128 at once would wait 16 times as long"
