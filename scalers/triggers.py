"""From an object's spec to scalers that are ready to measure."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalers import auth, environment
from scalers.environment import Lookup, unreachable
from scalers.parameters import FROM_ENV, TRUTHS, Trigger
from scalers.registry import REGISTRY, Registry
from scalers.scaler import Scaler, metric_name
from scalers.sources import Source
from workers.api.kinds import SCALED_JOB, Object, Ref
from workers.errors import PenstockError, UserError

#: KEDA's annotation that pauses an object.
PAUSED = "autoscaling.keda.sh/paused"


def paused(body: Object) -> bool:
    """Whether the object is paused: by KEDA's rule also when the annotation is neither true nor false."""
    text = (body["metadata"].get("annotations") or {}).get(PAUSED)
    return text is not None and TRUTHS.get(text, True)


def is_polled(body: Object) -> bool:
    """Whether the object's triggers are to be measured: it is neither on its way out nor paused."""
    return not body["metadata"].get("deletionTimestamp") and not paused(body)


def polling_interval(body: Object, default: float) -> float:
    """Seconds between two polls of this object."""
    interval = (body.get("spec") or {}).get("pollingInterval")
    return float(interval) if isinstance(interval, int) and interval > 0 else default


@dataclass(frozen=True, slots=True)
class Probe:
    """One trigger, ready to be measured. name: of its metric, index included. type: of the trigger."""

    name: str
    type: str
    scaler: Scaler
    source: Source


@dataclass(frozen=True, slots=True)
class Parsed:
    """An object's triggers in order; or, with no probes, the problem that keeps all of them from being measured."""

    probes: tuple[Probe, ...] = ()
    problem: str | None = None


class Triggers:
    """Parses objects' triggers, and remembers the outcome for as long as the spec stays the same.

    look_up: where ConfigMaps and Secrets of a container's environment are read. limit: most objects remembered.
    """

    def __init__(self, registry: Registry = REGISTRY, look_up: Lookup = unreachable, *, limit: int = 20_000) -> None:
        self._registry = registry
        self._look_up = look_up
        self._limit = limit
        self._known: OrderedDict[str, tuple[int, Parsed]] = OrderedDict()

    async def parse(self, ref: Ref, body: Object) -> Parsed:
        """The probes of an object, or its problem. What depended on a ConfigMap or Secret and failed is not kept."""
        uid, generation = body["metadata"]["uid"], body["metadata"].get("generation", 0)
        if (known := self._known.get(uid)) and known[0] == generation:
            self._known.move_to_end(uid)
            return known[1]
        specs = (body.get("spec") or {}).get("triggers") or ()
        try:
            variables = await self._environment(ref, body, specs)
        except PenstockError as error:
            return Parsed(problem=str(error))
        parsed = self._parsed(ref, uid, specs, variables)
        self._known[uid] = (generation, parsed)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)
        return parsed

    def forget(self, uid: str) -> None:
        """Parse this object afresh the next time: after a failure its environment may hold other values."""
        self._known.pop(uid, None)

    async def _environment(self, ref: Ref, body: Object, specs: Sequence[Object]) -> Mapping[str, str]:
        """The target container's variables; looked up only for an object that refers to one."""
        if not any(key.endswith(FROM_ENV) for spec in specs for key in spec.get("metadata") or ()):
            return {}
        spec = body["spec"]
        template = (spec.get("jobTargetRef") or {}).get("template") or {}
        container = spec.get("envSourceContainerName") or ""
        return await environment.resolve(template, container, ref.namespace, self._look_up)

    def _parsed(self, ref: Ref, uid: str, specs: Sequence[Object], variables: Mapping[str, str]) -> Parsed:
        problems: list[str] = []
        probes: list[Probe] = []
        for index, spec in enumerate(specs):
            try:
                probes.append(self._probe(ref, (uid, index), Trigger(index, spec.get("type") or ""), spec, variables))
            except UserError as error:
                problems.append(str(error))
        problems += _shared_names(specs)
        if not specs:
            problems.append("spec.triggers: there is no trigger")
        return Parsed(problem="; ".join(problems)) if problems else Parsed(tuple(probes))

    def _probe(
        self, ref: Ref, alone: tuple[str, int], bare: Trigger, spec: Object, variables: Mapping[str, str]
    ) -> Probe:
        if not bare.type:
            raise bare.error("type", "is required")
        if ref.kind == SCALED_JOB and spec.get("metricType"):
            raise bare.error("metricType", "has no meaning on a ScaledJob and must be left out")
        try:
            scaler_class = self._registry.find(bare.type)
            authentication = auth.parameters(spec)
        except UserError as error:
            raise UserError(f"trigger {bare.index} ({bare.type}): {error}") from error
        trigger = Trigger(
            index=bare.index,
            type=bare.type,
            name=spec.get("name") or "",
            metadata=_texts(bare, spec.get("metadata")),
            environment=variables,
            authentication=authentication,
        )
        scaler = scaler_class.parse(trigger)
        return Probe(metric_name(bare.index, scaler.metric), bare.type, scaler, Source.of(scaler, alone))


def _texts(trigger: Trigger, metadata: Any) -> Mapping[str, str]:
    for key, text in (metadata or {}).items():
        if not isinstance(text, str):
            raise trigger.error(key, 'must be a text; numbers and true or false need quotes: "5"')
    return metadata or {}


def _shared_names(specs: Sequence[Object]) -> list[str]:
    names = [spec["name"] for spec in specs if spec.get("name")]
    shared = dict.fromkeys(name for name in names if names.count(name) > 1)
    return [f"spec.triggers: several triggers are named {name}; names must be unique" for name in shared]
