"""The account of the demo: what was accepted against what the pods noted. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from deploy.demo.events.manifest import AUDIT, BUILD
from deploy.demo.events.pod_program import fails
from deploy.demo.events.sender import SentWebhook
from deploy.demo.report import percentile


@dataclass
class EventsRun:
    """The observations of one run.

    sent: in the order in which each repository's were accepted. notes: of the pods, see `pod_program`. killed: parts.
    parked: deliveries of both EventJobs that were given up.
    """

    sent: Sequence[SentWebhook] = ()
    notes: Sequence[Mapping[str, Any]] = ()
    killed: list[str] = field(default_factory=list)
    parked: int = 0

    def successes(self, by: str) -> dict[str, list[Mapping[str, Any]]]:
        """Returns the notes of attempts that succeeded, by event."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for note in self.notes:
            if note["by"] == by and not note["failed"]:
                found.setdefault(note["id"], []).append(note)
        return found

    @property
    def done(self) -> bool:
        """True if every event that was accepted succeeded in both EventJobs."""
        wanted = {webhook.id for webhook in self.sent if webhook.accepted}
        return all(wanted <= self.successes(by).keys() for by in (BUILD, AUDIT))


def faults(run: EventsRun) -> list[str]:
    """Returns the run's faults as text; empty for a correct run."""
    return [*_account(run), *_order(run), *_attempts(run)]


def _account(run: EventsRun) -> Iterator[str]:
    accepted = {webhook.id for webhook in run.sent if webhook.accepted}
    if missing := [webhook.number for webhook in run.sent if not webhook.accepted]:
        yield f"{len(missing)} webhooks were not accepted, for example {missing[0]}"
    for by in (BUILD, AUDIT):
        found = run.successes(by)
        if lost := accepted - found.keys():
            yield f"{by}: {len(lost)} events were lost, for example {min(lost)}"
        if twice := [id for id, notes in found.items() if len(notes) > 1]:
            yield f"{by}: {len(twice)} events were done twice, for example {twice[0]}"
        if strange := found.keys() - accepted:
            yield f"{by}: {len(strange)} events were never accepted, for example {min(strange)}"
    if unnoticed := [webhook.number for webhook in run.sent if not all(webhook.answers)]:
        yield f"{len(unnoticed)} repeated webhooks were not told to be duplicates, for example {unnoticed[0]}"
    if run.parked:
        yield f"{run.parked} events were parked"


def _order(run: EventsRun) -> Iterator[str]:
    found = run.successes(BUILD)
    for repository in dict.fromkeys(webhook.repository for webhook in run.sent):
        notes = [found[each.id][0] for each in run.sent if each.repository == repository and each.id in found]
        for before, after in pairwise(notes):
            if after["began"] < before["ended"]:
                yield f"{repository}: event {after['number']} began before event {before['number']} was done"


def _attempts(run: EventsRun) -> Iterator[str]:
    for notes in run.successes(BUILD).values():
        number, attempt = notes[0]["number"], notes[0]["attempt"]
        if fails(number, attempt):
            yield f"{BUILD}: the first attempt of event {number} was to fail"


def rows(run: EventsRun) -> list[tuple[str, str]]:
    """Returns the report's lines, a name and a figure each."""
    found = run.successes(BUILD)
    accepted = {webhook.id: webhook.accepted for webhook in run.sent if webhook.accepted}
    waits = [notes[0]["began"] - accepted[id] for id, notes in found.items() if id in accepted]
    lines = [
        ("webhooks accepted", str(len(accepted))),
        ("requests for them", str(sum(webhook.tries for webhook in run.sent))),
        ("repeated, and told to be duplicates", str(sum(sum(webhook.answers) for webhook in run.sent))),
        ("repositories, each in order", str(len({webhook.repository for webhook in run.sent}))),
        ("done by build, by audit", f"{len(found)}, {len(run.successes(AUDIT))}"),
        ("failed attempts, repeated", str(sum(note["failed"] for note in run.notes))),
        ("killed meanwhile", ", ".join(run.killed) or "nothing"),
    ]
    if waits:
        lines.append(
            (
                "accepted to begun, its turn included",
                f"p50 {percentile(waits, 0.5):.3f} s   p99 {percentile(waits, 0.99):.3f} s",
            )
        )
    return lines
