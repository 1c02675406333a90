"""The bulkhead between namespaces: plans of slow ones are bounded, those of busy and other namespaces are not."""

from itertools import pairwise

from workers.reconcile.namespace_bulkhead import FIRST, LAST, MOST, MOST_SLOW, RATE, NamespaceBulkhead


def bulkhead_with(*slow, **under_way):
    bulkhead = NamespaceBulkhead(lambda namespace: namespace in slow)
    for namespace, number in under_way.items():
        for _ in range(number):
            bulkhead.begin(namespace)
    return bulkhead


def test_a_slow_namespace_with_many_plans_is_full_until_one_ends():
    bulkhead = bulkhead_with("bad", bad=MOST_SLOW, few=MOST_SLOW - 1, busy=MOST_SLOW)
    assert bulkhead.full() == {"bad"}
    bulkhead.end("bad")
    assert bulkhead.full() == set()


def test_few_plans_of_a_slow_namespace_fill_nothing():
    assert bulkhead_with("bad", bad=MOST_SLOW - 1).full() == set()


def test_very_many_plans_fill_any_namespace():
    bulkhead = bulkhead_with(busy=MOST - 1)
    assert bulkhead.full() == set()
    bulkhead.begin("busy")
    assert bulkhead.full() == {"busy"}


def test_those_sent_away_come_back_one_after_the_other():
    bulkhead = bulkhead_with("bad", bad=MOST_SLOW)
    waits = [bulkhead.comes_back("bad", 100.0) for _ in range(20_000)]
    assert min(waits) >= FIRST
    assert max(waits) <= LAST
    busiest = max(sum(begin <= wait < begin + 1 for wait in waits) for begin in range(int(LAST)))
    # They do not fit into the time one by one: so many times in a row, evenly.
    rounds = -(-len(waits) // (RATE * (LAST - FIRST)))
    assert busiest <= rounds * RATE + 1
    assert all(later - earlier > 0.9 / RATE for earlier, later in pairwise(waits[:1000]))


def test_another_namespace_and_one_that_was_idle_begin_anew():
    bulkhead = bulkhead_with("bad", bad=1)
    for _ in range(1000):
        bulkhead.comes_back("bad", 100.0)
    assert bulkhead.comes_back("other", 100.0) < FIRST + 0.1
    bulkhead.end("bad")
    assert bulkhead.comes_back("bad", 100.0) < FIRST + 0.1
