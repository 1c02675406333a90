"""The intake of one object: CloudEvents in a Redis stream, its keys and its scripts.

docs/events.md is the public interface.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis import exceptions

from penstock.client import beside
from penstock.cloudevents import LARGEST
from penstock.scaler import Measure
from scalers.sources.redis.connection import Answer, RedisLink
from scheduler.scripts import Script, load
from workers.metrics.process import PUSHED

log = logging.getLogger(__name__)

#: Takes pushed events in; called with the keys and the arguments of an intake.
ACCEPT = Script(load("scalers", "accept_events"))

_PUSH = load("scalers", "push")

#: Entries that one script takes, and scripts that one measurement runs for one intake at most.
BATCH, VISITS = 500, 8

#: Outcomes of pushed entries, in the script's order.
OUTCOMES = ("accepted", "duplicates", "parked", "dropped")


@dataclass(frozen=True, slots=True)
class Intake:
    """The intake of one object.

    stream: others add events to it. group: of Jobs, empty for a channel of EventJobs. limit: most events that may be
    not done. window: milliseconds in which an event of the same source and id is a duplicate; remembered: most ids for
    that. parked: most entries kept that are no events. held: counts events that were taken and not acknowledged, too.
    """

    stream: str
    group: str
    limit: int
    window: int
    remembered: int
    parked: int
    held: bool

    @property
    def key(self) -> str:
        """The stream."""
        return self.stream

    @property
    def accepted(self) -> str:
        """The stream of valid events, each once, from which Jobs take them."""
        return beside(self.stream, "accepted")

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key, in the order of the scripts."""
        parts = ("parked", "seen", "counts") if self.group else ("parked", "seen", "counts", "unfinished")
        return (self.stream, self.accepted, *(beside(self.stream, part) for part in parts))

    @property
    def arguments(self) -> tuple[str | int, ...]:
        """The arguments of the script that takes pushed events in."""
        return (self.group, self.limit, self.window, self.remembered, self.parked, BATCH, LARGEST)

    @property
    def acceptance(self) -> tuple[str | int, ...]:
        """The command that takes pushed events in."""
        return ("EVAL", ACCEPT.text, len(self.keys), *self.keys, *self.arguments)

    def push(self, event: Mapping[str, str]) -> tuple[str | int, ...]:
        """Returns the command that adds an event, which is refused with FULL at the limit."""
        fields = [text for pair in event.items() for text in pair]
        return ("EVAL", _PUSH, 2, self.stream, self.accepted, self.group, self.limit, *fields)

    def answer(self, counts: Sequence[int]) -> Measure:
        """Returns the number of events, from the script's answer."""
        waiting, held, left, *taken = counts
        became = dict(zip(OUTCOMES, taken, strict=True))
        for outcome, number in became.items():
            PUSHED.labels(outcome).inc(number)
        if became["parked"] or became["dropped"]:
            log.warning("pushed entries were not accepted", extra={"stream": self.stream, **became})
        return Measure(float(waiting + held if self.held else waiting), again=0.0 if left else None)


async def ask(link: RedisLink, questions: Sequence[Intake]) -> Sequence[Answer]:
    """Takes in the events pushed to these intakes. Returns the number of events that wait in each."""
    answers: list[Answer] = []
    open_ = list(range(len(questions)))
    for visit in range(VISITS):
        taken: list[Any] = await link.run([questions[place].acceptance for place in open_])
        found = {place: _answer(questions[place], answer) for place, answer in zip(open_, taken, strict=True)}
        if not visit:
            answers = list(found.values())
        for place, answer in found.items():
            answers[place] = answer
        open_ = [place for place, one in found.items() if isinstance(one, Measure) and one.again is not None]
        if not open_:
            break
    return answers


def _answer(intake: Intake, answer: Any) -> Answer:
    return answer if isinstance(answer, exceptions.RedisError) else intake.answer(answer)
