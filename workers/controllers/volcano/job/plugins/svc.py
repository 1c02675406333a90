"""svc: pods find each other. A headless Service gives them names, files and variables say which names there are."""

from collections.abc import Mapping
from typing import ClassVar

from workers.api import loopback_addresses
from workers.api.kinds import CONFIG_MAP, NETWORK_POLICY, SERVICE, Kind, Object
from workers.api.volcano.arguments import Value
from workers.api.volcano.job import Job
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.plugins.containers import with_variables, with_volume
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot
from workers.decision.plan import Create

#: Mount path of the host lists.
MOUNT_PATH = "/etc/volcano"


class Svc(Plugin):
    """A ConfigMap with all hosts, a Service, and a NetworkPolicy that admits only the job's own pods."""

    name = "svc"
    defaults: ClassVar[Mapping[str, Value]] = {
        "publish-not-ready-addresses": False,
        "disable-network-policy": False,
        "inject-hosts-env": True,
    }

    def objects(self, job: Job, site: Site) -> tuple[Create, ...]:
        made = [(CONFIG_MAP, {"data": hosts(job, site)}), (SERVICE, self._service(job))]
        if not self.arguments["disable-network-policy"]:
            made.append((NETWORK_POLICY, _policy(job)))
        # A Service or NetworkPolicy of this name that the user created is accepted.
        return tuple(Create(kind, _whole(job, kind, content), any_owner=kind != CONFIG_MAP) for kind, content in made)

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        job = slot.job
        spec = pod["spec"]
        placed = {
            "hostname": spec.get("hostname") or pod["metadata"]["name"],
            "subdomain": spec.get("subdomain") or job.metadata.name,
        }
        named = _addressed(slot, {**pod, "spec": {**spec, **placed}})
        if self.arguments["inject-hosts-env"]:
            named = with_variables(named, _variables(job))
        volume = config_map(job)
        return with_volume(
            named, {"name": volume, "configMap": {"name": volume}}, {"name": volume, "mountPath": MOUNT_PATH}
        )

    def _service(self, job: Job) -> Object:
        spec = {"clusterIP": "None", "selector": names.labels(job)}
        published = self.arguments["publish-not-ready-addresses"]
        return {"spec": {**spec, "publishNotReadyAddresses": True} if published else spec}


def config_map(job: Job) -> str:
    """The name of the ConfigMap, and of its volume."""
    return f"{job.metadata.name}-svc"


def hosts(job: Job, site: Site) -> dict[str, str]:
    """By file or variable, the hosts of each task, and how many there are."""
    data = {}
    for task in job.spec.tasks:
        found, key = names.hosts(job, site, task), names.variable(task)
        data[f"{key}.host"] = "\n".join(found)
        data[f"VC_{key.upper()}_HOSTS"] = ",".join(found)
        data[f"VC_{key.upper()}_NUM"] = str(len(found))
    return data


def _addressed(slot: PodSlot, pod: Object) -> Object:
    """The pod; where hosts are addresses, with the address by which the others know it."""
    if not slot.site.addresses:
        return pod
    metadata, spec = pod["metadata"], pod["spec"]
    address = slot.site.host(metadata["namespace"], f"{spec['hostname']}.{spec['subdomain']}")
    annotations = {**metadata["annotations"], loopback_addresses.ADDRESS: address}
    return {**pod, "metadata": {**metadata, "annotations": annotations}}


def _variables(job: Job) -> list[Object]:
    keys = [f"VC_{names.variable(task).upper()}_{part}" for task in job.spec.tasks for part in ("HOSTS", "NUM")]
    return [
        {"name": key, "valueFrom": {"configMapKeyRef": {"name": config_map(job), "key": key}}}
        for key in dict.fromkeys(keys)
    ]


def _policy(job: Job) -> Object:
    ours = {"matchLabels": names.labels(job)}
    spec = {"podSelector": ours, "ingress": [{"from": [{"podSelector": ours}]}], "policyTypes": ["Ingress"]}
    return {"spec": spec}


def _whole(job: Job, kind: Kind, content: Object) -> Object:
    name = config_map(job) if kind == CONFIG_MAP else job.metadata.name
    head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": names.metadata(job, name)}
    return {**head, **content}
