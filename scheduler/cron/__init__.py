"""Cron schedules in exactly Kubernetes' dialect: when they fire, in any time zone, as pure functions.

`parse` reads a schedule's text, `Schedule` answers when it fires. docs/schedules.md describes the dialect.
"""

from scheduler.cron.errors import CronError, ZoneError
from scheduler.cron.parsing import parse
from scheduler.cron.schedule import Schedule
from scheduler.cron.zones import check_zone, zone

__all__ = ["CronError", "Schedule", "ZoneError", "check_zone", "parse", "zone"]
