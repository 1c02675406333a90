"""All controllers of Volcano's kinds: Job, Queue, PodGroup, Command, JobFlow, JobTemplate and CronJob."""

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from workers.controllers.batch import cronjob
from workers.controllers.composite import composed
from workers.controllers.volcano import commands, job, jobtemplate, membership, podgroup, queue
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.jobflow import decide as flow
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES, GangRules
from workers.decision.controller import Controller
from workers.settings import Settings

#: The default site: Penstock admits gangs, and the cluster's own scheduler places their pods.
SITE = Site()


@dataclass(frozen=True, slots=True)
class GangChoices:
    """What an installation chooses. site: the cluster that pods are created for. rules: of gang admission."""

    site: Site = SITE
    rules: GangRules = DEFAULT_RULES


def choices(settings: Settings) -> GangChoices:
    """Returns what these settings choose."""
    return GangChoices(
        Site(
            gang_schedulers=frozenset(settings.scheduler_names),
            scheduler=settings.pod_scheduler,
            addresses=settings.pod_addresses,
            topology=settings.gang_topology,
        ),
        GangRules(
            overcommit=Fraction(str(settings.gang_overcommit)),
            patience=timedelta(seconds=settings.gang_patience),
            overtaking=timedelta(seconds=settings.gang_overtaking),
            topology=settings.gang_topology,
            reclaim=settings.gang_reclaim,
        ),
    )


def controllers(chosen: GangChoices) -> tuple[Controller, ...]:
    """Returns one controller per kind."""
    site, rules = chosen.site, chosen.rules
    return (
        job.controller(site),
        queue.controller(podgroup.rounds(rules), cluster_wide=podgroup.EVERYWHERE),
        composed(membership.WORKLOADS, podgroup.controller(rules)),
        commands.CONTROLLER,
        flow.CONTROLLER,
        jobtemplate.CONTROLLER,
        cronjob.VOLCANO_CRON_JOBS,
    )


def pods(chosen: GangChoices) -> Controller:
    """Returns the controller of the pods that are in a gang."""
    return membership.controller(chosen.site.gang_schedulers)
