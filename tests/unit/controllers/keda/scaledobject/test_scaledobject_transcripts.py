"""All that is decided on a ScaledObject, word for word."""

from datetime import timedelta
from typing import Any

from tests.unit.controllers.factories import NOW, at, reading, sample
from tests.unit.controllers.keda.scaledobject.scaledobjects import TARGET, TRIGGER, scale, scaled_object, snapshot
from tests.unit.controllers.plans import statuses
from tests.unit.controllers.transcripts import PlanTranscript
from workers.api.kinds import Object
from workers.controllers.keda.scaledobject import decide
from workers.decision.plan import Scale
from workers.decision.snapshot import Reading, Scalable


class Told:
    """A ScaledObject and the replicas of its target, decided on every half minute."""

    def __init__(self, transcript: PlanTranscript, body: Object, replicas: int = 0) -> None:
        self.transcript, self.body, self.replicas = transcript, body, replicas
        self.now = NOW

    def then(self, line: str, *samples: Any, found: Reading | None = None, seen: Scalable | None = None) -> None:
        self.transcript.note(line)
        self.now += timedelta(seconds=30)
        found = found or (reading(*samples, started=(self.now - NOW).total_seconds() - 1) if samples else None)
        given = snapshot(self.body, seen or scale(self.replicas, ready=self.replicas), found)
        plan = self.transcript.of(decide)(given, self.now)
        for status in statuses(plan):
            self.body = {**self.body, "status": status}
        for step in plan.steps:
            if isinstance(step, Scale):
                self.replicas = step.replicas

    def annotate(self, **annotations: str) -> None:
        named = {f"autoscaling.keda.sh/{name.replace('_', '-')}": value for name, value in annotations.items()}
        self.body = {**self.body, "metadata": {**self.body["metadata"], "annotations": named}}


def test_the_life_of_a_scaledobject(transcript: PlanTranscript) -> None:
    body = scaled_object(
        metadata={"finalizers": [], "labels": {}},
        triggers=[{**TRIGGER, "name": "queue"}],
        fallback={"failureThreshold": 2, "replicas": 3},
        cooldownPeriod=60,
    )
    told = Told(transcript, body)
    told.then("nothing is known")
    told.body["metadata"] |= {"finalizers": ["finalizer.keda.sh"], "labels": {"scaledobject.keda.sh/name": "work"}}
    told.then(
        "the target is missing", sample(5), seen=Scalable(TARGET, error="deployments.apps pool not found", missing=True)
    )
    told.then("it cannot be read", sample(5), seen=Scalable(TARGET, error="forbidden"))
    told.then("five wait", sample(5))
    told.then("fifty wait", sample(50))
    told.then("still", sample(50))
    told.then("one fails", sample(0, error="connection refused", failures=1))
    told.then("it fails again: the fallback", sample(0, error="connection refused", failures=3))
    told.then("it answers: nothing waits", sample(0))
    told.then("the cooldown goes on", sample(0))
    told.then("and is over", sample(0))
    told.then("a reading with a problem", found=reading(problem="the Secret team/redis does not exist"))
    for annotation in (
        {"paused_scale_out": "true"}, {"paused_scale_in": "true"}, {"paused": "true"}, {"paused_replicas": "4"},
        {"paused_replicas": "x"}, {"force_activation": "true"}, {},
    ):  # fmt: skip
        told.annotate(**annotation)
        told.then(str(annotation), sample(3))
    told.annotate(paused_replicas="9")
    told.then("paused, and the target cannot be read", sample(3), seen=Scalable(TARGET, error="forbidden"))
    told.annotate()
    told.body["spec"]["maxReplicaCount"] = 0
    told.then("a wrong manifest", sample(3))
    told.body["spec"]["maxReplicaCount"] = 5
    told.body["metadata"]["deletionTimestamp"] = at(0)
    told.then("being deleted")
    assert transcript.text == transcript.expected("scaledobject")


def test_what_moves_its_replicas(transcript: PlanTranscript) -> None:
    triggers = [{**TRIGGER, "name": "queue"}, {"type": "cron", "name": "day", "metadata": {}}]
    rules = {
        "scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}], "stabilizationWindowSeconds": 40},
        "scaleDown": {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}], "selectPolicy": "Min"},
    }
    specs: list[tuple[str, Object]] = [
        ("behavior", {"advanced": {"horizontalPodAutoscalerConfig": {"behavior": rules}}}),
        (
            "formula",
            {"advanced": {"scalingModifiers": {"formula": "queue + day", "target": "2", "activationTarget": "3"}}},
        ),
        ("fails", {"advanced": {"scalingModifiers": {"formula": "queue / (day - 1)", "target": "2"}}}),
        ("idle", {"idleReplicaCount": 0, "minReplicaCount": 2}),
        ("restored", {"advanced": {"restoreToOriginalReplicaCount": True}}),
    ]
    for name, spec in specs:
        told = Told(transcript, scaled_object(triggers=triggers, **spec), 1)
        for value in (6, 6, 20, 1, 0, 0):
            one = sample(value, name="s0-redis-work")
            told.then(f"{name}: {value}", one, sample(1, name="s1-cron", type="cron"))
    assert transcript.text == transcript.expected("replicas")
