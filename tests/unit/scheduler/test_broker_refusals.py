"""Answers of a server after which another one is asked."""

from redis import exceptions

from scheduler.broker import refusals
from scheduler.broker.address import parse
from tests.support.tables import for_each


@for_each(exceptions.AskError("1 a:1"), exceptions.TryAgainError("keys are on their way"))
def test_a_slot_that_moves_is_an_outage_in_a_cluster_alone(error: exceptions.ResponseError) -> None:
    assert refusals.is_elsewhere(error, parse("redis://a/0?cluster=true"))
    assert not refusals.is_elsewhere(error, parse("redis://a/0"))
