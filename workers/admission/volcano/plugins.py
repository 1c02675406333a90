"""The plugins of Volcano's Job: which there are, which of them need others, and what they need of the tasks."""

from collections.abc import Iterator, Mapping

from workers.admission.findings import Finding
from workers.api import names
from workers.api.volcano import arguments
from workers.api.volcano.arguments import Value
from workers.api.volcano.job import JobSpec

KNOWN = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
#: Arguments of mpi with their defaults.
MPI: Mapping[str, Value] = {"master": "master", "worker": "worker", "port": 22}
#: Arguments of ray with their defaults.
RAY: Mapping[str, Value] = {
    "head": "head",
    "headContainer": "head",
    "worker": "worker",
    "workerContainer": "worker",
    "port": 6379,
    "dashboardPort": 8265,
    "clientPort": 10001,
}
#: By plugin that cannot run without the task of its leader: its arguments, and the one that names the task.
_LEADERS: Mapping[str, tuple[Mapping[str, Value], str]] = {"mpi": (MPI, "master"), "ray": (RAY, "head")}
#: Plugins that a plugin requires.
_IMPLIED = {"mpi": ("svc", "ssh"), "pytorch": ("svc",), "ray": ("svc",), "tensorflow": ("svc",)}
#: Suffixes of the Services that plugins create.
_SERVICES = {"svc": "", "ray": "-head-svc"}


def implied(plugins: Mapping[str, object]) -> list[str]:
    """The plugins that those given need and that are not among them."""
    wanted = [name for plugin in plugins for name in _IMPLIED.get(plugin, ())]
    return [name for name in dict.fromkeys(wanted) if name not in plugins]


def problems(spec: JobSpec, path: str) -> Iterator[Finding]:
    """Returns the findings on the plugins of a job."""
    for name, given in (spec.plugins or {}).items():
        if name not in KNOWN:
            yield Finding(f"{path}[{name}]", f"there is no plugin {name!r}; there are {', '.join(KNOWN)}")
        if name in _LEADERS:
            defaults, role = _LEADERS[name]
            leader = str(arguments.parse(given or (), defaults)[0][role])
            if not spec.task(leader):
                text = f"there is no task {leader!r} for its {role}; its argument --{role} names it"
                yield Finding(f"{path}[{name}]", text)


def misnamed(spec: JobSpec, job: str) -> Iterator[Finding]:
    """Why plugins could not make their Services for a job of this name: other objects may have names with dots."""
    given = spec.plugins or {}
    for plugin in (*given, *implied(given)):
        if plugin in _SERVICES:
            service = f"{job}{_SERVICES[plugin]}"
            for problem in names.dns_1035_label(service):
                text = f"the Service of the plugin {plugin} is called after it, {service!r}: {problem}"
                yield Finding("metadata.name", text)
