"""The circuit of creations: what a namespace refuses to everybody is tried by one, now and then."""

import pytest

from tests.support.tables import cases, for_each
from workers.errors import Conflict, Forbidden, Invalid, Throttled, Unavailable
from workers.reconcile.creation_circuit import (
    ATTEMPT,
    HELD,
    IN_A_ROW,
    JITTER,
    MOST_HELD,
    CreationCircuit,
    speaks_for_namespace,
)

QUOTA = Forbidden('pods "a" is forbidden: exceeded quota: team, requested: pods=1, used: pods=5, limited: pods=5')


def timed_out():
    error = Unavailable("no answer in time")
    error.__cause__ = TimeoutError()
    return error


class Talk:
    def __init__(self):
        self.of, self.now = CreationCircuit(), 0.0

    def held(self, namespace="n", kind="jobs"):
        return self.of.held(namespace, kind, self.now)

    def refuse(self, number=1, error=QUOTA):
        for _ in range(number):
            self.of.refused("n", "jobs", error, self.now)


@pytest.fixture
def talk():
    return Talk()


def test_creations_are_held_back_after_some_refusals_in_a_row_and_only_of_that_namespace_and_kind(talk):
    talk.refuse(IN_A_ROW - 1)
    assert talk.held() is None
    talk.refuse()
    error = talk.held()
    assert isinstance(error, Forbidden)
    assert error.held
    assert "exceeded quota" in str(error)
    assert 0 < error.retry_after <= HELD * (1 + JITTER)
    assert talk.held(namespace="m") is None
    assert talk.held(kind="pods") is None


def test_one_success_ends_it(talk):
    talk.refuse(IN_A_ROW)
    talk.of.created("n", "jobs")
    assert talk.held() is None


def test_after_the_wait_one_is_tried_and_each_further_refusal_doubles_it_up_to_the_longest(talk):
    talk.refuse(IN_A_ROW)
    waits = []
    for _ in range(6):
        began = talk.now
        while talk.held() is not None:
            talk.now += 0.125
        waits.append(talk.now - began)
        assert talk.held() is not None, "the others wait for its end"
        talk.now += 0.5
        talk.refuse()
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


@for_each(0.5, ATTEMPT - MOST_HELD, ATTEMPT - 1, ATTEMPT + 5)
def test_a_refused_attempt_lengthens_the_wait_however_long_it_lasted(lasted, talk):
    talk.refuse(IN_A_ROW)
    talk.now += HELD
    assert talk.held() is None
    talk.now += lasted
    talk.refuse()
    talk.now += 2 * HELD - 0.125
    assert talk.held() is not None
    talk.now += 0.125
    assert talk.held() is None


def test_an_attempt_that_never_ends_is_followed_by_another(talk):
    talk.refuse(IN_A_ROW)
    talk.now += HELD
    assert talk.held() is None
    talk.now += ATTEMPT - 1
    assert talk.held() is not None
    assert talk.held().retry_after <= MOST_HELD * (1 + JITTER)
    talk.now += 1
    assert talk.held() is None


def test_what_was_under_way_together_lengthens_the_wait_once(talk):
    talk.refuse(IN_A_ROW + 20)
    talk.now += HELD
    assert talk.held() is None


def test_a_refusal_of_one_object_says_nothing_of_the_others(talk):
    talk.refuse(IN_A_ROW - 1)
    talk.refuse(error=Invalid("spec: wrong"))
    talk.refuse()
    assert talk.held() is None


@cases(
    ("a quota", QUOTA, True),
    ("no answer in time", timed_out(), True),
    ("a webhook that is away", Unavailable('failed calling webhook "w": timeout', status=500), True),
    ("no connection", Unavailable("no route to host"), False),
    ("a busy server", Unavailable("too many requests", status=429), False),
    ("not sent", Throttled("not sent", retry_after=1.0), False),
    ("a failure", Unavailable("etcd leader changed", status=500), False),
    ("a webhook that denies", Forbidden("admission webhook denied the request", status=403), False),
    ("validation", Invalid("wrong", status=422), False),
    ("a conflict", Conflict("changed", status=409), False),
)
def test_which_refusals_would_meet_others_too(error, speaks):
    assert speaks_for_namespace(error) is speaks
