"""The graph of a flow, as people see it."""

from workers.flows.drawing import graph


def test_entries_stand_below_what_they_depend_on_with_how_far_they_are() -> None:
    flows = [
        {"name": "train", "dependsOn": {"targets": ["fetch"]}, "retry": {"limit": 2}},
        {"name": "fetch"},
        {"name": "part", "dependsOn": {"targets": ["train"]}, "forEach": {"count": 3}},
        {"name": "late", "dependsOn": {"targets": ["fetch", "train"]}},
        {"name": "either", "dependsOn": {"targets": ["fetch", "train"]}, "when": {"match": "any"}},
        {"name": "undo", "dependsOn": {"targets": ["train"]}, "when": {"phases": ["Failed"]}, "if": "true"},
    ]
    entries = {
        "fetch": {"phase": "Completed", "attempts": 1},
        "train": {"phase": "Running", "attempts": 2},
        "part-0": {"phase": "Completed"},
        "part-1": {"phase": "Running", "attempts": 2},
        "late": {"phase": "Failed", "reason": "TimedOut"},
    }
    flow = {"metadata": {"name": "f", "namespace": "n"}, "spec": {"flows": flows}, "status": {"entries": entries}}
    assert graph(flow).splitlines() == [
        "+ fetch       Completed",
        "*   train     Running  after fetch  2 attempts",
        "*     part    1 Completed, 1 Running, 1 Waiting  after train",
        "x     late    Failed  after fetch, train  (TimedOut)",
        ".     either  Waiting  after fetch or train Completed",
        ".     undo    Waiting  after train Failed  if true",
    ]


def test_a_flow_that_goes_in_a_circle_is_shown_as_it_was_written() -> None:
    flows = [{"name": "a", "dependsOn": {"targets": ["b"]}}, {"name": "b", "dependsOn": {"targets": ["a"]}}]
    assert graph({"metadata": {"name": "f"}, "spec": {"flows": flows}}).splitlines() == [
        ". a  Waiting  after b",
        ". b  Waiting  after a",
    ]
    assert graph({"metadata": {"name": "f"}, "spec": {"flows": []}}) == ""


def test_a_condition_that_ends_with_its_line_adds_none() -> None:
    flows = [{"name": "a", "if": "true\n"}, {"name": "b"}]
    assert graph({"metadata": {"name": "f"}, "spec": {"flows": flows}}) == ". a  Waiting  if true\n. b  Waiting"


def test_a_flow_that_cannot_be_read_is_shown_as_its_problem() -> None:
    shown = graph({"metadata": {"name": "f", "namespace": "n"}, "spec": {"flows": 5}})
    assert "spec.flows" in shown
