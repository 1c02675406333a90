"""batch/v1 CronJob and penstock.dev/v1alpha1 ScheduledJob: one module per rule, and `decide`, which orders them."""

from workers.controllers.cronjob.decide import CRON_JOBS, SCHEDULED_JOBS, decide

__all__ = ["CRON_JOBS", "SCHEDULED_JOBS", "decide"]
