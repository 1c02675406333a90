"""All controllers by the id of their kind, for the settings of a process."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from workers.api.keda_compat import NONE, Quirks
from workers.controllers import apps, eventjob
from workers.controllers.batch import cronjob, job
from workers.controllers.composite import composed
from workers.controllers.keda import authentication, scaledjob, scaledobject
from workers.decision.controller import Controller
from workers.errors import UserError
from workers.settings import Settings

if TYPE_CHECKING:
    from workers.controllers.volcano.volcano_controllers import GangChoices


def controllers(
    jobs: Literal["managed", "all"],
    *,
    cronjobs: bool,
    workloads: bool = False,
    policies: bool = False,
    volcano: bool = False,
    gangs: "GangChoices | None" = None,
    quirks: Quirks = NONE,
    cluster_scoped: bool = True,
) -> Mapping[str, Controller]:
    """Returns the enabled controllers by the id of their kind.

    jobs: the batch/v1 Jobs to reconcile, see `job.controller`. cronjobs: reconcile batch/v1 CronJobs; two controllers
    of one CronJob would warn of each other's Jobs. workloads: reconcile Deployments, ReplicaSets and StatefulSets of
    apps/v1; the cluster's own controllers must not run. policies: obey ScalePolicies; their CRD must be installed.
    volcano: reconcile Volcano's kinds; their CRDs must be installed, and Volcano's own controllers must not run. gangs:
    the choices for their gangs, or the defaults. quirks: KEDA's behavior that is wanted. cluster_scoped: reconcile
    kinds without namespaces too.
    """
    known = [
        scaledjob.controller(policies=policies, quirks=quirks),
        scaledobject.controller(quirks),
        *authentication.CONTROLLERS,
        cronjob.SCHEDULED_JOBS,
        eventjob.CONTROLLER,
        job.controller(jobs),
    ]
    pods = job.orphans(jobs)
    if cronjobs:
        known.append(cronjob.CRON_JOBS)
    if workloads:
        known += apps.CONTROLLERS
    if volcano:
        # A tenth of a worker's modules, which few installations use.
        from workers.controllers.volcano import volcano_controllers

        gangs = gangs or volcano_controllers.GangChoices()
        known += volcano_controllers.controllers(gangs)
        pods = composed(pods, volcano_controllers.pods(gangs))
    known.append(pods)
    return {controller.kind.id: controller for controller in known if cluster_scoped or controller.kind.namespaced}


def configured(settings: Settings) -> Mapping[str, Controller]:
    """Returns the controllers that the settings enable. All processes that share a store must have the same ones.

    Raises UserError for settings that exclude each other.
    """
    if not settings.cluster_scoped:
        _check_namespaced(settings)
    return controllers(
        settings.jobs,
        cronjobs=settings.cronjobs,
        workloads=settings.workloads,
        policies=settings.policies,
        volcano=settings.volcano,
        gangs=_gangs(settings) if settings.volcano else None,
        quirks=frozenset(settings.keda_quirks),
        cluster_scoped=settings.cluster_scoped,
    )


def _gangs(settings: Settings) -> "GangChoices":
    from workers.controllers.volcano import volcano_controllers

    return volcano_controllers.choices(settings)


def _check_namespaced(settings: Settings) -> None:
    if not settings.namespaces:
        raise UserError("PENSTOCK_CLUSTER_SCOPED=false: PENSTOCK_NAMESPACES must name the namespaces to watch")
    for name, kinds in (("volcano", "Queues"), ("policies", "ScalePolicies")):
        if getattr(settings, name):
            variable = f"PENSTOCK_{name.upper()}"
            raise UserError(f"{variable}: {kinds} have no namespace, and PENSTOCK_CLUSTER_SCOPED=false reads none such")
