"""Controllers of batch/v1 and of ScheduledJobs: `job` runs the pods of a Job, `cronjob` creates Jobs by the clock.

The registry imports both; tests and the command line import single rules.
"""
