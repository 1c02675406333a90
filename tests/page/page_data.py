"""A cluster as the page's interface tells it: something of every kind, in every tone."""

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

SCALED_JOBS = "scaledjobs.keda.sh"
SCALED_OBJECTS = "scaledobjects.keda.sh"
EVENT_JOBS = "eventjobs.penstock.dev"
SCHEDULED_JOBS = "scheduledjobs.penstock.dev"
CRON_JOBS = "cronjobs.batch"
JOBS = "jobs.batch"
VC_JOBS = "jobs.batch.volcano.sh"
FLOWS = "jobflows.flow.volcano.sh"
QUEUES = "queues.scheduling.volcano.sh"
POD_GROUPS = "podgroups.scheduling.volcano.sh"
PODS = "pods"

KINDS: tuple[tuple[str, str], ...] = (
    (SCALED_JOBS, "ScaledJob"),
    (SCALED_OBJECTS, "ScaledObject"),
    (EVENT_JOBS, "EventJob"),
    (SCHEDULED_JOBS, "ScheduledJob"),
    (CRON_JOBS, "CronJob"),
    (JOBS, "Job"),
    ("deployments.apps", "Deployment"),
    ("statefulsets.apps", "StatefulSet"),
    (VC_JOBS, "Job"),
    ("cronjobs.batch.volcano.sh", "CronJob"),
    (FLOWS, "JobFlow"),
    ("jobtemplates.flow.volcano.sh", "JobTemplate"),
    (QUEUES, "Queue"),
    (POD_GROUPS, "PodGroup"),
    ("commands.bus.volcano.sh", "Command"),
    (PODS, "Pod"),
    ("scalepolicies.penstock.dev", "ScalePolicy"),
    ("triggerauthentications.keda.sh", "TriggerAuthentication"),
)
TONES = ("error", "warning", "waiting", "active", "ok", "paused")
CLUSTER_SCOPED = (QUEUES, "scalepolicies.penstock.dev")


def text(at: datetime) -> str:
    """A time as the interface writes it."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def key(row: Json) -> str:
    """The address of a row's object."""
    return f"{row['kind']}/{row['namespace'] or '-'}/{row['name']}"


class Cluster:
    """All answers of the interface. now: the moment they are of. Tests change what they need."""

    def __init__(self, now: datetime | None = None) -> None:
        self.now = now or datetime.now(UTC)
        self.rows: dict[str, Json] = {}
        self.version = "0.1.0"
        self.details: dict[str, Json] = {}
        self.decisions: dict[str, list[Json]] = {}
        self.graphs: dict[str, Json] = {}
        self.deliveries: list[Json] = list(_deliveries(self))
        self._fill()

    def ago(self, **span: float) -> str:
        """A moment before."""
        return text(self.now - timedelta(**span))

    def ahead(self, **span: float) -> str:
        """A moment to come."""
        return text(self.now + timedelta(**span))

    def add(self, kind: str, name: str, phase: str, tone: str, message: str = "", **more: Any) -> Json:
        """Adds an object."""
        namespace = more.pop("namespace", "" if kind in CLUSTER_SCOPED else "shop")
        row = {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "uid": f"uid-{kind}-{namespace}-{name}",
            "created": more.pop("created", self.ago(hours=3, minutes=len(self.rows))),
            "phase": phase,
            "tone": tone,
            "message": message,
            "conditions": [],
            "numbers": {},
            "next": None,
            "last": None,
            "owner": None,
            **more,
        }
        self.rows[key(row)] = row
        return row

    def children(self, row: Json) -> list[Json]:
        """The rows that a row owns."""
        owner = {"kind": row["kind"], "namespace": row["namespace"], "name": row["name"]}
        return [each for each in self.rows.values() if each["owner"] == owner]

    def kinds(self) -> list[Json]:
        """The kinds with their counts."""
        counted = {kind: dict.fromkeys(TONES, 0) for kind, _ in KINDS}
        for row in self.rows.values():
            counted[row["kind"]][row["tone"]] += 1
        return [
            {
                "id": kind,
                "kind": name,
                "group": kind.partition(".")[2],
                "plural": kind.partition(".")[0],
                "namespaced": kind not in CLUSTER_SCOPED,
                "count": sum(counted[kind].values()),
                "tones": counted[kind],
            }
            for kind, name in KINDS
        ]

    def _fill(self) -> None:
        self._scaled()
        self._scheduled()
        self._volcano()
        self.add("scalepolicies.penstock.dev", "evenings", "Enforced", "ok", "at most 40 Jobs from 18:00")
        self.add("triggerauthentications.keda.sh", "orders-redis", "Used", "ok", "used by 2 objects")
        self.add("commands.bus.volcano.sh", "abort-train", "Waiting", "waiting", "waits for the Job train-resnet")

    def _scaled(self) -> None:
        ready = _condition("Ready", "True", "ScaledJobReady", "It is measured and scaled", self.ago(hours=2))
        working = _condition("Active", "True", "ScalerActive", "list orders has 184 items", self.ago(minutes=9))
        crunch = self.add(
            SCALED_JOBS,
            "crunch",
            "Active",
            "active",
            "184 items wait, 10 Jobs run: the most that maxReplicaCount allows",
            conditions=[ready, working, _condition("Paused", "False", "NotPaused", "", self.ago(hours=2))],
            numbers={"waiting": 184, "pending": 2, "running": 10, "done": 5210, "failed": 3},
        )
        owner = {name: crunch[name] for name in ("kind", "namespace", "name")}
        for index in range(6):
            tone, phase = (("error", "Failed"), ("active", "Running"), ("ok", "Complete"))[min(index, 2)]
            why = "BackoffLimitExceeded: the container ended with 137" if tone == "error" else ""
            job = self.add(
                JOBS, f"crunch-{index:05x}", phase, tone, why, owner=owner, created=self.ago(minutes=index + 1)
            )
            pod_phase = {"error": "Failed", "active": "Running", "ok": "Succeeded"}[tone]
            job_owner = {name: job[name] for name in ("kind", "namespace", "name")}
            self.add(PODS, f"crunch-{index:05x}-x7k2p", pod_phase, tone, "", owner=job_owner)
        self.decisions[key(crunch)] = list(_decisions(self))
        self.add(
            SCALED_JOBS,
            "thumbnails",
            "Not ready",
            "error",
            "the trigger redis at images:6379 does not answer: connection refused, for 4 min",
            conditions=[_condition("Ready", "False", "ScalerFailed", "connection refused", self.ago(minutes=4))],
            numbers={"waiting": None, "running": 0},
        )
        self.add(SCALED_JOBS, "nightly-import", "Idle", "ok", "nothing waits", numbers={"waiting": 0, "done": 88})
        self.add(SCALED_OBJECTS, "web", "Active", "active", "4 replicas for 410 requests/s", numbers={"replicas": 4})
        self.add(SCALED_OBJECTS, "mailer", "Paused", "paused", "paused at 0 replicas by the annotation")
        self.add("deployments.apps", "web", "Available", "ok", "", numbers={"replicas": 4, "ready": 4})
        self.add(
            "deployments.apps", "mailer", "Progressing", "waiting", "1 of 2 replicas is ready", numbers={"replicas": 2}
        )
        self.add("statefulsets.apps", "ledger", "Available", "ok", "", numbers={"replicas": 3})
        self.add(
            EVENT_JOBS,
            "resize",
            "Active",
            "warning",
            "3 events are parked: their last attempt failed",
            conditions=[_condition("Ready", "True", "Ready", "", self.ago(hours=1))],
            numbers={"waiting": 12, "running": 5, "retrying": 1, "parked": 3, "done": 9120},
            last=self.ago(seconds=20),
        )
        self.add(EVENT_JOBS, "invoice", "Idle", "ok", "", numbers={"waiting": 0, "done": 412}, last=self.ago(hours=5))
        self.add(
            EVENT_JOBS,
            "audit",
            "Not ready",
            "error",
            "the channel orders belongs to the ScaledJob orders: ChannelTaken",
        )

    def _scheduled(self) -> None:
        for name, phase, tone, message, minutes in (
            ("backup", "Waiting", "ok", "", 42),
            ("report", "Failed", "error", "the last run failed: exit code 2", 18),
            ("cleanup", "Running", "active", "started 2 min ago", 58),
        ):
            self.add(
                CRON_JOBS,
                name,
                phase,
                tone,
                message,
                next=self.ahead(minutes=minutes),
                last=self.ago(minutes=60 - minutes),
            )
        self.add(CRON_JOBS, "vacuum", "Suspended", "paused", "suspended by spec.suspend", last=self.ago(days=2))
        self.add(
            SCHEDULED_JOBS,
            "settle",
            "Waiting",
            "ok",
            "",
            next=self.ahead(minutes=7),
            last=self.ago(minutes=8),
            namespace="pay",
        )
        self.add(
            SCHEDULED_JOBS,
            "rates",
            "Behind",
            "warning",
            "2 runs were missed while the API server did not answer",
            next=self.ahead(seconds=40),
            last=self.ago(minutes=3),
            namespace="pay",
        )

    def _volcano(self) -> None:
        for name, weight, phase, tone in (("research", 4, "Open", "active"), ("serving", 8, "Open", "ok")):
            self.add(QUEUES, name, phase, tone, numbers={"weight": weight}, namespace="")
        self.add(QUEUES, "archive", "Closed", "paused", "closed: no new work is admitted", namespace="")
        why = "queue research has 6 of 16 cpu left, the group asks for 8"
        self.add(POD_GROUPS, "train-bert", "Pending", "waiting", why, namespace="ml")
        train = self.add(
            VC_JOBS, "train-resnet", "Running", "active", "4 of 4 workers run", namespace="ml", numbers={"running": 5}
        )
        self.graphs[key(train)] = {
            "nodes": [
                _node("ps", "Running", "active", "1 of 1"),
                _node("worker", "Running", "active", "4 of 4"),
                _node("eval", "Pending", "waiting", "after worker"),
            ],
            "edges": [_edge("ps", "worker"), _edge("worker", "eval")],
        }
        self.add(VC_JOBS, "train-bert", "Pending", "waiting", why, namespace="ml")
        self.add("cronjobs.batch.volcano.sh", "retrain", "Waiting", "ok", next=self.ahead(hours=2), namespace="ml")
        flow = self.add(
            FLOWS,
            "nightly-model",
            "Running",
            "active",
            "7 of 11 steps have ended",
            namespace="ml",
            numbers={"done": 6, "failed": 1, "running": 2, "waiting": 2},
        )
        self.graphs[key(flow)] = _model_flow()
        small = self.add(
            FLOWS,
            "publish",
            "Failed",
            "error",
            "step sign failed: ImagePullBackOff",
            namespace="ml",
            next=self.ahead(hours=1),
        )
        self.graphs[key(small)] = {
            "nodes": [
                _node("build", "Completed", "ok"),
                _node("sign", "Failed", "error", "attempt 3 of 3"),
                _node("push", "Skipped", "paused"),
            ],
            "edges": [_edge("build", "sign"), _edge("sign", "push", "succeeded")],
        }
        self.add("jobtemplates.flow.volcano.sh", "extract", "Used", "ok", "used by 1 flow", namespace="ml")

    def series(self, minutes: int) -> Json:
        """A quarter of an hour of work with a gap in it."""
        every = 5
        count = minutes * 60 // every
        at, waiting, pending, running, done = [], [], [], [], []
        total = 4800
        for index in range(count):
            x = index / count
            known = not 0.30 < x < 0.34
            depth = round(90 + 110 * math.sin(5 * x) ** 2 + 14 * math.sin(60 * x))
            busy = min(10, round(2 + 14 * x))
            total += round(busy / 2 + math.sin(index))
            at.append(self.ago(seconds=(count - index) * every))
            waiting.append(depth if known else None)
            pending.append(max(0, round(3 * math.sin(30 * x))) if known else None)
            running.append(busy if known else None)
            done.append(total if known else None)
        return {"at": at, "waiting": waiting, "pending": pending, "running": running, "done": done}

    def runs(self, row: Json, begin: datetime, end: datetime) -> Json:
        """Runs of every hour, some of which went wrong."""
        salt = sum(map(ord, row["name"]))
        every = timedelta(minutes=(60, 30, 120)[salt % 3])
        first = begin.replace(minute=salt % 30, second=0, microsecond=0)
        times = [first + index * every for index in range(int((end - first) / every) + 1)]
        past = []
        for index, at in enumerate(at for at in times if begin <= at <= self.now):
            state = "Failed" if (index + salt) % 9 == 4 else "Missed" if (index + salt) % 13 == 7 else "Succeeded"
            ran = state != "Missed"
            past.append(
                {
                    "at": text(at),
                    "state": state,
                    "job": f"{row['name']}-{int(at.timestamp()) // 60}" if ran else None,
                    "attempts": (3 if state == "Failed" else 1) if ran else 0,
                    "started": text(at) if ran else None,
                    "ended": text(at + timedelta(minutes=3 + index % 20)) if ran else None,
                    "reason": {"Failed": "exit code 2", "Missed": "the deadline passed"}.get(state, ""),
                }
            )
        if past and row["tone"] == "active":
            past[-1] |= {"state": "Running", "ended": None, "reason": ""}
        suspended = row["tone"] == "paused"
        return {"past": past, "next": [] if suspended else [text(at) for at in times if at > self.now][:10]}

    def queues(self) -> list[Json]:
        """Volcano's queues."""
        return [
            {
                "name": "research",
                "weight": 4,
                "capability": {"cpu": "32", "memory": "128Gi", "nvidia.com/gpu": "4"},
                "guarantee": {"cpu": "8"},
                "deserved": {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "2"},
                "allocated": {"cpu": "10", "memory": "40Gi", "nvidia.com/gpu": "2"},
                "share": 1.0,
                "waiting": [
                    {
                        "group": "ml/train-bert",
                        "since": self.ago(minutes=12),
                        "why": "6 of 16 cpu are left, the group asks for 8",
                    },
                    {"group": "ml/sweep-0003", "since": self.ago(minutes=3), "why": "train-bert is before it"},
                ],
            },
            {
                "name": "serving",
                "weight": 8,
                "capability": {},
                "guarantee": {"cpu": "16"},
                "deserved": {"cpu": "32"},
                "allocated": {"cpu": "12"},
                "share": 0.375,
                "waiting": [],
            },
            {
                "name": "archive",
                "weight": 1,
                "capability": {},
                "guarantee": {},
                "deserved": {},
                "allocated": {},
                "share": None,
                "waiting": [],
            },
        ]

    def pipeline(self) -> Json:
        """The state of the pipeline itself."""
        lanes = (
            ("events", 0, None, 1, 0),
            ("ticks", 3, 0.08, 2, 412),
            ("reconcile", 41, 1.9, 16, 1290),
            ("polls", 800, 14.2, 8, 12),
        )
        return {
            "lanes": [
                {"name": name, "ready": ready, "oldestSeconds": oldest, "leased": leased, "later": later}
                for name, ready, oldest, leased, later in lanes
            ],
            "processes": [
                {
                    "kind": kind,
                    "id": f"{kind}-{index}",
                    "alive": alive,
                    "since": self.ago(hours=index + 2),
                    "memoryBytes": memory,
                }
                for index, (kind, alive, memory) in enumerate(
                    (
                        ("beat", True, 61e6),
                        ("worker", True, 118e6),
                        ("worker", True, 121e6),
                        ("scaler", False, None),
                        ("gateway", True, 84e6),
                    )
                )
            ],
            "polls": {"p50": 0.021, "p99": 0.34},
            "api": {"p50": 0.006, "p99": 0.081},
            "broker": {"memoryBytes": 48_300_000, "connectedClients": 23, "version": "9.1.0", "aof": True},
            "problems": [
                {
                    "what": "A scaler process is silent.",
                    "why": "scaler-3 has not answered for 40 s.",
                    "todo": "Look at its log; another scaler process has taken its triggers over.",
                }
            ],
        }

    def parked(self) -> list[Json]:
        """What is parked."""
        return [
            {
                "object": {"kind": EVENT_JOBS, "namespace": "shop", "name": "resize"},
                "count": 3,
                "oldest": self.ago(hours=2),
                "todo": "Look at the reason of each, mend it, then replay them; drop those that no longer matter.",
            },
            {
                "object": None,
                "count": 1,
                "oldest": self.ago(days=1),
                "todo": "One entry of a channel cannot be read: penstock events export shows it.",
            },
        ]

    def object(self, row: Json) -> Json:
        """Everything about one object."""
        name, namespace = row["name"], row["namespace"]
        manifest = (
            f"kind: {dict(KINDS)[row['kind']]}\nmetadata:\n  name: {name}\n  namespace: {namespace}\n"
            "spec:\n  maxReplicaCount: 10\n  pollingInterval: 5\n"
            "  triggers:\n  - type: redis\n    metadata:\n      listName: orders\n"
        )
        events = [
            {
                "type": "Normal",
                "reason": "KEDAJobsCreated",
                "message": "Created 4 jobs",
                "count": 31,
                "first": self.ago(hours=2),
                "last": self.ago(seconds=30),
            },
            {
                "type": "Warning",
                "reason": "BackoffLimitExceeded",
                "message": f"Job {name}-00000 failed",
                "count": 1,
                "first": self.ago(minutes=5),
                "last": self.ago(minutes=5),
            },
        ]
        answer = {
            "row": row,
            "manifest": manifest,
            "children": self.children(row),
            "events": events,
            **self.details.get(key(row), {}),
        }
        return answer | ({"containers": ["main", "sidecar"]} if row["kind"] == PODS else {})


def _condition(kind: str, status: str, reason: str, message: str, since: str) -> Json:
    return {"type": kind, "status": status, "reason": reason, "message": message, "since": since}


def _node(name: str, state: str, tone: str, detail: str = "", target: Json | None = None) -> Json:
    return {"id": name, "label": name, "state": state, "tone": tone, "detail": detail, "object": target}


def _edge(begin: str, end: str, label: str = "") -> Json:
    return {"from": begin, "to": end, "label": label}


def _model_flow() -> Json:
    job = {"kind": VC_JOBS, "namespace": "ml", "name": "train-resnet"}
    nodes = [
        _node("extract", "Completed", "ok", "2 min"),
        _node("clean", "Completed", "ok", "41 s"),
        _node("split", "Completed", "ok", "3 s"),
        _node("features-text", "Completed", "ok", "4 min"),
        _node("features-image", "Completed", "ok", "6 min"),
        _node("train-resnet", "Running", "active", "attempt 1", job),
        _node("train-bert", "Running", "active", "attempt 2"),
        _node("baseline", "Failed", "error", "exit code 1"),
        _node("compare", "Pending", "waiting"),
        _node("publish", "Pending", "waiting"),
        _node("notify", "Completed", "ok", "by failure"),
    ]
    pairs = (
        *(("extract", "clean"), ("clean", "split"), ("split", "features-text"), ("split", "features-image")),
        *(("features-text", "train-bert"), ("features-image", "train-resnet"), ("split", "baseline")),
        *(("train-bert", "compare"), ("train-resnet", "compare"), ("extract", "compare"), ("compare", "publish")),
    )
    return {"nodes": nodes, "edges": [*(_edge(*pair) for pair in pairs), _edge("baseline", "notify", "failed")]}


def _decisions(cluster: Cluster) -> Iterator[Json]:
    for index, seconds in enumerate((25, 140, 260, 420, 610, 800)):
        queue, running = 184 - 9 * index, max(2, 10 - index)
        room = 10 - running
        yield {
            "at": cluster.ago(seconds=seconds),
            "times": 1 + 3 * (index % 2),
            "why": f"list orders has {queue} items; {room} more Jobs may run" if room else "maxReplicaCount is reached",
            "figures": [
                {"name": "queue length", "value": queue, "how": "trigger redis: LLEN orders"},
                {"name": "wanted", "value": queue, "how": f"ceil({queue} / 1 target value)"},
                {"name": "running", "value": running, "how": "Jobs that have not finished"},
                {"name": "to create", "value": room, "how": f"min({queue}, maxReplicaCount 10) - {running}"},
            ],
            "did": [f"create {room} Jobs"] if room else [],
            "failed": "409 conflict: the object was changed meanwhile" if index == 3 else None,
        }


def _deliveries(cluster: Cluster) -> Iterator[Json]:
    states = (
        "running",
        "running",
        "waiting",
        "retrying",
        "parked",
        "parked",
        "parked",
        "delayed",
        "done",
        "done",
        "dropped",
    )
    for index in range(60):
        state = states[index] if index < len(states) else "done"
        failed = state in ("parked", "retrying", "dropped")
        attempts = [
            {
                "job": f"resize-{index:03}-{number}",
                "ended": cluster.ago(minutes=index + 3 - number),
                "outcome": "failed",
                "reason": "exit code 1: no space left on device",
            }
            for number in range(3 if state == "parked" else 1 if failed else 0)
        ]
        if state == "done":
            attempts = [
                {"job": f"resize-{index:03}-0", "ended": cluster.ago(minutes=index), "outcome": "done", "reason": ""}
            ]
        yield {
            "entry": f"1700000{index:06}-0",
            "id": f"evt-{index:04}",
            "source": "/uploads",
            "type": "com.example.image.uploaded",
            "subject": f"images/{index:04}.png",
            "time": cluster.ago(minutes=index + 4),
            "state": state,
            "arrived": cluster.ago(minutes=index + 4),
            "due": cluster.ahead(minutes=2) if state in ("delayed", "retrying") else None,
            "key": "customer-7" if state == "waiting" else None,
            "job": f"resize-{index:03}-0" if state == "running" else None,
            "attempts": attempts,
            "reason": "3 attempts failed: no space left on device" if state == "parked" else "",
            "replays": 1 if index == 4 else 0,
        }
