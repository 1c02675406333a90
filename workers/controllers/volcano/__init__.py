"""Volcano's kinds, without Volcano: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from workers.controller import Controller
from workers.controllers.volcano import template
from workers.controllers.volcano.flow import decide as flow

CONTROLLERS: tuple[Controller, ...] = (flow.CONTROLLER, template.CONTROLLER)
