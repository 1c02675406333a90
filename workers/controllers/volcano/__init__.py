"""Volcano's kinds, without Volcano: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from workers.controller import Controller

CONTROLLERS: tuple[Controller, ...] = ()
