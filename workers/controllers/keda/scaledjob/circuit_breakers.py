"""Which measured servers are left alone for a while, as the status and Events tell it."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from workers.api import times
from workers.api.kinds import Object
from workers.reconcile.plan import RecordEvent
from workers.reconcile.snapshot import TriggerSample

FIELD = "sourcesLeftAlone"


def left_alone(samples: Sequence[TriggerSample]) -> Object:
    """The status field: per trigger whose server is left alone, since when, why, and when it is asked again."""
    found = [
        {
            "trigger": sample.name,
            "source": sample.source,
            "since": _instant(sample.alone_since),
            "reason": sample.error or "",
            **({"nextAttempt": _instant(sample.next_attempt)} if sample.next_attempt else {}),
        }
        for sample in samples
        if sample.alone_since
    ]
    return {FIELD: found or None}


def _instant(micros: int) -> str:
    return times.render(datetime.fromtimestamp(micros // 1_000_000, UTC))


def events(observed: Object, fields: Object) -> Iterator[RecordEvent]:
    """What to tell: once per server when it begins to be left alone, and once when it answers again.

    fields: those to be written; where none of them is about servers, nothing was measured.
    """
    if FIELD not in fields:
        return
    before = {each["source"]: each for each in observed.get(FIELD) or ()}
    after = {each["source"]: each for each in fields.get(FIELD) or ()}
    for source, each in after.items():
        if source not in before:
            yield RecordEvent("Warning", "SourceLeftAlone", f"{source} fails and is asked less often: {each['reason']}")
    for source in before:
        if source not in after:
            yield RecordEvent("Normal", "SourceAnswersAgain", f"{source} answers again")
