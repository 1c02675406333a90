"""Cron schedules in exactly Kubernetes' dialect, in any time zone, as pure functions (docs/schedules.md).

`parse` reads a schedule's text, `Schedule` has its slots. Every package may import it, decisions included.
"""

from scheduler.cron.errors import CronError, ZoneError
from scheduler.cron.parsing import parse
from scheduler.cron.schedule import Schedule
from scheduler.cron.zones import check_zone, zone

__all__ = ["CronError", "Schedule", "ZoneError", "check_zone", "parse", "zone"]
