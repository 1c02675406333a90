"""The sections of `describe` about schedules: the next runs, and the outcomes of earlier ones."""

from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from deploy.cli import output
from deploy.object_rows import schedules
from workers.api import times
from workers.api.kinds import Kind, Object
from workers.errors import UserError

if TYPE_CHECKING:
    from workers.controllers.batch.cronjob.timetable import Timetable

#: The number of future slots shown.
SHOWN = 5


def show_next(kind: Kind, body: Object, now: datetime) -> None:
    """Prints the next slots as a table, or the reason why there are none."""
    from scheduler.cron import CronError

    try:
        spec, timetable, handled = schedules.timetable_of(kind, body)
    except (UserError, CronError) as error:
        output.say(f"Next runs:     none: {error}")
        return
    if spec.suspend:
        output.say("Next runs:     none while it is suspended")
        return
    slots = list(islice(schedules.upcoming(timetable, handled, now), SHOWN))
    if not slots:
        output.say("Next runs:     none: the schedule never fires")
        return
    output.say("Next runs:")
    output.table(*next_runs(timetable, slots, now), indent="  ")


def next_runs(timetable: "Timetable", slots: list[datetime], now: datetime) -> tuple[list[str], list[list[str]]]:
    """Returns header and rows of the slots, with columns for jitter and schedule only where they tell slots apart."""
    header, rows = ["SLOT", "STARTS IN"], []
    several = len(timetable.lines) > 1
    header += ["JITTER"] * bool(timetable.jitter) + ["SCHEDULE"] * several
    for slot in slots:
        line = timetable.line(slot)
        start = timetable.fires(slot)
        row = [_local(slot, line.zone), output.span(start - now)]
        if timetable.jitter:
            row.append(output.span(start - slot))
        if several:
            row.append(line.text)
        rows.append(row)
    return header, rows


def _local(slot: datetime, zone: str | None) -> str:
    """Returns the slot in its time zone, or in UTC."""
    from scheduler import cron

    return slot.astimezone(cron.zone(zone)).isoformat() if zone else times.render(slot)


def show_runs(body: Object, now: datetime) -> None:
    """Prints the active runs and the last outcomes, the newest first; nothing if the status holds none."""
    status = body.get("status") or {}
    known = [*(status.get("outcomes") or ()), *(status.get("runs") or ())]
    if not known:
        return
    output.say("Runs:")
    rows = [_run(entry, now) for entry in reversed(known)]
    output.table(["SLOT", "TRIGGER", "OUTCOME", "ATTEMPTS", "ENDED", "TOOK", "JOB", "WHY"], rows, indent="  ")


def _run(entry: Object, now: datetime) -> list[str]:
    start, end, again = (entry.get(field) for field in ("startTime", "completionTime", "retryTime"))
    why = ": ".join(filter(None, (entry.get("reason"), entry.get("message"))))
    if again:
        why += f"; again in {output.span(times.parse(again) - now)}"
    return [
        entry.get("scheduledTime") or "",
        entry.get("trigger") or "",
        entry.get("outcome") or "",
        str(entry.get("attempts") or ""),
        f"{output.age(end, now)} ago" if end else "",
        output.span((times.parse(end) if end else now) - times.parse(start)) if start else "",
        entry.get("job") or "",
        " ".join(why.split()),
    ]
