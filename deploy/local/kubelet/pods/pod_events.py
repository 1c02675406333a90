"""Events about pods: a courtesy that must never cost the pods anything."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal

from workers.api.kinds import POD, Object
from workers.client.event_recorder import Recorder
from workers.client.rest import Cluster
from workers.decision.plan import RecordEvent

Wanted = Literal["all", "warnings", "none"]

#: Normal events a second, and how many may come at once; more are left out when hundreds of pods run a minute.
RATE = 10.0
BURST = 100.0


class Announcer:
    """Records Events. wanted: which."""

    def __init__(self, cluster: Cluster, wanted: Wanted, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._recorder = Recorder(cluster, clock=lambda: datetime.now(UTC))
        self._wanted = wanted
        self._clock = clock
        self._allowance, self._filled = BURST, clock()

    def normal(self, pod: Object, reason: str, message: str) -> None:
        """Something happened as it should."""
        now = self._clock()
        self._allowance = min(BURST, self._allowance + (now - self._filled) * RATE)
        self._filled = now
        if self._wanted == "all" and self._allowance >= 1:
            self._allowance -= 1
            self._recorder.record(POD, pod, RecordEvent("Normal", reason, message))

    def warning(self, pod: Object, reason: str, message: str) -> None:
        """Something is wrong with the pod."""
        if self._wanted != "none":
            self._recorder.record(POD, pod, RecordEvent("Warning", reason, message))

    async def close(self) -> None:
        """Writes what was recorded."""
        await self._recorder.close()
