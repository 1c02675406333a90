"""The plugins of Volcano's Job: which there are, which of them need others, and what they need of the tasks."""

from collections.abc import Iterator, Mapping, Sequence

from workers.admission.findings import Finding
from workers.api.volcano.job import Spec

KNOWN = ("env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow")
#: What a plugin does not work without.
_IMPLIED = {"mpi": ("svc", "ssh"), "pytorch": ("svc",), "ray": ("svc",), "tensorflow": ("svc",)}


def implied(plugins: Mapping[str, object]) -> list[str]:
    """The plugins that those given need and that are not among them."""
    wanted = [name for plugin in plugins for name in _IMPLIED.get(plugin, ())]
    return [name for name in dict.fromkeys(wanted) if name not in plugins]


def problems(spec: Spec, path: str) -> Iterator[Finding]:
    """What is wrong with the plugins of a job."""
    for name, arguments in (spec.plugins or {}).items():
        if name not in KNOWN:
            yield Finding(f"{path}[{name}]", f"there is no plugin {name!r}; there are {', '.join(KNOWN)}")
        if name == "mpi" and not spec.task(master := _argument(arguments or (), "master", "master")):
            yield Finding(f"{path}[mpi]", f"there is no task {master!r} for its master; its argument --master names it")


def _argument(arguments: Sequence[str], name: str, default: str) -> str:
    """The value of a flag as Go's package of that name reads it: the last one counts."""
    value = default
    for index, text in enumerate(arguments):
        flag, given, rest = text.partition("=")
        if flag in (f"-{name}", f"--{name}"):
            value = rest if given else next(iter(arguments[index + 1 :]), default)
    return value
