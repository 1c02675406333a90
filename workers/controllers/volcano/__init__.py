"""Volcano's kinds, without Volcano: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from workers.controller import Controller
from workers.controllers import cronjob
from workers.controllers.composing import composed
from workers.controllers.volcano import commands, gangs, membership, queue, template, vcjob
from workers.controllers.volcano.flow import decide as flow
from workers.controllers.volcano.gangs.rules import DEFAULT, Rules
from workers.controllers.volcano.vcjob.site import Site


def controllers(site: Site, rules: Rules = DEFAULT) -> tuple[Controller, ...]:
    """The controllers of all of them.

    site: what kind of cluster pods are made for. rules: of the admission of gangs.
    """
    return (
        vcjob.controller(site),
        queue.controller(gangs.rounds(rules), everywhere=gangs.EVERYWHERE),
        composed(membership.WORKLOADS, gangs.controller(rules)),
        commands.CONTROLLER,
        flow.CONTROLLER,
        template.CONTROLLER,
        cronjob.VOLCANO_CRON_JOBS,
    )
