"""The slots of a schedule, computed independently of scheduler.cron: slow and exhaustive.

`brute` looks at every minute there is. `procedure` takes the steps of Kubernetes' search one by one, also where they
lead nowhere; the two differ on days on which clocks are changed at odd times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=seconds) for seconds in (1, 60, 3600, 86400))


@dataclass(frozen=True)
class Plain:
    """A schedule as plain sets. A set of days is None for the star."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    def text(self) -> str:
        sets = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join("*" if each is None else ",".join(map(str, sorted(each))) for each in sets)

    def names_day(self, wall: datetime) -> bool:
        """Sunday is 0. Of two fields without a star one is enough."""
        by_day = None if self.days is None else wall.day in self.days
        by_weekday = None if self.weekdays is None else wall.isoweekday() % 7 in self.weekdays
        answers = [each for each in (by_day, by_weekday) if each is not None]
        return any(answers) if answers else True

    def fires(self, wall: datetime) -> bool:
        return (
            wall.second == 0
            and wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and self.names_day(wall)
        )


def brute(
    plain: Plain, zone: ZoneInfo, after: datetime, until: datetime, step: timedelta = MINUTE
) -> Iterator[datetime]:
    """Every minute whose wall clock the schedule names: those left out never come, those shown twice come twice.

    step: to look at every so many minutes only.
    """
    instant = after.astimezone(UTC).replace(second=0, microsecond=0) + step
    while instant <= until:
        if plain.fires(instant.astimezone(zone)):
            yield instant
        instant += step


def procedure(plain: Plain, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first slot after an instant, as Kubernetes' search finds it."""
    instant = after.astimezone(UTC).replace(microsecond=0) + SECOND
    return _Procedure(plain, zone).search(instant)


class _Procedure:
    def __init__(self, plain: Plain, zone: ZoneInfo) -> None:
        self.plain = plain
        self.zone = zone

    def offset(self, instant: datetime) -> timedelta:
        return instant.astimezone(self.zone).utcoffset()

    def instant(self, year: int, month: int, day: int, time: timedelta) -> datetime:
        """Months and days that are too many run over into the next."""
        wall = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1, tzinfo=UTC) + (day - 1) * DAY + time
        offset = self.offset(wall)
        if not offset:
            return wall
        return wall - offset if self.offset(wall - offset) == offset else wall - self.offset(wall - offset)

    def search(self, instant: datetime) -> datetime | None:
        def wall() -> datetime:
            return instant.astimezone(self.zone)

        def time() -> timedelta:
            return timedelta(hours=wall().hour, minutes=wall().minute, seconds=wall().second)

        plain, touched, limit = self.plain, False, wall().year + 5
        while wall().year <= limit:
            carried = False
            while wall().month not in plain.months and not carried:
                if not touched:
                    touched, instant = True, self.instant(wall().year, wall().month, 1, timedelta())
                instant = self.instant(wall().year, wall().month + 1, wall().day, time())
                carried = wall().month == 1
            while not carried and not plain.names_day(wall()):
                if not touched:
                    touched, instant = True, self.instant(wall().year, wall().month, wall().day, timedelta())
                instant = self.instant(wall().year, wall().month, wall().day + 1, time())
                if wall().hour:
                    instant += (24 - wall().hour) * HOUR if wall().hour > 12 else -wall().hour * HOUR
                carried = wall().day == 1
            while not carried and wall().hour not in plain.hours:
                if not touched:
                    touched, instant = True, self.instant(wall().year, wall().month, wall().day, wall().hour * HOUR)
                instant += HOUR
                carried = wall().hour == 0
            while not carried and wall().minute not in plain.minutes:
                if not touched:
                    touched, instant = True, instant.replace(second=0)
                instant += MINUTE
                carried = wall().minute == 0
            while not carried and wall().second != 0:
                touched = True
                instant += SECOND
                carried = wall().second == 0
            if not carried:
                return instant
        return None
