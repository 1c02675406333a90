"""ssh: pods may log in to each other, with a key pair that is made for the job."""

from collections.abc import Mapping
from typing import ClassVar

from workers.api.kinds import SECRET, Object
from workers.api.volcano.arguments import Value
from workers.api.volcano.job import Job
from workers.controllers.volcano.job import names
from workers.controllers.volcano.job.names import Site
from workers.controllers.volcano.job.plugins.containers import with_volume
from workers.controllers.volcano.job.plugins.plugin import Plugin, PodSlot
from workers.decision.plan import Create

#: Root's key folder.
ROOT = "/root/.ssh"
#: The folder inside the volume.
FOLDER = ".ssh"
PORT = 22
_PORTS = range(1, 2**16)


class Ssh(Plugin):
    """A Secret with keys and a client's configuration, mounted into every container."""

    name = "ssh"
    defaults: ClassVar[Mapping[str, Value]] = {
        "ssh-key-file-path": ROOT,
        "ssh-private-key": "",
        "ssh-public-key": "",
        "ssh-port": PORT,
    }

    def objects(self, job: Job, site: Site) -> tuple[Create, ...]:
        private, public = self.text("ssh-private-key"), self.text("ssh-public-key")
        given = {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public} if private and public else {}
        body = {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": names.metadata(job, secret(job)),
            "type": "Opaque",
            "stringData": {**given, "config": self._config(job, site)},
        }
        return (Create(SECRET, body, generate=None if given else "ssh-key"),)

    def pod(self, slot: PodSlot, pod: Object) -> Object:
        path = self.text("ssh-key-file-path")
        keys = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
        source = {
            "secretName": secret(slot.job),
            "items": [{"key": key, "path": f"{FOLDER}/{key}"} for key in keys],
            # sshd refuses root's keys if others may read them; other users need the group's permission.
            "defaultMode": 0o600 if path == ROOT else 0o644,
        }
        volume = secret(slot.job)
        mount = {"name": volume, "mountPath": path, "subPath": FOLDER}
        return with_volume(pod, {"name": volume, "secret": source}, mount)

    def _config(self, job: Job, site: Site) -> str:
        port = self.number("ssh-port")
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.spec.tasks:
            pairs = zip(names.hostnames(job, task), names.hosts(job, site, task), strict=True)
            for name, host in pairs:
                lines += [f"Host {name}", f"  HostName {host}", f"  Port {port if port in _PORTS else PORT}"]
        return "\n".join((*lines, ""))


def secret(job: Job) -> str:
    """The name of the Secret, and of its volume."""
    return f"{job.metadata.name}-ssh"
