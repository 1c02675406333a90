"""KEDA's `cron` trigger: a number of replicas from one tick of a schedule to another."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import ClassVar, Self

from pydantic import model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Scaler, Source, parameter
from scheduler import cron
from scheduler.cron.schedule import CronSchedule

_M = (Source.METADATA,)

#: The name in PENSTOCK_KEDA_QUIRKS under which the next ticks decide.
_NEXT_TICKS = "cron-next-ticks"

#: Times to search for the last tick. The first suffices for most schedules, and costs little; the second is longer than
#: the time between two ticks of any schedule, but for those of 29 February around the year 2100.
_PASTS = (timedelta(days=8), timedelta(days=4 * 366))

#: KEDA's spelling of characters that the name of a metric cannot have.
_SPELLED = str.maketrans({" ": "", "*": "x", "/": "Sl", "?": "Qm", ",": "Cm"})


class CronScaler(Scaler):
    """A window that opens whenever `start` fires and closes whenever `end` does."""

    timezone: str = parameter(sources=_M, description="IANA name of the time zone, such as `Europe/Berlin`")
    start: str = parameter(sources=_M, description="cron expression of five fields: when the window opens")
    end: str = parameter(sources=_M, description="cron expression of five fields: when the window closes")
    desired_replicas: int = parameter(sources=_M, gt=0, description="replicas that are wanted while the window is open")

    @model_validator(mode="after")
    def _opens_and_closes(self) -> Self:
        try:
            cron.zone(self.timezone)
        except cron.ZoneError as error:
            raise ParameterError("timezone", str(error)) from None
        now = datetime.now(UTC)
        for name, text in (("start", self.start), ("end", self.end)):
            # A zone in front of an expression goes before `timezone`, as in KEDA.
            if re.sub(r"^(CRON_)?TZ=\S* +", "", text).startswith("@"):
                raise ParameterError(name, "must be five fields such as 0 8 * * *")
            try:
                never = cron.parse(text, zone=self.timezone).next(now) is None
                if never and _NEXT_TICKS not in self.quirks:
                    raise ParameterError(name, "never fires: there is no such date")
            except cron.CronError as error:
                raise ParameterError(name, str(error)) from None
        if self.start.split() == self.end.split():
            raise ParameterError("end", "must differ from start")
        return self

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"cron-{self.timezone}-{self.start.translate(_SPELLED)}-{self.end.translate(_SPELLED)}"

    target: ClassVar[float] = 1.0

    def is_open(self, now: datetime) -> bool:
        """Returns whether the last tick of `start` is later than that of `end`.

        KEDA compares the next ticks instead, which opens a window a day early when a clock change skips its start.
        """
        if _NEXT_TICKS in self.quirks:
            return self._ends_before_it_starts(now)
        opened, closed = self._latest(self.start, now), self._latest(self.end, now)
        return opened is not None and (closed is None or opened > closed)

    def _latest(self, text: str, now: datetime) -> datetime | None:
        """Returns the last tick until now, None without one.

        A tick that a change of the clock skips, which is none to Kubernetes, comes as late as the clock went forward:
        otherwise a skipped start would close the window for its day, and a skipped end leave it open for a day.
        """
        schedule = cron.parse(text, zone=self.timezone)
        tick = _last(schedule, now)
        if not isinstance(schedule, CronSchedule):
            return tick
        shown = now.astimezone(schedule.zone).replace(tzinfo=UTC)
        wanted = _last(replace(schedule, zone=UTC), shown)
        if wanted is None:
            return tick
        moved = wanted.replace(tzinfo=schedule.zone).astimezone(UTC)
        if moved > now or moved.astimezone(schedule.zone).replace(tzinfo=UTC) == wanted:
            return tick
        return moved if tick is None else max(tick, moved)

    def _ends_before_it_starts(self, now: datetime) -> bool:
        starts = cron.parse(self.start, zone=self.timezone).next(now)
        ends = cron.parse(self.end, zone=self.timezone).next(now)
        # KEDA's library gives the year 1 for what never fires.
        return ends is not None and (starts is None or starts >= ends)

    async def measure(self) -> float:
        """Returns the replicas wanted now."""
        return float(self.desired_replicas) if self.is_open(datetime.now(UTC)) else 0.0


def _last(schedule: cron.Schedule, now: datetime) -> datetime | None:
    found = (schedule.latest(now - past, now) for past in _PASTS)
    return next((tick for tick in found if tick), None)
