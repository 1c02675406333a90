"""`keda.sh/v1alpha1` ScaledJob as a typed model: everything KEDA 2.20 accepts.

The constraints of KEDA's schema (minimum, enum, required) stand here, and the CRD is generated from them. An unset
field without a default stays None; the controller applies KEDA's default.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from workers.api import model
from workers.api.keda import pod_template
from workers.api.kinds import SCALED_JOB, Object
from workers.api.model import Found, Items, Model, Natural32, Positive32, Text, refuse
from workers.api.penstock_dev.push_settings import PushSettings

#: Default seconds between two polls (KEDA's).
POLLING_INTERVAL = 30

#: Default number of consecutive polls that may fail before a fallback begins.
FAILURE_THRESHOLD = 3

#: Default number of finished Jobs of either outcome that stay (KEDA's).
HISTORY_LIMIT = 100

#: KEDA's strategies.
StrategyName = Literal["default", "custom", "accurate", "eager"]
Calculation = Literal["max", "min", "avg", "sum"]
RolloutStrategy = Literal["gradual", "immediate"]

#: Trigger types that KEDA refuses to cache.
_NEVER_CACHED = frozenset({"cpu", "memory", "cron"})


class AuthenticationRef(Model):
    """A reference to the source of a trigger's secrets."""

    name: Text
    """Name of a TriggerAuthentication in the object's namespace, or of a ClusterTriggerAuthentication."""
    kind: str | None = None
    """TriggerAuthentication (default) or ClusterTriggerAuthentication."""


class TriggerSpec(Model):
    """One source of work."""

    type: Text
    """Name of the scaler."""
    metadata: dict[str, str]
    """The scaler's settings, all of them text."""
    name: str | None = None
    """Unique among the triggers."""
    authentication_ref: AuthenticationRef | None = None
    metric_type: Literal["AverageValue", "Value", "Utilization"] | None = None
    """Not allowed for a ScaledJob."""
    use_cached_metrics: bool | None = None
    """Accepted; only polls measure."""


def common_problems(triggers: Sequence[TriggerSpec]) -> Iterator[Found]:
    """Yields what KEDA refuses of the triggers of both kinds: names used twice, and caching that cannot work."""
    seen: set[str] = set()
    for index, trigger in enumerate(triggers):
        if trigger.name and trigger.name in seen:
            yield ("triggers", index, "name"), f"{trigger.name!r} is used by another trigger"
        seen.add(trigger.name or "")
        if trigger.use_cached_metrics and trigger.type in _NEVER_CACHED:
            yield ("triggers", index, "useCachedMetrics"), f"not possible with type {trigger.type}"


class ClaimSettings(Model):
    """Strategy claim, not KEDA's: every item is taken out of the queue for exactly one Job."""

    retries: Annotated[int, Field(ge=0, le=100)] | None = None
    """Further Jobs for an item whose Job failed, before the item is parked; default 0."""
    take_from: Literal["Head", "Tail"] | None = None
    """The end of a list that items are taken from; default Head, as LPOP."""


class Activation(Model):
    """The condition under which several triggers are work. Not KEDA's, for which one active trigger is enough."""

    require_all: bool | None = None
    """Every trigger must be active; one that cannot be measured is not."""
    min_weight: Annotated[float, Field(ge=0)] | None = None
    """The least sum of the active triggers' weights; without weights, the least number of active triggers."""


class ScalingStrategy(Model):
    """The rule from the queue and the existing Jobs to the number of new Jobs."""

    strategy: Literal[StrategyName, "claim"] | None = None
    """How existing Jobs count against the queue; default `default`."""
    custom_scaling_queue_length_deduction: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """Strategy custom: Jobs not to create."""
    custom_scaling_running_job_percentage: str | None = None
    """Strategy custom: the share of the running Jobs to subtract, a number as text."""
    pending_pod_conditions: Items[str] | None = None
    """Pod conditions that must all be true for a Job not to count as pending."""
    multiple_scalers_calculation: Calculation | None = None
    """The combination of several triggers; default max."""
    activation: Activation | None = None
    """The condition under which there is work; by default one active trigger."""
    weights: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """By name of a trigger, its weight in activation, sum and avg; default 1. Not KEDA's."""
    claim: ClaimSettings | None = None
    """Strategy claim."""


class Rollout(Model):
    """The treatment of existing Jobs after a change of the spec."""

    strategy: RolloutStrategy | None = None
    """immediate (default) deletes them, gradual leaves them."""
    propagation_policy: Literal["foreground", "background"] | None = None
    """Propagation of the deletions; default background."""


class ScaledJobFallback(Model):
    """Jobs kept alive while triggers cannot be measured. Not KEDA's for a ScaledJob."""

    behavior: Literal["fixed", "hold", "none"] | None = None
    """fixed (default) keeps `replicas` Jobs alive, hold the number that the last value asked for, none no Jobs."""
    failure_threshold: Natural32 | None = None
    """Consecutive polls that may fail before it begins; default 3; 0 begins with the first failure."""
    replicas: Natural32 | None = None
    """Behavior fixed: Jobs kept alive beyond minReplicaCount."""


#: A Job's spec in a structural schema: unknown fields are preserved, and a pod template is required.
JOB_SCHEMA = {
    "required": ["template"],
    "properties": {"template": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}


class ScaledJobSpec(Model):
    """The Jobs to run and the triggers that ask for them."""

    job_target_ref: Annotated[dict[str, Any], Field(json_schema_extra={**JOB_SCHEMA})]
    """A batch/v1 JobSpec, copied into every Job."""
    triggers: Annotated[Items[TriggerSpec], Field(min_length=1)]
    """The sources of work."""
    polling_interval: Positive32 | None = None
    """Seconds between two polls; default 30."""
    min_replica_count: Natural32 | None = None
    """Jobs kept alive even with an empty queue; default 0."""
    max_replica_count: Positive32 | None = None
    """Most Jobs at once; default 100."""
    successful_jobs_history_limit: Natural32 | None = None
    """Finished Jobs to keep; default 100."""
    failed_jobs_history_limit: Natural32 | None = None
    """Failed Jobs to keep; default 100."""
    env_source_container_name: str | None = None
    """Container whose environment resolves settings that end in FromEnv; default the first."""
    rollout: Rollout | None = None
    rollout_strategy: RolloutStrategy | None = None
    """Deprecated; if set it beats rollout.strategy."""
    scaling_strategy: ScalingStrategy | None = None
    fallback: ScaledJobFallback | None = None
    push: PushSettings | None = None
    """Pushes over HTTP to its trigger of type `push`. Not KEDA's."""
    polling_interval_milliseconds: Annotated[int, Field(ge=100, le=2**31 - 1)] | None = None
    """Milliseconds between two polls, at least 100; if set it beats pollingInterval. Not KEDA's."""
    job_creation_cooldown_seconds: Natural32 | None = None
    """Seconds after a poll that made Jobs in which further polls make none; default 0. Not KEDA's."""
    pass_trigger: bool | None = None
    """Annotations and variables of Jobs name the trigger that asked for them; default false. Not KEDA's."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        refuse(self._problems())
        return self

    def _problems(self) -> Iterator[Found]:
        """Applies KEDA's checks and those of Penstock's own fields."""
        template = self.job_target_ref.get("template")
        if not isinstance(template, dict):
            yield ("jobTargetRef", "template"), "is required and must be a pod template"
        else:
            for path, text in pod_template.problems(template):
                yield ("jobTargetRef", "template", *path), text
        yield from common_problems(self.triggers)
        for index, trigger in enumerate(self.triggers):
            if trigger.metric_type is not None:
                yield ("triggers", index, "metricType"), "a ScaledJob's triggers have none"
        fallback = self.fallback
        if fallback and fallback.behavior in (None, "fixed") and fallback.replicas is None:
            yield ("fallback", "replicas"), "is required with behavior fixed"
        names = {trigger.name for trigger in self.triggers}
        for name in self.strategy.weights or ():
            if name not in names:
                yield ("scalingStrategy", "weights", name), f"there is no trigger named {name!r}"

    @property
    def strategy(self) -> ScalingStrategy:
        """Returns the scaling strategy, empty if the manifest has none."""
        return self.scaling_strategy or ScalingStrategy()

    @property
    def claim_contradictions(self) -> tuple[str, ...]:
        """Returns the parts of a spec with strategy claim that contradict one Job per item."""
        if self.strategy.strategy != "claim":
            return ()
        no_fallback = self.fallback is None or self.fallback.behavior == "none"
        rules = (
            (len(self.triggers) == 1, "items are claimed from one trigger, and there are several"),
            (not self.min_replica_count, "minReplicaCount must be 0, because there is a Job for an item only"),
            (no_fallback, "there can be no fallback, because there is a Job for an item only"),
            (
                not self.job_creation_cooldown_seconds,
                "jobCreationCooldownSeconds must be 0, because a claimed item is not counted again",
            ),
        )
        return tuple(text for holds, text in rules if not holds)

    @property
    def interval(self) -> float:
        """Returns the seconds between two polls."""
        if self.polling_interval_milliseconds:
            return self.polling_interval_milliseconds / 1000
        return self.polling_interval or POLLING_INTERVAL


class ScaledJobMetadata(Model):
    """The part of the metadata that decisions use."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: Items[str] = ()
    deletion_timestamp: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value


class Activity(Model):
    """The activity of one trigger."""

    is_active: bool
    """True if the trigger found work in the last poll."""


class ScaledJobCondition(Model):
    """One condition; KEDA's carry no timestamps."""

    type: str
    """Ready, Active, Fallback, Paused, or Capped."""
    status: Literal["True", "False", "Unknown"]
    """Unknown is neither: it could not be found out."""
    reason: str | None = None
    """One word for programs."""
    message: str | None = None
    """A sentence for people."""


class SourceLeftAlone(Model):
    """A measured server that keeps failing, so that its circuit breaker is open."""

    trigger: str
    """The trigger's metric name."""
    source: str
    """The measured server."""
    since: str
    """When the first scaler process stopped asking it."""
    reason: str
    """The last error."""
    next_attempt: str | None = None
    """When it is asked again."""


class ScaledJobStatus(Model):
    """The observed state; the field names, also `Paused` with its capital, are KEDA's."""

    conditions: Items[ScaledJobCondition] | None = None
    """Ready, Active, Fallback, Paused and Capped."""
    last_active_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """When a poll found work last, to a polling interval."""
    paused: str | None = Field(None, alias="Paused")
    """When it was paused."""
    triggers_types: str | None = None
    """The types of its triggers, separated by commas."""
    authentications_types: str | None = None
    """The kinds of authentication that its triggers use, separated by commas."""
    external_metric_names: Items[str] | None = None
    """The names of the metrics of its triggers."""
    triggers_activity: dict[str, Activity] | None = None
    """By metric, whether the trigger found work."""
    sources_left_alone: Items[SourceLeftAlone] | None = None
    """Not KEDA's."""


class ScaledJob(Model):
    """One ScaledJob, without its status, which decisions compare as plain JSON."""

    metadata: ScaledJobMetadata
    spec: ScaledJobSpec


def parse(body: Object) -> ScaledJob:
    """Returns the typed form of a ScaledJob.

    Raises UserError that names every malformed field; KEDA's schema or its reconciler would reject them too.
    """
    return model.parse(ScaledJob, SCALED_JOB, body)
