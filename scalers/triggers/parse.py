"""Parses the triggers of an object into scalers that are ready to measure, and caches the outcome."""

import asyncio
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import orjson

from penstock.parameters import FROM_ENV, Trigger, refuse_unset
from penstock.scaler import Scaler, metric_name
from scalers.auth import template_environment
from scalers.auth.authenticator import Authenticator, Unreachable, Workload
from scalers.auth.lookups import Lookups, LookupView
from scalers.auth.secret_text import Hidden
from scalers.redaction import why
from scalers.scaler_registry import REGISTRY, ScalerRegistry
from scalers.sources.kubernetes.pod_resources import PodResource
from scalers.ttl_cache import EVER
from workers.api import bool_annotations
from workers.api.kinds import SCALED_JOB, SCALED_OBJECT, Object, Ref
from workers.decision.claims import LEDGER, ledger_of, name_of
from workers.errors import PenstockError, Unavailable, UserError
from workers.newest_entries import TurnCache

#: Triggers that are parsed before other tasks run, and problems that one condition names.
_PIECE, _PROBLEMS = 50, 10


def is_polled(body: Object) -> bool:
    """Returns whether the object's triggers are measured: it is neither being deleted nor paused, or has a ledger.

    Claims in a ledger are settled even while no new items are taken.
    """
    if ledger_of(body):
        return True
    return not body["metadata"].get("deletionTimestamp") and not bool_annotations.is_paused(body)


def measured(body: Object) -> Sequence[Object]:
    """Returns the triggers to measure: those of the spec, or the one whose queue has the object's ledger beside it.

    Raises UserError when the ledger's annotation names no trigger.
    """
    text = ledger_of(body)
    if text is None:
        return (body.get("spec") or {}).get("triggers") or ()
    try:
        trigger = orjson.loads(text)
    except ValueError:
        trigger = None
    if not isinstance(trigger, dict):
        raise UserError(f"annotation {LEDGER} must be a trigger as JSON")
    return (trigger,)


def version(body: Object) -> str:
    """Returns a text that is another one for every other set of triggers of the object."""
    generation, ledger = body["metadata"].get("generation", 0), ledger_of(body)
    return f"{generation}/{name_of(ledger)}" if ledger else str(generation)


def polling_interval(body: Object, default: float) -> float:
    """Returns the seconds between two polls of this object."""
    spec = body.get("spec") or {}
    milliseconds, interval = spec.get("pollingIntervalMilliseconds"), spec.get("pollingInterval")
    if isinstance(milliseconds, int) and milliseconds > 0:
        return milliseconds / 1000
    return float(interval) if isinstance(interval, int) and interval > 0 else default


@dataclass(frozen=True, slots=True, weakref_slot=True)
class SourceKey:
    """One server as one class of scalers asks it. alone: tells sources apart that name no server.

    `of` returns the same object for equal ones: each measurement looks its source up twenty times, and comparing two
    servers means comparing their certificates.
    """

    scaler: type[Scaler]
    server: Hashable
    alone: Hashable = None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.scaler, self.server, self.alone)))

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def of(cls, scaler: Scaler, alone: Hashable) -> "SourceKey":
        """Returns the source of a scaler; `alone` identifies the trigger in case it names no server."""
        server = scaler.server
        words = (type(scaler), server, alone if server is None else None)
        if (found := _KNOWN.get(words)) is None:
            found = _KNOWN[words] = cls(*words)
        return found

    def __str__(self) -> str:
        return "the source" if self.server is None else str(self.server)


#: By their fields, the sources of objects that are polled.
_KNOWN: WeakValueDictionary[tuple[Hashable, ...], SourceKey] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class TriggerProbe:
    """One trigger, ready to be measured.

    name: of its metric, index included. type: of the trigger. given: the name that the spec gives it, '' for none.
    """

    name: str
    type: str
    scaler: Scaler
    source: SourceKey
    given: str = ""


@dataclass(frozen=True, slots=True)
class Parsed:
    """An object's triggers in order; or, with no probes, the problem that keeps all of them from being measured."""

    probes: tuple[TriggerProbe, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    """The cached outcome of parsing one object.

    supplied: by its authenticationRefs, by trigger. since: answers of lookups from before this instant are outdated.
    plain: no trigger has an authenticationRef. fresh: no measurement has failed since.
    """

    version: str
    parsed: Parsed
    supplied: tuple[Hidden, ...]
    since: float
    plain: bool
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class _Supplies:
    """The texts that an object's triggers get from elsewhere than their metadata.

    variables: of the target container. absent: names of variables that may be missing. supplied: by each trigger's
    authenticationRef, or the reason why not.
    """

    variables: Mapping[str, str] = field(repr=False)
    absent: Set[str]
    supplied: Sequence[Hidden | PenstockError]

    def credentials(self, index: int) -> Hidden:
        answer = self.supplied[index]
        if isinstance(answer, PenstockError):
            raise answer
        return answer


class Triggers:
    """Parses objects' triggers, and caches the outcome for as long as spec and credentials stay the same.

    lookups: reads everything outside the object. authenticator: resolves authenticationRefs. broker, prefix: URL of
    Penstock's own broker and first part of its keys, for triggers that are measured there. limit: most objects in the
    cache; of more, about so many stay in it. most: triggers that one object may have; parsing more would delay the
    others. quirks: KEDA's behaviors that are wanted, see workers.api.keda_compat.
    """

    def __init__(
        self,
        registry: ScalerRegistry = REGISTRY,
        lookups: Lookups | None = None,
        authenticator: Authenticator | None = None,
        *,
        broker: str = "",
        prefix: str = "",
        limit: int = 20_000,
        most: int = 1_000,
        quirks: Iterable[str] = (),
    ) -> None:
        self._registry = registry
        self.broker = broker
        self.prefix = prefix
        self._lookups = lookups or Lookups()
        self._authenticator = authenticator or Authenticator()
        self._most = most
        self._quirks = frozenset(quirks)
        self._known: TurnCache[str, _Known] = TurnCache(limit)

    def known(self, body: Object) -> Parsed | None:
        """Returns the cached outcome if it depends on the object alone, None if `parse` has to look."""
        uid = body["metadata"]["uid"]
        known = self._known.get(uid)
        if known is None or not known.plain or not known.fresh or known.version != version(body):
            return None
        self._known.move_to_end(uid)
        return known.parsed

    async def parse(self, ref: Ref, body: Object) -> Parsed:
        """Returns the probes of an object, or its problem. A failed lookup outside the object is not cached.

        The credentials are compared with those of the cached outcome, which costs nothing while the lookups have them
        in their cache; other credentials make other scalers. While credentials cannot be read, the last ones stay.
        """
        uid, current = body["metadata"]["uid"], version(body)
        known = self._known.get(uid)
        since = known.since if known else EVER
        if known and known.version != current:
            known = None
        try:
            specs = measured(body)
        except UserError as error:
            return Parsed(problem=str(error))
        if len(specs) > self._most:
            return Parsed(problem=f"spec.triggers: there are {len(specs)}, at most {self._most} are measured")
        if unchanged := self.known(body):
            return unchanged
        view = self._lookups.view(since)
        try:
            workload = await self._workload(ref, body, specs, view)
        except PenstockError as error:
            return known.parsed if known and isinstance(error, Unavailable) else self._refused(error, specs)
        supplied = tuple([await self._credentials(spec.get("authenticationRef"), workload, view) for spec in specs])
        if known and any(isinstance(answer, Unreachable) for answer in supplied):
            return known.parsed
        credentials = tuple(answer for answer in supplied if isinstance(answer, Hidden))
        if known and known.fresh and len(credentials) == len(supplied) and known.supplied == credentials:
            self._known.move_to_end(uid)
            return known.parsed
        try:
            variables, absent = await self._environment(workload, specs, view)
        except PenstockError as error:
            return known.parsed if known and isinstance(error, Unavailable) else self._refused(error, specs)
        parsed = await self._parsed(ref, uid, specs, _Supplies(variables, absent, supplied))
        plain = not any(spec.get("authenticationRef") for spec in specs)
        # A wrong variable may be corrected in a ConfigMap, a Secret or the target, which does not change the object.
        elsewhere = parsed.problem and _names_variables(specs)
        if len(credentials) == len(supplied) and not elsewhere:
            self._known.keep(uid, _Known(current, parsed, credentials, since, plain))
        return parsed

    def _refused(self, error: PenstockError, specs: Sequence[Object]) -> Parsed:
        """Returns the problem of triggers whose workload cannot be used, with the types that would not work anyway."""
        problems = [str(error)]
        for index, spec in enumerate(specs):
            type_ = spec.get("type") or ""
            try:
                self._registry.find(type_)
            except UserError as unknown:
                problems.append(f"trigger {index} ({type_}): {unknown}")
        return Parsed(problem=_joined(problems))

    def forget(self, uid: str) -> None:
        """Looks everything outside this object up anew: its values may have changed if a measurement failed."""
        if known := self._known.get(uid):
            self._known[uid] = replace(known, since=self._lookups.now(), fresh=False)

    async def _workload(self, ref: Ref, body: Object, specs: Sequence[Object], view: LookupView) -> Workload:
        """Returns the workload of the triggers; looks the target up only where its variables may matter."""
        if ref.kind != SCALED_OBJECT:
            return Workload.of(ref, body)
        target = (body.get("spec") or {}).get("scaleTargetRef") or {}
        template: Object = {}
        if _names_variables(specs) or any(spec.get("authenticationRef") for spec in specs):
            template = await view.template(
                target.get("apiVersion") or "apps/v1",
                target.get("kind") or "Deployment",
                ref.namespace,
                target.get("name") or "",
            )
        return Workload(ref.namespace, template, target.get("envSourceContainerName") or "")

    async def _credentials(
        self, reference: Object | None, workload: Workload, view: LookupView
    ) -> Hidden | PenstockError:
        if not reference:
            return Hidden()
        try:
            return await self._authenticator.parameters(reference, workload, view)
        except PenstockError as error:
            return error

    async def _environment(
        self, workload: Workload, specs: Sequence[Object], view: LookupView
    ) -> tuple[Mapping[str, str], Set[str]]:
        """Returns the target container's variables and the names of those that may be missing; neither if unused."""
        if not _names_variables(specs):
            return {}, frozenset()
        template, container = workload.template, workload.container
        return (
            await template_environment.resolve(template, container, workload.namespace, view.entries),
            template_environment.optional(template, container),
        )

    async def _parsed(self, ref: Ref, uid: str, specs: Sequence[Object], supplies: _Supplies) -> Parsed:
        problems: list[str] = []
        probes: list[TriggerProbe] = []
        for index, spec in enumerate(specs):
            if index % _PIECE == _PIECE - 1:
                await asyncio.sleep(0)
            try:
                probes.append(self._probe(ref, (uid, index), Trigger(index, spec.get("type") or ""), spec, supplies))
            except UserError as error:
                problems.append(str(error))
        problems += _shared_names(specs)
        if not specs:
            problems.append("spec.triggers: there is no trigger")
        return Parsed(problem=_joined(problems)) if problems else Parsed(tuple(probes))

    def _probe(
        self, ref: Ref, alone: tuple[str, int], bare: Trigger, spec: Object, supplies: _Supplies
    ) -> TriggerProbe:
        if not bare.type:
            raise bare.error("type", "is required")
        try:
            scaler_class = self._registry.find(bare.type)
            credentials = supplies.credentials(bare.index)
        except PenstockError as error:
            raise UserError(f"trigger {bare.index} ({bare.type}): {error}") from error
        unmeasured = issubclass(scaler_class, PodResource)
        if ref.kind == SCALED_JOB and spec.get("metricType") and not unmeasured:
            raise bare.error("metricType", "has no meaning on a ScaledJob and must be left out")
        trigger = Trigger(
            index=bare.index,
            type=bare.type,
            name=spec.get("name") or "",
            metadata=_texts(bare, spec.get("metadata")),
            environment=supplies.variables,
            absent=supplies.absent,
            authentication=credentials,
            namespace=ref.namespace,
            owner=ref.name,
            kind=ref.kind.kind,
            broker=self.broker,
            prefix=self.prefix,
            quirks=",".join(sorted(self._quirks)),
        )
        scaler = scaler_class.parse(trigger)
        if "unset-variables" not in self._quirks:
            refuse_unset(scaler_class, trigger)
        _check_properties(bare, scaler)
        source = SourceKey.of(scaler, alone)
        return TriggerProbe(metric_name(bare.index, scaler.metric), bare.type, scaler, source, trigger.name)


def _check_properties(trigger: Trigger, scaler: Scaler) -> None:
    """Raises SettingsError if a property raises that polling relies on: measuring would end for all objects there."""
    for name in ("server", "metric", "watched", "patience"):
        try:
            value = getattr(scaler, name)
            if name == "server":
                hash(value)
        except Exception as error:
            raise trigger.error(name, why(error, scaler)) from error


def _names_variables(specs: Sequence[Object]) -> bool:
    return any(key.endswith(FROM_ENV) for spec in specs for key in spec.get("metadata") or ())


def _texts(trigger: Trigger, metadata: Any) -> Mapping[str, str]:
    known = metadata or {}
    wrong = (key for key, text in known.items() if not isinstance(text, str))
    trigger.refuse((key, 'must be a text; numbers and true or false need quotes: "5"') for key in wrong)
    return known


def _shared_names(specs: Sequence[Object]) -> list[str]:
    names = Counter(spec["name"] for spec in specs if spec.get("name"))
    shared = (name for name, count in names.items() if count > 1)
    return [f"spec.triggers: several triggers are named {name}; names must be unique" for name in shared]


def _joined(problems: Sequence[str]) -> str:
    """Returns the problems as the text of a condition."""
    more = f"; and {len(problems) - _PROBLEMS} more" if len(problems) > _PROBLEMS else ""
    return "; ".join(problems[:_PROBLEMS]) + more
