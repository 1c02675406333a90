"""The bulkhead between namespaces: slow plans of one are bounded, quick ones and other namespaces are not."""

from workers.reconcile.namespace_bulkhead import MOST, MOST_SLOW, SLOW, NamespaceBulkhead


def full_of(number, *, since=0.0):
    bulkhead = NamespaceBulkhead()
    return bulkhead, [bulkhead.begin("bad", since) for _ in range(number)]


def test_a_namespace_with_many_slow_plans_is_full_and_others_are_not():
    bulkhead, numbers = full_of(MOST_SLOW)
    assert not bulkhead.is_full("bad", SLOW - 0.1)
    assert bulkhead.is_full("bad", SLOW)
    assert not bulkhead.is_full("good", SLOW)
    bulkhead.end("bad", numbers[0])
    assert not bulkhead.is_full("bad", SLOW)


def test_quick_plans_fill_nothing_unless_they_are_very_many():
    bulkhead, numbers = full_of(MOST - 1)
    assert not bulkhead.is_full("bad", 0.1)
    bulkhead.begin("bad", 0.1)
    assert bulkhead.is_full("bad", 0.1)
    for number in numbers:
        bulkhead.end("bad", number)
    assert not bulkhead.is_full("bad", 100.0)


def test_slow_plans_count_behind_quick_ones_that_ended():
    bulkhead, numbers = full_of(MOST_SLOW)
    for number in numbers[:10]:
        bulkhead.end("bad", number)
    for _ in range(10):
        bulkhead.begin("bad", 5.0)
    assert not bulkhead.is_full("bad", 5.0 + SLOW - 0.1)
    assert bulkhead.is_full("bad", 5.0 + SLOW)
