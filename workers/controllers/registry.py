"""Which controllers there are."""

from collections.abc import Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Literal

from workers.api.keda_compat import NONE, Quirks
from workers.controllers import apps
from workers.controllers import volcano as volcanos
from workers.controllers.batch import cronjob, job
from workers.controllers.composite import composed
from workers.controllers.keda import authentication, scaledjob, scaledobject
from workers.controllers.volcano import membership
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES as ADMISSION
from workers.controllers.volcano.podgroup.group import GangRules
from workers.reconcile.controller import Controller
from workers.settings import Settings

#: Gangs are admitted by us, and placed by the cluster's own scheduler.
SITE = Site()


def controllers(
    jobs: Literal["managed", "all"],
    *,
    cronjobs: bool,
    workloads: bool = False,
    policies: bool = False,
    volcano: bool = False,
    site: Site = SITE,
    rules: GangRules = ADMISSION,
    quirks: Quirks = NONE,
) -> Mapping[str, Controller]:
    """All controllers by the id of their kind.

    jobs: which batch/v1 Jobs are ours, see `job.controller`. cronjobs: whether batch/v1 CronJobs are ours; two
    controllers of one CronJob would warn of each other's Jobs. workloads: whether the Deployments, ReplicaSets and
    StatefulSets of apps/v1 are ours; a cluster's own controllers and ours would undo each other's work.
    policies: whether ScalePolicies are obeyed; their definition must be in the cluster.
    volcano: whether Volcano's kinds are ours; their definitions must be in the cluster, and Volcano's own controllers
    must not. site: what kind of cluster the pods of its Jobs are made for. rules: of the admission of gangs.
    quirks: what of KEDA's behaviour is wanted for ScaledJobs where ours differs.
    """
    known = [
        scaledjob.controller(policies=policies, quirks=quirks),
        scaledobject.CONTROLLER,
        *authentication.CONTROLLERS,
        cronjob.SCHEDULED_JOBS,
        job.controller(jobs),
    ]
    pods = job.orphans(jobs)
    if cronjobs:
        known.append(cronjob.CRON_JOBS)
    if workloads:
        known += apps.CONTROLLERS
    if volcano:
        known += volcanos.controllers(site, rules)
        pods = composed(pods, membership.controller(site.gang_schedulers))
    known.append(pods)
    return {controller.kind.id: controller for controller in known}


def configured(settings: Settings) -> Mapping[str, Controller]:
    """The controllers that these settings ask for. All processes that share a mirror must have the same ones."""
    return controllers(
        settings.jobs,
        cronjobs=settings.cronjobs,
        workloads=settings.workloads,
        policies=settings.policies,
        volcano=settings.volcano,
        site=Site(
            gang_schedulers=frozenset(settings.scheduler_names),
            scheduler=settings.pod_scheduler,
            addresses=settings.pod_addresses,
        ),
        rules=GangRules(
            overcommit=Fraction(str(settings.gang_overcommit)),
            patience=timedelta(seconds=settings.gang_patience),
            overtaking=timedelta(seconds=settings.gang_overtaking),
        ),
        quirks=frozenset(settings.keda_quirks),
    )
