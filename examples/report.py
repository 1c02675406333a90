"""The program of the README's ScheduledJob: writes the report of a day. Environment: DAY; without it, today."""

import datetime
import os

print("report of", os.environ.get("DAY") or datetime.datetime.now(datetime.UTC).date().isoformat())
