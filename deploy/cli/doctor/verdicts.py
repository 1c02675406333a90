"""The checks: each judges the facts and says what to do. Pure.

A verdict of None means that there is nothing to judge: nothing runs, or this machine does not show it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scalers.wakeups.redis_listener import judge
from workers.client.missing_rights import MissingRight

Level = Literal["ok", "warning", "wrong", "skipped"]

#: Seconds that clocks may differ: a third of the default lease, and beyond what a slow answer explains.
SKEW = 5.0
#: Open files that the API server and the broker need for a few hundred clients.
OPEN_FILES = 1024
INOTIFY_INSTANCES, INOTIFY_WATCHES = 64, 8192
#: Missing rights that are listed.
DENIED = 12
OLDEST_PYTHON, OLDEST_BROKER = (3, 11), (6, 2)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """A broker that was asked. problem: why it does not answer. named: a setting names it; otherwise the home does.

    config: of its settings, those that it shows. skew: seconds that its clock is ahead of this machine's. versions: of
    the processes of Penstock that are connected. user: of the login. lacking: what it may not do and Penstock needs;
    degraded: what is missing for want of a command, by that command.
    """

    address: str
    named: bool
    problem: str = ""
    version: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    skew: float | None = None
    versions: frozenset[str] = frozenset()
    user: str = "default"
    lacking: tuple[str, ...] = ()
    degraded: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """An API server that was asked. source: what chose it. ours: it is the embedded one of the home.

    role: the one whose rules this user was asked for. denied: what it may not do of them. missing: definitions of ours
    that it does not serve. lacks_cron_jobs: the settings ask for CronJobs, and it serves none of batch/v1.
    """

    source: str
    named: bool
    ours: bool
    problem: str = ""
    version: str = ""
    skew: float | None = None
    role: str = "penstock-standalone"
    denied: tuple[MissingRight, ...] = ()
    missing: tuple[str, ...] = ()
    lacks_cron_jobs: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of one examination. None: not known here, or there is no such thing.

    unmet: requirements of the installed package that are not met. running: process id of the `penstock up` that owns
    the home. process: where a process of Penstock serves its health, such as that of this container. ports: those that
    `penstock up` will listen on, and whether each is free. kept: the same of those that its broker and API server had
    last. limits: of the kernel, by name. cluster_scoped: the setting.
    """

    penstock: str
    installed: str | None
    python: tuple[int, int]
    home: str
    system: str = "Linux"
    unmet: tuple[str, ...] = ()
    home_problem: str = ""
    running: str | None = None
    process: str = ""
    ports: Mapping[int, bool] = field(default_factory=dict)
    kept: Mapping[int, bool] = field(default_factory=dict)
    settings_problem: str = ""
    misspelt: tuple[str, ...] = ()
    limits: Mapping[str, int | None] = field(default_factory=dict)
    broker: BrokerFacts | None = None
    cluster: ClusterFacts | None = None
    cluster_scoped: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """One finding. advice: what to do about it."""

    level: Level
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A verdict with the name of its check."""

    check: str
    level: Level
    text: str
    advice: str = ""


Check = Callable[[Facts], Verdict | None]


def examine(facts: Facts) -> list[CheckResult]:
    """Returns one finding per check, in the checks' order."""
    return [
        CheckResult(name, verdict.level, verdict.text, verdict.advice)
        for name, check in CHECKS.items()
        for verdict in (check(facts) or Verdict("skipped", "nothing to judge here"),)
    ]


def _versions(facts: Facts) -> Verdict:
    needed = ".".join(map(str, OLDEST_PYTHON))
    python = ".".join(map(str, facts.python))
    if facts.python < OLDEST_PYTHON:
        return Verdict("wrong", f"Python {python} is too old", f"install Python {needed} or newer")
    if facts.unmet:
        return Verdict(
            "wrong", "not installed as required: " + ", ".join(facts.unmet), "pip install --upgrade penstock"
        )
    if facts.installed not in (None, facts.penstock):
        text = f"the code is {facts.penstock}, the installed package {facts.installed}"
        return Verdict("warning", text, "pip install --upgrade penstock, or `pip install -e .` in a checkout")
    return Verdict("ok", f"Penstock {facts.penstock}, Python {python}")


def _settings(facts: Facts) -> Verdict:
    if facts.settings_problem:
        return Verdict("wrong", facts.settings_problem, "`penstock settings` lists every setting with its meaning")
    if facts.misspelt:
        return Verdict("warning", "; ".join(facts.misspelt), "correct the name of the variable, or unset it")
    return Verdict("ok", "can be read")


def _home(facts: Facts) -> Verdict:
    if facts.home_problem:
        return Verdict("wrong", facts.home_problem, "mend that, or choose another folder with --home")
    running = f"`penstock up` runs in it (pid {facts.running})" if facts.running else "nothing runs in it"
    return Verdict("ok", f"{facts.home}: {running}")


def _ports(facts: Facts) -> Verdict | None:
    every = {**facts.kept, **facts.ports}
    if not every:
        return None
    taken = sorted(port for port, free in every.items() if not free)
    if not taken:
        return Verdict("ok", f"free: {', '.join(map(str, sorted(every)))}")
    listed = ", ".join(map(str, taken))
    if facts.running:
        return Verdict("ok", f"taken, as by the running `penstock up`: {listed}")
    if facts.process:
        return Verdict("ok", f"taken, as by the process of Penstock that answers at {facts.process}: {listed}")
    stop = "stop what listens there (`ss -ltnp` shows it)"
    if any(port in facts.ports for port in taken):
        advice = f"{stop}, or choose others with --metrics-port and --gateway"
        return Verdict("wrong", f"taken by another process: {listed}", advice)
    advice = f"{stop}, or let `penstock up` take other ports; kubectl then needs its kubeconfig again"
    return Verdict("warning", f"taken by another process: {listed}", advice)


def _broker(facts: Facts) -> Verdict | None:
    found = facts.broker
    if found is None:
        return None
    if found.problem and not found.named and not facts.running:
        return Verdict("skipped", f"{found.address}: stopped; `penstock up` starts it")
    if found.problem:
        advice = "start it, or correct --broker" if found.named else f"read {facts.home}/logs/broker.log"
        return Verdict("wrong", f"{found.address}: {found.problem}", advice)
    numbers = found.version.split(".")[:2]
    if all(part.isdecimal() for part in numbers) and tuple(map(int, numbers)) < OLDEST_BROKER:
        return Verdict("wrong", f"{found.address}: version {found.version}", "use Redis 6.2 or newer, or Valkey")
    return Verdict("ok", f"{found.address}: answers{f', version {found.version}' if found.version else ''}")


def _permissions(facts: Facts) -> Verdict | None:
    found = facts.broker
    if found is None or found.problem:
        return None
    if found.lacking:
        commands = [each for each in found.lacking if each not in ("keys", "channels")]
        text = f"user {found.user} may not " + ", ".join(
            (
                *(f"run {each}" for each in commands),
                *(f"use Penstock's {each}" for each in found.lacking[len(commands) :]),
            )
        )
        granted = " ".join(f"+{each}" for each in commands) or "the patterns of docs/brokers.md"
        return Verdict("wrong", text, f"ACL SETUSER {found.user} {granted}; deploy/broker.acl has all it needs")
    if found.degraded:
        text = "; ".join(f"without {name} {what}" for name, what in found.degraded.items())
        return Verdict("warning", f"user {found.user}: {text}", "grant them, where the service allows it")
    return Verdict("ok", f"user {found.user} may do what Penstock does")


def _memory(facts: Facts) -> Verdict | None:
    policy = _config(facts, "maxmemory-policy")
    if policy is None:
        return None
    if policy == "noeviction":
        return Verdict("ok", "noeviction")
    advice = "CONFIG SET maxmemory-policy noeviction, and the same in the server's configuration file"
    if _config(facts, "maxmemory") == "0":
        return Verdict("warning", f"{policy}, without effect while maxmemory is 0", advice)
    return Verdict("wrong", f"{policy}: the broker forgets work when it is full", advice)


def _durability(facts: Facts) -> Verdict | None:
    appendonly = _config(facts, "appendonly")
    if appendonly is None:
        return None
    if appendonly == "yes":
        return Verdict("ok", "appendonly yes")
    text = "appendonly no: pushed events and the embedded cluster's objects are lost when the broker stops"
    return Verdict("warning", text, "CONFIG SET appendonly yes, and the same in the server's configuration file")


def _notifications(facts: Facts) -> Verdict | None:
    flags = _config(facts, "notify-keyspace-events")
    if flags is None:
        return None
    state, detail = judge(flags)
    if detail is None:
        return Verdict("ok", f"'{flags}': pushes are noticed at once")
    advice = "CONFIG SET notify-keyspace-events Klszhtg on the servers that triggers measure"
    return Verdict("warning" if state == "off" else "ok", detail, advice if state == "off" else "")


def _others(facts: Facts) -> Verdict | None:
    found = facts.broker
    if found is None or found.problem:
        return None
    others = sorted(found.versions - {facts.penstock})
    if not others:
        return Verdict("ok", "no process of another version")
    advice = "stop the others first, or use another --broker or --prefix: versions do not share a queue"
    return Verdict(
        "wrong", f"processes of Penstock {', '.join(others)} are connected; this is {facts.penstock}", advice
    )


def _clocks(facts: Facts) -> Verdict | None:
    skews = {
        name: found.skew
        for name, found in (("the broker", facts.broker), ("the API server", facts.cluster))
        if found is not None and found.skew is not None
    }
    if not skews:
        return None
    off = [
        f"{name}'s is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
        for name, skew in skews.items()
        if abs(skew) > SKEW
    ]
    if off:
        advice = "synchronise the clocks (NTP: chrony, systemd-timesyncd); schedules follow the broker's clock"
        return Verdict("wrong", f"clocks differ: {', '.join(off)} of this machine's", advice)
    return Verdict("ok", f"agree with {' and '.join(skews)}")


def _cluster(facts: Facts) -> Verdict | None:
    found = facts.cluster
    if found is None:
        return None
    if found.problem and found.ours and not facts.running:
        return Verdict("skipped", f"{found.source}: stopped; `penstock up` starts it")
    if found.problem:
        advice = (
            f"read {facts.home}/logs/apiserver.log" if found.ours else "correct --kubeconfig, --context or KUBECONFIG"
        )
        level: Level = "wrong" if found.ours or found.named else "warning"
        return Verdict(level, f"{found.source}: {found.problem}", advice)
    if found.lacks_cron_jobs:
        text = f"{found.source}: version {found.version} serves no CronJobs of batch/v1, which --cronjobs needs"
        return Verdict("wrong", text, "use Kubernetes 1.21 or newer, or leave CronJobs to the cluster (--no-cronjobs)")
    return Verdict("ok", f"{found.source}: answers, version {found.version}")


def _rights(facts: Facts) -> Verdict | None:
    found = facts.cluster
    if found is None or found.problem:
        return None
    if found.denied:
        listed = ", ".join(map(str, found.denied[:DENIED]))
        more = f" and {len(found.denied) - DENIED} more" if len(found.denied) > DENIED else ""
        advice = (
            f"grant them with the role {found.role}: `penstock rights` prints its rules, "
            "and docs/access.md has the reason of each"
        )
        return Verdict("wrong", f"this user may not {listed}{more}", advice)
    if found.missing:
        advice = "penstock crds | kubectl apply -f -, or `penstock up --install-crds`"
        return Verdict("wrong", f"the cluster lacks {', '.join(found.missing)}", advice)
    if not facts.cluster_scoped:
        text = "this user may do what Penstock does in its namespaces; ClusterTriggerAuthentications are not read"
        return Verdict("ok", f"{text} (PENSTOCK_CLUSTER_SCOPED=false)")
    return Verdict("ok", "this user may do what Penstock does, and our kinds are served")


def _namespaces(facts: Facts) -> Verdict | None:
    allowed = facts.limits.get("user namespaces")
    if allowed is None:
        return None
    if allowed:
        return Verdict("ok", "users may make them")
    advice = (
        "sysctl user.max_user_namespaces=15000; where they exist, kernel.unprivileged_userns_clone=1 and "
        "kernel.apparmor_restrict_unprivileged_userns=0"
    )
    return Verdict("warning", "off: pods cannot have paths of their own", advice)


def _proc(facts: Facts) -> Verdict | None:
    if facts.system != "Linux":
        return Verdict(
            "warning", f"{facts.system}: the resource usage of pods is not measured, and they share 127.0.0.1"
        )
    if not facts.limits.get("/proc"):
        return Verdict("warning", "/proc is not mounted: nothing of pods is measured", "mount -t proc proc /proc")
    groups = "cgroups v2" if facts.limits.get("cgroups v2") else "no cgroups v2"
    return Verdict("ok", f"/proc is there, {groups}; the limits of pods are not enforced either way")


def _inotify(facts: Facts) -> Verdict | None:
    instances, watches = facts.limits.get("inotify instances"), facts.limits.get("inotify watches")
    if instances is None or watches is None:
        return None
    text = f"{instances} instances, {watches} watches"
    if instances >= INOTIFY_INSTANCES and watches >= INOTIFY_WATCHES:
        return Verdict("ok", text)
    advice = "sysctl fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536"
    return Verdict("warning", f"{text}: too few for pods that watch files", advice)


def _files(facts: Facts) -> Verdict | None:
    limit = facts.limits.get("open files")
    if limit is None:
        return None
    if limit >= OPEN_FILES:
        return Verdict("ok", str(limit))
    return Verdict("wrong", f"{limit}: too few for the API server and the broker", f"ulimit -n {OPEN_FILES * 4}")


def _config(facts: Facts, name: str) -> str | None:
    found = facts.broker
    return None if found is None or found.problem else found.config.get(name)


#: The checks by name, in the order in which they are printed.
CHECKS: Mapping[str, Check] = {
    "versions": _versions,
    "settings": _settings,
    "home": _home,
    "ports": _ports,
    "broker": _broker,
    "broker permissions": _permissions,
    "broker maxmemory-policy": _memory,
    "broker appendonly": _durability,
    "broker notify-keyspace-events": _notifications,
    "broker clients": _others,
    "cluster": _cluster,
    "cluster rights": _rights,
    "clocks": _clocks,
    "user namespaces": _namespaces,
    "processes": _proc,
    "inotify": _inotify,
    "open files": _files,
}
