"""The pool's report names every fault, and only that fault."""

from collections.abc import Callable
from dataclasses import replace

from deploy.demo.pool.report import PoolRun, PoolSample, chart, faults, rows
from deploy.demo.pool.work import outcome
from tests.support.tables import cases

SAMPLES = [
    PoolSample(0.0, 0, 0, 0),
    PoolSample(0.5, 2, 0, 0),
    PoolSample(1.0, 2, 2, 0),
    PoolSample(2.0, 2, 2, 3),
    PoolSample(5.0, 0, 0, 3),
]


def right() -> PoolRun:
    numbers = range(3)
    return PoolRun(
        pushed=numbers,
        least=2,
        most=2,
        samples=list(SAMPLES),
        results={number: outcome(number) for number in numbers},
        begun=dict.fromkeys(numbers, 1),
        ended=dict.fromkeys(numbers, 1),
    )


def test_a_right_run_has_no_faults_and_a_report():
    assert faults(right()) == []
    assert dict(rows(right())) == {
        "tasks": "3",
        "ran exactly once": "3",
        "workers at most": "2",
        "first worker wanted after": "0.5 s",
        "first worker ready after": "1.0 s",
        "all done after": "2.0 s",
        "back at zero after": "5.0 s",
    }


@cases(
    ("missed", lambda run: replace(run, results={0: outcome(0), 1: outcome(1)}), "1 tasks were missed, for example 2"),
    ("twice", lambda run: replace(run, ended={0: 1, 1: 2, 2: 1}), "1 tasks ran twice, for example 1"),
    ("cut short", lambda run: replace(run, begun={0: 1, 1: 1, 2: 2}), "1 tasks were cut short, for example 2"),
    (
        "never pushed",
        lambda run: replace(run, results={**run.results, 7: outcome(7)}),
        "1 tasks were never pushed, for example 7",
    ),
    ("wrong", lambda run: replace(run, results={**run.results, 1: "?"}), "1 tasks have a wrong result, for example 1"),
    (
        "never grew",
        lambda run: replace(run, samples=[PoolSample(0.0, 1, 1, 3), SAMPLES[-1]]),
        "the pool never grew to 2 workers",
    ),
    (
        "grew too far",
        lambda run: replace(run, samples=[PoolSample(0.0, 3, 3, 3), SAMPLES[-1]]),
        "the pool grew to 3 workers, more than 2",
    ),
    ("stayed", lambda run: replace(run, samples=SAMPLES[:-1]), "the pool did not return to zero"),
)
def test_each_fault_is_reported_alone(change: Callable[[PoolRun], PoolRun], said: str):
    assert faults(change(right())) == [said]


def test_the_chart_shows_changes_and_the_end():
    assert chart(right()) == [
        "   0.0 s  wanted  0  ready     done 0",
        "   0.5 s  wanted  2  ready     done 0",
        "   1.0 s  wanted  2  ready ##  done 0",
        "   5.0 s  wanted  0  ready     done 3",
    ]
    many = replace(right(), samples=[PoolSample(float(at), at % 2, 0, 0) for at in range(101)])
    assert len(chart(many, lines=20)) <= 21
    assert chart(many, lines=20)[-1].startswith(" 100.0 s")
