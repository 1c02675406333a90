"""CronJobs, batch/v1's and Volcano's, and ScheduledJobs: one module per rule, and `decide`, which orders them."""

from workers.controllers.batch.cronjob.decide import CRON_JOBS, SCHEDULED_JOBS, VOLCANO_CRON_JOBS, decide

__all__ = ["CRON_JOBS", "SCHEDULED_JOBS", "VOLCANO_CRON_JOBS", "decide"]
