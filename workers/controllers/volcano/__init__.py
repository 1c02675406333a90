"""Volcano's kinds, without Volcano: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from workers.controller import Controller
from workers.controllers.volcano import commands, queue, template, vcjob
from workers.controllers.volcano.flow import decide as flow
from workers.controllers.volcano.vcjob.site import Site


def controllers(site: Site) -> tuple[Controller, ...]:
    """The controllers of all of them. site: what kind of cluster pods are made for."""
    return (
        vcjob.controller(site),
        queue.controller(),
        commands.CONTROLLER,
        flow.CONTROLLER,
        template.CONTROLLER,
    )
