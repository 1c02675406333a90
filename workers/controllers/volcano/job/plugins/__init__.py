"""The plugins of a Job. They act in a fixed order, because some read what others wrote.

The modules of `job` import this package; the webhook's rules read KNOWN.
"""

from collections.abc import Mapping
from itertools import chain

from workers.api.kinds import CONFIG_MAP, SECRET, Kind, Object, Ref, ref_of
from workers.api.volcano.job import Job
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.plugins.env import Env
from workers.controllers.volcano.job.plugins.hcclrank import Hcclrank
from workers.controllers.volcano.job.plugins.mpi import Mpi
from workers.controllers.volcano.job.plugins.plugin import Plugin, PluginError, PodSlot
from workers.controllers.volcano.job.plugins.pytorch import Pytorch
from workers.controllers.volcano.job.plugins.ray import Ray
from workers.controllers.volcano.job.plugins.ssh import Ssh
from workers.controllers.volcano.job.plugins.svc import Svc
from workers.controllers.volcano.job.plugins.tensorflow import Tensorflow
from workers.decision.plan import Create, Delete, Discard, Patch

__all__ = [
    "KNOWN",
    "PluginError",
    "PodSlot",
    "objects",
    "pod",
    "remarks",
    "removals",
    "repairs",
    "resources",
    "secrets",
]

#: In their order of execution.
_ORDER: tuple[type[Plugin], ...] = (Env, Svc, Ssh, Pytorch, Tensorflow, Mpi, Ray, Hcclrank)
#: The names of all plugins.
KNOWN = frozenset(each.name for each in _ORDER)


def objects(job: Job, site: Site) -> tuple[Create, ...]:
    """Returns the objects that plugins create for the job, all owned by it.

    Raises PluginError for an unknown plugin, or a job that one of them cannot serve.
    """
    return tuple(made for plugin in _of(job) for made in plugin.objects(job, site))


def pod(slot: PodSlot, made: Object) -> Object:
    """Returns a pod with its plugins' changes. Raises PluginError as `objects` does."""
    for plugin in _of(slot.job):
        made = plugin.pod(slot, made)
    return made


def remarks(job: Job) -> tuple[str, ...]:
    """Returns the plugins' remarks about wrong arguments. Raises PluginError."""
    return tuple(f"plugin {plugin.name}: {plugin.remark}" for plugin in _of(job) if plugin.remark)


def resources(job: Job) -> dict[str, str]:
    """Returns the entries of `status.controlledResources` while the plugins' objects exist."""
    return {f"plugin-{plugin.name}": plugin.name for plugin in _known(job) if plugin.recorded}


def repairs(job: Job, site: Site, seen: Mapping[Ref, Object | None]) -> tuple[Create | Patch, ...]:
    """Returns the steps that restore the plugins' observed objects.

    seen: the observed objects; Secrets are never observed. A ConfigMap follows the job's tasks; an edited Service or
    NetworkPolicy stays as it is.
    """
    steps: list[Create | Patch] = []
    for wanted in objects(job, site):
        ref = ref_of(wanted.kind, wanted.body)
        if not _is_followed(wanted.kind):
            continue
        found = seen.get(ref)
        if found is None:
            steps.append(wanted)
        elif wanted.kind == CONFIG_MAP and found.get("data") != wanted.body["data"]:
            data = {**dict.fromkeys(found.get("data") or (), None), **wanted.body["data"]}
            steps.append(Patch(ref, {"data": data}, found["metadata"]["resourceVersion"]))
    return tuple(steps)


def secrets(job: Job, site: Site) -> tuple[Create, ...]:
    """Returns the creation of Secrets. They are not observed, so every plan that creates pods repeats it."""
    return tuple(wanted for wanted in objects(job, site) if not _is_followed(wanted.kind))


def removals(job: Job, site: Site, seen: Mapping[Ref, Object | None]) -> tuple[Delete | Discard, ...]:
    """Returns the steps that delete all plugins' objects; plugins that cannot serve the job have none."""
    steps: list[Delete | Discard] = []
    for wanted in chain.from_iterable(_possible(plugin, job, site) for plugin in _known(job)):
        ref = ref_of(wanted.kind, wanted.body)
        if not _is_followed(wanted.kind):
            steps.append(Discard(ref))
        elif found := seen.get(ref):
            steps.append(Delete(ref, found["metadata"]["uid"]))
    return tuple(steps)


def _is_followed(kind: Kind) -> bool:
    return kind != SECRET


def _of(job: Job) -> tuple[Plugin, ...]:
    given = job.spec.plugins or {}
    if unknown := sorted(set(given) - KNOWN):
        raise PluginError(f"plugin {', '.join(unknown)}: not known; there are {', '.join(sorted(KNOWN))}")
    return _known(job)


def _known(job: Job) -> tuple[Plugin, ...]:
    given = job.spec.plugins or {}
    return tuple(plugin(given[plugin.name] or ()) for plugin in _ORDER if plugin.name in given)


def _possible(plugin: Plugin, job: Job, site: Site) -> tuple[Create, ...]:
    """Returns a plugin's objects; none for a job that it cannot serve."""
    try:
        return plugin.objects(job, site)
    except PluginError:
        return ()
