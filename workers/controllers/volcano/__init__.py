"""The controllers of Volcano's kinds: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob.

The controllers' registry, the command line and the embedded API server import single modules of it.
"""
