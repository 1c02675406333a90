"""The demo's report names every fault, and only that fault."""

import pytest

from deploy.demo.measure import measured
from deploy.demo.report import DemoJob, DemoRun, faults, percentile, rows
from tests.support.tables import cases


@pytest.fixture
def files(tmp_path):
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.py"
        path.write_text(f"print({number})\n" * (number + 1))
        paths.append(str(path))
    return paths


@pytest.fixture
def right(files):
    """A run in which every file was done once by one Job."""
    return DemoRun(
        pushed={path: 100.0 + number for number, path in enumerate(files)},
        jobs={str(number): DemoJob(created=100.5 + number, outcome="Complete") for number in range(len(files))},
        results={path: {**measured(path), "began": 102.5, "done": 103.0} for path in files},
        times=dict.fromkeys(files, 1),
        places=4,
    )


def test_a_right_run_has_no_faults_and_a_report(right):
    assert faults(right) == []
    assert dict(rows(right)) == {
        "items": "3",
        "Jobs created": "3",
        "Jobs succeeded": "3",
        "Jobs failed": "0",
        "Jobs over-created": "0",
        "push to Job": "p50 0.500 s   p99 0.500 s",
        "waiting for one of 4 places": "p50 1.000 s   p99 2.000 s",
        "start to done": "p50 0.500 s   p99 0.500 s",
        "push to done": "p50 2.000 s   p99 3.000 s",
    }


def _miss(run, path):
    del run.results[path]


def _repeat(run, path):
    run.times[path] = 2


def _over_create(run, path):
    run.jobs["extra"] = DemoJob(created=104.0, outcome="Complete")


def _idle(run, path):
    run.idle = 1


def _fail(run, path):
    run.jobs["0"].outcome = "Failed"


def _lie(run, path):
    run.results[path]["lines"] += 1


@cases(
    ("missed", _miss, "1 files were missed"),
    ("done twice", _repeat, "1 files were done twice"),
    ("a Job too many", _over_create, "1 Jobs too many"),
    ("an idle Job", _idle, "1 Jobs found nothing"),
    ("a failed Job", _fail, "1 Jobs failed"),
    ("a wrong result", _lie, "1 results are wrong"),
)
def test_every_fault_is_named(spoil, words, right, files):
    spoil(right, files[1])
    assert [fault for fault in faults(right) if fault.startswith(words)], faults(right)
    assert len(faults(right)) == 1


@cases(
    ("one value", [5.0], 0.5, 5.0),
    ("the lower middle", [1.0, 2.0, 3.0, 4.0], 0.5, 2.0),
    ("in any order", [4.0, 1.0, 3.0, 2.0], 0.99, 4.0),
    ("nearest rank", [1.0] * 99 + [9.0], 0.99, 1.0),
)
def test_percentiles_are_nearest_rank(values, share, expected):
    assert percentile(values, share) == expected


def test_no_values_have_no_percentile():
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
