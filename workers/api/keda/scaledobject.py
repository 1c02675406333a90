"""`keda.sh/v1alpha1` ScaledObject as a typed model: everything KEDA 2.20 accepts, and nothing that it rejects.

The checks are those of KEDA's schema, and those of its webhook that need only the object. An unset field without a
default stays None; the controller applies KEDA's default.
"""

from collections.abc import Iterator
from math import inf, isfinite
from typing import Annotated, Literal

from pydantic import Field, model_validator

from workers.api import model, quantities
from workers.api.keda.scaledjob import (
    POLLING_INTERVAL,
    Activity,
    ScaledJobCondition,
    ScaledJobMetadata,
    TriggerSpec,
    common_problems,
)
from workers.api.kinds import SCALED_OBJECT, Object
from workers.api.model import Found, Items, Model, Natural32, Positive32, Text, refuse

#: KEDA's defaults (replicas; seconds).
MAX_REPLICAS = 100
COOLDOWN_PERIOD = 300
#: Most characters of a name that becomes a label's value.
LONGEST_NAME = 63

FallbackBehavior = Literal[
    "static", "currentReplicas", "currentReplicasIfHigher", "currentReplicasIfLower", "scalingModifiers"
]
MetricType = Literal["AverageValue", "Value"]

#: Trigger types that KEDA leaves to the resource metrics API.
RESOURCE_TRIGGERS = frozenset({"cpu", "memory"})


class ScaleTargetRef(Model):
    """The workload to scale: any object with a scale subresource."""

    name: Text
    """Its name, in the object's namespace."""
    kind: str | None = None
    """Default Deployment."""
    api_version: str | None = None
    """Default apps/v1."""
    env_source_container_name: str | None = None
    """Container whose environment resolves settings that end in FromEnv; default the first."""


class ScalingPolicy(Model):
    """The most that may change within a period."""

    type: Literal["Pods", "Percent"]
    """Pods counts replicas, Percent a share of those there are."""
    value: Positive32
    """Pods, or percent of the replicas at the start of the period."""
    period_seconds: Annotated[int, Field(ge=1, le=1800)]
    """The time for which the policy holds."""


class ScalingRules(Model):
    """The speed of scaling in one direction, as for a HorizontalPodAutoscaler."""

    stabilization_window_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds of earlier proposals to respect; default 0 up, 300 down."""
    select_policy: Literal["Max", "Min", "Disabled"] | None = None
    """The policy that counts: the one that allows most (default) or least; Disabled allows nothing."""
    policies: Annotated[Items[ScalingPolicy], Field(min_length=1)] | None = None
    """The limits of a change; without them those of Kubernetes' autoscaler."""
    tolerance: Annotated[str, Field(pattern=r"^(\d+(\.\d+)?|\.\d+)m?$")] | None = None
    """The share by which a metric may miss its target without a change, a quantity ("0.05", "50m"); default 0.1."""


class Behavior(Model):
    """The speed of scaling."""

    scale_up: ScalingRules | None = None
    """Rules for more replicas."""
    scale_down: ScalingRules | None = None
    """Rules for fewer replicas."""


class AutoscalerConfig(Model):
    """The settings that KEDA gives to its HorizontalPodAutoscaler."""

    name: Annotated[str, Field(max_length=LONGEST_NAME)] | None = None
    """The autoscaler that transfer-hpa-ownership replaces; otherwise without effect."""
    behavior: Behavior | None = None
    """How quickly replicas change."""


class ScalingModifiers(Model):
    """One metric computed from all triggers."""

    formula: str | None = None
    """The triggers' names are its variables."""
    target: str | None = None
    """Value per replica, a number as text."""
    activation_target: str | None = None
    """Active above this value, a number as text; default 0."""
    metric_type: MetricType | None = None
    """Default AverageValue."""

    def problems(self) -> Iterator[Found]:
        """Yields what is wrong with the fields together."""
        if bool(self.formula) != bool(self.target):
            yield (), "formula and target are only possible together"
        if not self.formula and not self.target and (self.activation_target or self.metric_type):
            yield (), "activationTarget and metricType need a formula and a target"
        for name, text, least in (("target", self.target, 0.0), ("activationTarget", self.activation_target, -inf)):
            if not text:
                continue
            try:
                number = quantities.plain(text)
            except ValueError as error:
                yield (name,), str(error)
            else:
                if not isfinite(number):
                    yield (name,), f"{text!r} is not a finite number"
                elif number <= least:
                    yield (name,), f"must be above {least:g}"


class Advanced(Model):
    """The less usual settings."""

    restore_to_original_replica_count: bool | None = None
    """On deletion of the object, restore the replicas that the target had at its creation."""
    horizontal_pod_autoscaler_config: AutoscalerConfig | None = None
    """What KEDA gives its autoscaler; here the rules of scaling."""
    scaling_modifiers: ScalingModifiers | None = None
    """One metric, calculated from those of the triggers."""


class ScaledObjectFallback(Model):
    """Replicas while a trigger cannot be measured."""

    failure_threshold: Natural32
    """Consecutive failures before the fallback begins."""
    replicas: Natural32
    """Replicas while triggers cannot be measured."""
    behavior: FallbackBehavior | None = None
    """Default static."""


class ScaledObjectSpec(Model):
    """The target, the triggers and the bounds of scaling."""

    scale_target_ref: ScaleTargetRef
    """The workload whose replicas follow the triggers."""
    triggers: Annotated[Items[TriggerSpec], Field(min_length=1)]
    """The sources of work."""
    polling_interval: Positive32 | None = None
    """Seconds between two polls; default 30."""
    initial_cooldown_period: Natural32 | None = None
    """Seconds after creation before replicas may go to zero for the first time; default 0."""
    cooldown_period: Natural32 | None = None
    """Seconds after the last activity before replicas go to zero or idle; default 300."""
    idle_replica_count: Natural32 | None = None
    """Replicas while nothing is active; less than minReplicaCount."""
    min_replica_count: Natural32 | None = None
    """Fewest replicas while something is active; default 0."""
    max_replica_count: Natural32 | None = None
    """Most replicas; default 100."""
    advanced: Advanced | None = None
    """Rules of scaling, a formula, and what happens at the end."""
    fallback: ScaledObjectFallback | None = None
    """Replicas while triggers cannot be measured."""

    @model_validator(mode="after")
    def _fits(self) -> "ScaledObjectSpec":
        """Applies KEDA's checks."""
        modifiers = ((("advanced", "scalingModifiers", *path), text) for path, text in self.modifiers.problems())
        refuse((*self._trigger_problems(), *self._bounds_problems(), *self._resource_problems(), *modifiers))
        return self

    def _trigger_problems(self) -> Iterator[Found]:
        yield from common_problems(self.triggers)
        for index, trigger in enumerate(self.triggers):
            if trigger.type in RESOURCE_TRIGGERS:
                yield from _resource_target(index, trigger)
            elif trigger.metric_type == "Utilization":
                yield ("triggers", index, "metricType"), "Utilization is for cpu and memory only"

    def _bounds_problems(self) -> Iterator[Found]:
        """Applies KEDA's check, which takes an explicit minReplicaCount of 0 for 1, and an unset one for 0."""
        minimum = 0 if self.min_replica_count is None else max(1, self.min_replica_count)
        if self.maximum < 1:
            yield ("maxReplicaCount",), "must be at least 1"
        if minimum > self.maximum:
            yield ("minReplicaCount",), f"minReplicaCount {minimum} is above maxReplicaCount {self.maximum}"
        if self.idle_replica_count is not None and self.idle_replica_count >= minimum:
            text = f"idleReplicaCount {self.idle_replica_count} is not below minReplicaCount {minimum}"
            yield ("idleReplicaCount",), text
        if self.fallback and self.fallback.behavior == "scalingModifiers" and not self.modifiers.formula:
            yield ("fallback", "behavior"), "scalingModifiers needs a formula"

    def _resource_problems(self) -> Iterator[Found]:
        """Applies KEDA's checks of a spec whose triggers are all cpu or memory."""
        if any(trigger.type not in RESOURCE_TRIGGERS for trigger in self.triggers):
            return
        if self.min_replica_count == 0:
            yield ("minReplicaCount",), "cpu and memory alone cannot scale to zero, it must be above 0"
        if self.fallback and not self.modifiers.formula:
            yield ("fallback",), "has no meaning where all triggers are cpu or memory"

    @property
    def interval(self) -> int:
        """Returns the seconds between two polls."""
        return self.polling_interval or POLLING_INTERVAL

    @property
    def minimum(self) -> int:
        """Returns the fewest replicas while a trigger is active, 0 if the last may go."""
        return self.min_replica_count or 0

    @property
    def maximum(self) -> int:
        """Returns the most replicas."""
        return MAX_REPLICAS if self.max_replica_count is None else self.max_replica_count

    @property
    def modifiers(self) -> ScalingModifiers:
        """Returns the scaling modifiers, empty if the manifest has none."""
        return (self.advanced.scaling_modifiers if self.advanced else None) or ScalingModifiers()

    @property
    def behavior(self) -> Behavior | None:
        """Returns the scaling behavior, None if the manifest has none."""
        config = self.advanced.horizontal_pod_autoscaler_config if self.advanced else None
        return config.behavior if config else None


class ResourceMetric(Model):
    """The resource of the target."""

    group: str
    """Group of the target's API."""
    version: str
    """Version of the target's API."""
    kind: str
    """Kind of the target."""
    resource: str
    """Plural name of the target's kind."""


class TriggerHealth(Model):
    """The health of one metric."""

    number_of_failures: int
    """Polls in a row in which the trigger could not be measured."""
    status: Literal["Happy", "Failing"]
    """Happy, or Failing."""


class Proposal(Model):
    """Replicas that were proposed at this instant."""

    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When it was proposed."""
    replicas: int
    """The replicas that the metrics asked for."""


class ReplicaChange(Model):
    """Replicas that were added (above 0) or removed at this instant."""

    at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the replicas were changed."""
    replicas: int
    """How many were added, or removed."""


class ReadyPods(Model):
    """The pods that metrics of type Value are multiplied with."""

    reading: int
    """The id of the reading that they belong to."""
    pods: int
    """Those that were ready at the first decision on it."""


class DecisionMemory(Model):
    """Earlier proposals and changes, for windows and policies. KEDA's HorizontalPodAutoscaler keeps its own."""

    highs: Items[Proposal] | None = None
    """Proposals that may still keep replicas from going down."""
    lows: Items[Proposal] | None = None
    """Proposals that may still keep replicas from going up."""
    changes: Items[ReplicaChange] | None = None
    """Changes that policies still count."""
    ready_pods: ReadyPods | None = None
    """The pods that the last reading's metrics of type Value are multiplied with."""


class ScaledObjectStatus(Model):
    """The observed state; the names are KEDA's but for `memory`."""

    conditions: Items[ScaledJobCondition] | None = None
    """Ready, Active, Fallback and Paused."""
    scale_target_kind: str | None = None
    """Group, version and kind of the target."""
    scale_target_gvkr: Annotated[ResourceMetric | None, Field(alias="scaleTargetGVKR")] = None
    """The target's API resource."""
    original_replica_count: int | None = None
    """Replicas before it scaled first."""
    last_active_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When a poll found work last."""
    external_metric_names: Items[str] | None = None
    """The names of the metrics of its triggers."""
    resource_metric_names: Items[str] | None = None
    """The resources of its cpu and memory triggers."""
    composite_scaler_name: str | None = None
    """Name of the metric of `scalingModifiers`."""
    health: dict[str, TriggerHealth] | None = None
    """By metric, whether it can be measured."""
    triggers_activity: dict[str, Activity] | None = None
    """By metric, whether the trigger found work."""
    paused_replica_count: int | None = None
    """Replicas while it is paused."""
    hpa_name: str | None = None
    """Not written: there is no autoscaler."""
    triggers_types: str | None = None
    """The types of its triggers, separated by commas."""
    authentications_types: str | None = None
    """The kinds of authentication that its triggers use, separated by commas."""
    memory: DecisionMemory | None = None
    """Proposals and changes that windows and limits still count."""


class Named(ScaledJobMetadata):
    """The part of the metadata that decisions use."""

    name: Annotated[str, Field(max_length=LONGEST_NAME)]
    creation_timestamp: str | None = None


class ScaledObject(Model):
    """One ScaledObject, without its status, which decisions compare as plain JSON."""

    metadata: Named
    spec: ScaledObjectSpec


def parse(body: Object) -> ScaledObject:
    """Returns the typed form of a ScaledObject.

    Raises UserError that names every malformed field; KEDA's schema or its webhook would reject them too.
    """
    return model.parse(ScaledObject, SCALED_OBJECT, body)


def _resource_target(index: int, trigger: TriggerSpec) -> Iterator[Found]:
    """Yields what is wrong with the target of a cpu or memory trigger."""
    if trigger.metric_type not in ("Utilization", "AverageValue"):
        yield ("triggers", index, "metricType"), f"must be Utilization or AverageValue with type {trigger.type}"
        return
    text, place = trigger.metadata.get("value", ""), ("triggers", index, "metadata", "value")
    if trigger.metric_type == "Utilization":
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:10]) < 10**9):
            yield place, f"must be percent of the requests, a whole number above 0, not {text[:40]!r}"
        return
    try:
        amount = quantities.parse(text)
    except ValueError:
        yield place, f"must be a quantity such as 500m or 200Mi, not {text[:40]!r}"
    else:
        if amount <= 0:
            yield place, "must be above 0"


def is_resource(trigger: TriggerSpec) -> bool:
    """Returns True for a trigger of pod usage."""
    return trigger.type in RESOURCE_TRIGGERS
