"""The account of the events' demo names every fault, and only that fault."""

from collections.abc import Callable
from typing import Any

from deploy.demo.events.report import EventsRun, faults, rows
from deploy.demo.events.sender import SentWebhook
from tests.support.tables import for_each


def _note(by: str, number: int, began: float, **other: Any) -> dict[str, Any]:
    note = {"by": by, "id": f"id-{number}", "number": number, "attempt": 1, "began": began, "ended": began + 0.5}
    return {**note, "failed": False, **other}


def _right() -> EventsRun:
    """Two events of one repository, one of another; the seventh event fails once."""
    sent = [
        SentWebhook(0, "shop/a", "id-0", accepted=10.0, tries=2, answers=[True]),
        SentWebhook(6, "shop/a", "id-6", accepted=11.0, tries=1),
        SentWebhook(1, "shop/b", "id-1", accepted=12.0, tries=1),
    ]
    notes = [
        _note("build", 0, 20.0),
        _note("build", 6, 21.0, failed=True),
        _note("build", 6, 22.0, attempt=2),
        _note("build", 1, 20.0),
        *(_note("audit", number, 20.0) for number in (0, 6, 1)),
    ]
    return EventsRun(sent=sent, notes=notes, killed=["gateway"])


def test_a_right_run_has_no_faults_and_a_report() -> None:
    assert faults(_right()) == []
    assert dict(rows(_right())) == {
        "webhooks accepted": "3",
        "requests for them": "4",
        "repeated, and told to be duplicates": "1",
        "repositories, each in order": "2",
        "done by build, by audit": "3, 3",
        "failed attempts, repeated": "1",
        "killed meanwhile": "gateway",
        "accepted to begun, its turn included": "p50 10.000 s   p99 11.000 s",
    }


def _without(by: str, number: int) -> Callable[[EventsRun], object]:
    def change(run: EventsRun) -> None:
        run.notes = [note for note in run.notes if (note["by"], note["number"]) != (by, number)]

    return change


def _with(**fields: Any) -> Callable[[EventsRun], object]:
    return lambda run: run.notes.append(_note(**fields))  # type: ignore[attr-defined]


@for_each(
    (_without("audit", 1), "audit: 1 events were lost, for example id-1"),
    (_with(by="audit", number=1, began=30.0), "audit: 1 events were done twice, for example id-1"),
    (_with(by="build", number=9, began=30.0), "build: 1 events were never accepted, for example id-9"),
    (lambda run: run.notes[2].update(began=20.2), "shop/a: event 6 began before event 0 was done"),
    (lambda run: run.notes[2].update(attempt=1), "build: the first attempt of event 6 was to fail"),
    (
        lambda run: run.sent[0].answers.append(False),
        "1 repeated webhooks were not told to be duplicates, for example 0",
    ),
    (lambda run: setattr(run, "parked", 2), "2 events were parked"),
    (lambda run: run.sent.append(SentWebhook(7, "shop/b", "id-7")), "1 webhooks were not accepted, for example 7"),
)
def test_a_fault_is_named(change: Callable[[EventsRun], object], said: str) -> None:
    run = _right()
    change(run)
    assert faults(run) == [said]
