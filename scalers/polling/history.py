"""How each question did the last time it was asked."""

from collections import Counter, OrderedDict
from collections.abc import Hashable
from enum import IntEnum


class AnswerOutcome(IntEnum):
    """How a question did the last time it was asked, best first."""

    ANSWERED = 0
    NEW = 1
    SLOW = 2


class AnswerHistory:
    """By source and asker. limit: questions that are remembered; those not asked for the longest time are new again."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._known: OrderedDict[tuple[Hashable, Hashable], AnswerOutcome] = OrderedDict()
        self._answered: Counter[Hashable] = Counter()

    def of(self, source: Hashable, asker: Hashable) -> AnswerOutcome:
        """The standing of one question."""
        return self._known.get((source, asker), AnswerOutcome.NEW)

    def answers(self, source: Hashable) -> bool:
        """Whether the source answered any question that is asked of it the last time."""
        return self._answered[source] > 0

    def note(self, source: Hashable, asker: Hashable, standing: AnswerOutcome) -> None:
        """What became of a question."""
        self._forget((source, asker))
        self._known[source, asker] = standing
        self._answered[source] += standing is AnswerOutcome.ANSWERED
        while len(self._known) > self._limit:
            self._forget(next(iter(self._known)))

    def _forget(self, key: tuple[Hashable, Hashable]) -> None:
        if self._known.pop(key, None) is AnswerOutcome.ANSWERED:
            self._answered[key[0]] -= 1
            if not self._answered[key[0]]:
                del self._answered[key[0]]
