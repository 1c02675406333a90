"""The circuit of creations: a namespace that refuses a kind to everybody is not asked for each object. Pure.

A quota that is used up, an admission webhook that does not answer, a namespace that goes away: ten thousand objects
would each find out by a request of their own, again and again, and hold a place for the time-out of a webhook.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from random import random

from workers.client import transport
from workers.errors import ClusterError, Forbidden, Unavailable

#: Refusals in a row after which creations of the kind are held back in the namespace.
IN_A_ROW = 8
#: Seconds until one of them is tried: at first, and after many. Doubled by each that is refused, too.
HELD, MOST_HELD = 1.0, 10.0
#: Seconds that an attempt may take before another one is made.
ATTEMPT = 30.0
#: A wait is prolonged at random by up to this part: what is held back would return together.
JITTER = 0.5
#: Circuits that are remembered.
REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Circuit:
    """refused: in a row. until: nothing is tried before, then one attempt. held: length of that wait.

    attempted: the attempt is under way.
    """

    refused: int = 0
    until: float = 0.0
    held: float = HELD / 2
    attempted: bool = False
    error: ClusterError | None = None


class CreationCircuit:
    """The circuits of one process, by namespace and kind. Moments are monotonic seconds."""

    def __init__(self) -> None:
        self._circuits: OrderedDict[tuple[str, str], _Circuit] = OrderedDict()

    def held(self, namespace: str, kind: str, now: float, *, sends: bool = True) -> ClusterError | None:
        """Returns the error to fail with instead of a creation, or None: it may be tried.

        sends: the creation goes now, and its end is told; the others wait for it. Else it waits for its turn first.
        """
        known = self._circuits.get((namespace, kind))
        if known is None or known.error is None or known.refused < IN_A_ROW:
            return None
        if now >= known.until:
            if sends:
                self._circuits[namespace, kind] = replace(known, until=now + ATTEMPT, attempted=True)
            return None
        last = known.error
        error = type(last)(f"{last} (so for {known.refused} creations; not tried)", status=last.status, body=last.body)
        error.retry_after = min(known.until - now, MOST_HELD) * (1 + JITTER * random())
        error.held = True
        return error

    def created(self, namespace: str, kind: str) -> None:
        """Notes a creation, or a refusal that says nothing of others."""
        self._circuits.pop((namespace, kind), None)

    def refused(self, namespace: str, kind: str, error: ClusterError, now: float) -> None:
        """Notes a refusal."""
        if not speaks_for_namespace(error):
            self.created(namespace, kind)
            return
        known = self._circuits.pop((namespace, kind), _Circuit())
        refused = known.refused + 1
        held, until = known.held, known.until
        # Creations that were under way together end together, and lengthen the wait once.
        if refused == IN_A_ROW or known.attempted:
            held = min(MOST_HELD, held * 2)
            until = now + held
        self._circuits[namespace, kind] = _Circuit(refused, until, held, error=error)
        if len(self._circuits) > REMEMBERED:
            self._circuits.popitem(last=False)


def speaks_for_namespace(error: ClusterError) -> bool:
    """Returns True if other creations of that kind would meet the same refusal: it is not about the object."""
    if isinstance(error, Forbidden):
        return error.namespace_terminating or "exceeded quota" in str(error)
    if not isinstance(error, Unavailable):
        return False
    # Without an answer in time, most likely for an admission webhook; with one, the API server says so.
    return isinstance(error.__cause__, TimeoutError) or transport.is_of_admission(error)
