"""Wake-ups: the first at once, a burst once more."""

from scalers.wakeups.wakeups import Debounce


def test_the_first_one_passes_at_once() -> None:
    debounce = Debounce(0.05)
    debounce.offer(["a"])
    assert debounce.take(10.0) == (["a"], None)


def test_a_burst_passes_once_more_after_the_gap() -> None:
    debounce = Debounce(0.5)
    debounce.offer(["a"])
    debounce.take(10.0)
    debounce.offer(["a"])
    debounce.offer(["a"])
    assert debounce.take(10.25) == ([], 0.25)
    assert debounce.take(10.5) == (["a"], None)
    assert debounce.take(11.5) == ([], None)


def test_one_that_waits_does_not_hold_up_another() -> None:
    debounce = Debounce(0.5)
    debounce.offer(["a"])
    debounce.take(10.0)
    debounce.offer(["a", "b"])
    assert debounce.take(10.25) == (["b"], 0.25)


def test_after_a_quiet_time_the_first_passes_at_once_again() -> None:
    debounce = Debounce(0.5)
    for now in (10.0, 11.0):
        debounce.offer(["a"])
        assert debounce.take(now) == (["a"], None)
