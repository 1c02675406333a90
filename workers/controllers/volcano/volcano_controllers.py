"""All controllers of Volcano's kinds: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from workers.controllers.batch import cronjob
from workers.controllers.composite import composed
from workers.controllers.volcano import commands, job, jobtemplate, membership, podgroup, queue
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.jobflow import decide as flow
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.decision.controller import Controller


def controllers(site: Site, rules: GangRules = DEFAULT_RULES) -> tuple[Controller, ...]:
    """Returns one controller per kind. site: the cluster that pods are created for. rules: of gang admission."""
    return (
        job.controller(site),
        queue.controller(podgroup.rounds(rules), cluster_wide=podgroup.EVERYWHERE),
        composed(membership.WORKLOADS, podgroup.controller(rules)),
        commands.CONTROLLER,
        flow.CONTROLLER,
        jobtemplate.CONTROLLER,
        cronjob.VOLCANO_CRON_JOBS,
    )
