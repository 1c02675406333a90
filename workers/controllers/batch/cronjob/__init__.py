"""The controllers of CronJobs (batch/v1's, Volcano's) and ScheduledJobs: `decide` orders the stages, one module a rule.

The registry and the Volcano room import the controllers; command line and page import `names`, `cursor`,
`run_requests` and `timetable`.
"""

from workers.controllers.batch.cronjob.decide import CRON_JOBS, SCHEDULED_JOBS, VOLCANO_CRON_JOBS, decide

__all__ = ["CRON_JOBS", "SCHEDULED_JOBS", "VOLCANO_CRON_JOBS", "decide"]
