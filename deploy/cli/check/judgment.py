"""The judgment of one object: the same here, different, not supported, or not known."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from deploy.cli.check import differences
from deploy.cli.check.inventory import Candidate, Inventory
from deploy.local.apiserver import strategies
from deploy.local.apiserver.admission import template_fields, volcano_rules
from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.schema import schema as schemas
from scalers.auth.authenticator import Authenticator
from scalers.auth.lookups import Lookups
from scalers.scaler_registry import REGISTRY
from scalers.triggers.parse import Triggers
from workers.admission import warnings
from workers.admission.admission_options import AdmissionOptions
from workers.admission.lookup import Known, Unseen
from workers.admission.rules import RULES, KindRules
from workers.api import crds, times
from workers.api.keda import scaledjob, scaledobject
from workers.api.keda_compat import FLAGS, Quirk
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    JOB_TEMPLATE,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    SCALED_JOB,
    SCALED_OBJECT,
    STATEFUL_SET,
    TRIGGER_AUTHENTICATION,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
)
from workers.api.model import Problems
from workers.api.volcano import job as vcjob
from workers.controllers.keda.scaledjob import jobs
from workers.controllers.volcano.job import podgroup, policies
from workers.controllers.volcano.podgroup import topology
from workers.errors import ClusterError, NotFound, PenstockError, UserError

if TYPE_CHECKING:
    from workers.settings import Settings

#: From the least to the most serious. A note changes no verdict.
Verdict = Literal["same", "note", "differs", "unknown", "not supported"]
_ORDER: Sequence[Verdict] = ("same", "note", "differs", "unknown", "not supported")


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing that is not the same. field: its path. advice: what to do, if anything."""

    verdict: Verdict
    field: str
    text: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Judgment:
    """The remarks on one object. same: its fields that mean what they meant."""

    candidate: Candidate
    points: Sequence[Remark]
    same: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """The most serious of the points; a note is as good as the same."""
        worst: Verdict = max((each.verdict for each in self.points), key=_ORDER.index, default="same")
        return "same" if worst == "note" else worst


async def judge(candidate: Candidate, inventory: Inventory, settings: "Settings") -> Judgment:
    """Returns the judgment of one object of the inventory. Writes nothing."""
    kind, body = candidate.ref.kind, candidate.body
    body, points, readable = _of_shape(kind, body)
    points += _of_version(kind, body)
    if readable:
        points += _of_rules(kind, body, inventory, settings)
        points += _of_warnings(kind, body)
        points += _of_templates(kind, body)
        if kind in (SCALED_JOB, SCALED_OBJECT):
            points += await _of_triggers(candidate.ref, body, inventory, settings)
        shown = differences.of(kind, body, settings.keda_quirks)
        points += [Remark("differs", each.field, each.text, each.advice) for each in shown]
        points += _of_volcano(kind, body, settings)
    kept = list(_once(points))
    return Judgment(candidate, kept, _same(body, kept) if readable else ())


def _once(points: Iterable[Remark]) -> Iterator[Remark]:
    """Yields the points; of several about what is not supported in one field the first, which is the schema's."""
    said = set()
    for each in points:
        key = (each.verdict, each.field, "" if each.verdict == "not supported" else each.text)
        if key not in said:
            said.add(key)
            yield each


def _same(body: Object, points: Iterable[Remark]) -> list[str]:
    """Returns the fields of the spec that no point is about."""
    said = {each.field for each in points if each.verdict != "note"}
    spec = body.get("spec")
    fields = (f"spec.{name}" for name in (spec if isinstance(spec, dict) else ()))
    return [each for each in fields if not any(one == each or one.startswith((f"{each}.", f"{each}[")) for one in said)]


# Stage: shape, by the schemas and rules of the embedded API server


def _of_version(kind: Kind, body: Object) -> Iterator[Remark]:
    version = body.get("apiVersion", kind.api_version)
    if version != kind.api_version:
        yield Remark("not supported", "apiVersion", f"{version} is not served here", f"use {kind.api_version}")


#: The moment at which objects are taken to be created.
_NOW = times.parse("2026-01-01T00:00:00Z")
#: The reason of an error about a value that is a text, say, and should be an object.
_OTHER_FORM = "FieldValueTypeInvalid"


@cache
def _definitions() -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in crds.all_crds()}


def _of_shape(kind: Kind, body: Object) -> tuple[Object, list[Remark], bool]:
    """Returns the object as an API server would store it, what is wrong with its fields, and whether rules can read it.

    They can read values that are wrong, not those of another form.
    """
    definition = _definitions().get(kind.id)
    if definition is None:
        form = schemas.builtin(kind)
    else:
        version = next(each for each in definition["spec"]["versions"] if each["name"] == kind.version)
        form = schemas.custom(version)
    try:
        decoded, unknown = form.decode(body, strict="Warn")
    except DecodeError as error:
        return body, [Remark("not supported", "", str(error))], False
    text = "there is no such field here: it would have no effect"
    named = [each.partition('"')[2].rstrip('"') for each in unknown]
    points = [Remark("not supported", each, text) for each in (*named, *template_fields.unknown(kind, decoded))]
    strategy = strategies.strategy(kind, definition)
    options = AdmissionOptions()
    filled = form.default(decoded)
    rules = RULES.get(kind.id)
    if rules is not None:
        filled = _defaulted(rules, filled, options)
    errors = [*form.validate(filled)]
    if not errors:
        errors = strategy.validate_create(strategy.prepare_create(filled, _NOW))
    points += [Remark("not supported", each.field, each.message) for each in errors]
    if kind == CRON_JOB and not errors:
        points += [Remark("note", "", text) for text in strategy.warnings(filled)]
    readable = not any(each.reason == _OTHER_FORM or each.field == "spec" for each in errors)
    return decoded, points, readable and isinstance(decoded.get("spec", {}), dict)


def _defaulted(rules: KindRules, body: Object, options: AdmissionOptions) -> Object:
    """Returns the object with its defaults; those that another object gives (a namespace's annotations) stay out."""
    absent = dict.fromkeys(each for each in rules.looks(body) if isinstance(each, Ref))
    return rules.defaulted(body, Known(absent), options)


# Stage: rules of admission, and warnings


@dataclass(frozen=True, slots=True)
class _View:
    """The inventory as rules of admission look it up. missing: named, and not among the manifests; taken as open."""

    inventory: Inventory
    missing: list[Ref] = field(default_factory=list)

    def get(self, ref: Ref) -> Object | None:
        found = Known(whole=self.inventory.whole).get(ref)
        if found or self.inventory.complete:
            return found
        self.missing.append(ref)
        return {"metadata": {"name": ref.name}, "spec": {}, "status": {"state": "Open"}}

    def every(self, kind: Kind) -> Sequence[Object]:
        return Known(whole=self.inventory.whole).every(kind)


def _of_rules(kind: Kind, body: Object, inventory: Inventory, settings: "Settings") -> list[Remark]:
    if (rules := RULES.get(kind.id)) is None:
        return []
    options, view = AdmissionOptions(settings.scheduler_names, settings.pod_scheduler), _View(inventory)
    try:
        filled = _defaulted(rules, body, options)
        found = [*rules.problems(filled, None, view, options)]
    except Unseen as unseen:
        return [Remark("unknown", "", f"depends on {unseen}, which could not be read")]
    points = [Remark("not supported", each.field, each.message) for each in found]
    return [
        *points,
        *(Remark("unknown", "", f"{ref} is not among the manifests") for ref in dict.fromkeys(view.missing)),
    ]


#: The models of kinds whose warnings are notes once the model accepts the object.
_MODELS: dict[str, Callable[[Object], object]] = {SCALED_JOB.id: scaledjob.parse, SCALED_OBJECT.id: scaledobject.parse}


def _of_warnings(kind: Kind, body: Object) -> Iterator[Remark]:
    verdict: Verdict = "note"
    if kind in (TRIGGER_AUTHENTICATION, CLUSTER_TRIGGER_AUTHENTICATION):
        verdict = "not supported"
    elif model := _MODELS.get(kind.id):
        try:
            model(body)
        except Problems:
            verdict = "not supported"
    for text in warnings.warnings(body):
        path, colon, rest = text.partition(": ")
        yield Remark(verdict, path if colon else "", rest if colon else text)


# Stage: templates, as the API server judges what controllers make of them


def _of_templates(kind: Kind, body: Object) -> Iterator[Remark]:
    if kind == SCALED_JOB:
        yield from _of_a_job(body)
    elif rules := RULES.get(kind.id):
        for error in volcano_rules.in_templates(rules.templates(_defaulted(rules, body, AdmissionOptions()))):
            yield Remark("not supported", error.field, error.message)


def _of_a_job(body: Object) -> Iterator[Remark]:
    """Yields what is wrong with the Jobs of a ScaledJob whose model accepts it."""
    place, form = "spec.jobTargetRef", schemas.builtin(JOB)
    try:
        scaled = scaledjob.parse({**body, "metadata": {"namespace": "default", **body["metadata"], "uid": "judged"}})
        decoded, _ = form.decode(next(jobs.build(scaled, ["judged"])), strict="Ignore")
    except Problems:
        return
    except DecodeError as error:
        yield Remark("not supported", place, str(error))
        return
    strategy = strategies.strategy(JOB)
    for each in strategy.validate_create(strategy.prepare_create(form.default(decoded), _NOW)):
        yield Remark("not supported", each.field.replace("spec", place, 1), each.message)


# Stage: triggers, by the parsers of the scalers


@dataclass
class _Asked:
    """Reads what triggers name, and remembers what could not be read."""

    inventory: Inventory
    unread: list[str] = field(default_factory=list)

    async def get(self, ref: Ref) -> Object:
        try:
            return await self.inventory.get(ref)
        except NotFound:
            raise
        except (UserError, ClusterError) as error:
            self.unread.append(str(error))
            raise

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:  # noqa: ARG002 - as scalers ask
        """Answers discovery of workloads. Tokens are not requested: that would be a write."""
        if path == f"/apis/{DEPLOYMENT.api_version}":
            kinds = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET)
            return {"resources": [{"name": each.plural, "kind": each.kind, "namespaced": True} for each in kinds]}
        self.unread.append(f"{path} is not asked")
        raise UserError(self.unread[-1])


async def _of_triggers(ref: Ref, body: Object, inventory: Inventory, settings: "Settings") -> list[Remark]:
    if types := [*_unknown_types(body)]:
        return types
    problem, unread = await _parsed(ref, body, inventory, settings)
    if problem is None:
        return []
    if unread:
        return [Remark("unknown", "spec.triggers", "; ".join(dict.fromkeys(unread)))]
    for quirks in (*([each] for each in FLAGS), [*FLAGS]):
        if (await _parsed(ref, body, inventory, settings, quirks))[0] is None:
            return [Remark("differs", "spec.triggers", problem, _advice(quirks))]
    return [Remark("not supported", "spec.triggers", problem)]


def _unknown_types(body: Object) -> Iterator[Remark]:
    for index, trigger in enumerate(body["spec"].get("triggers") or ()):
        if why := REGISTRY.unknown(trigger.get("type") or ""):
            yield Remark("not supported", f"spec.triggers[{index}].type", why, "docs/triggers.md has those that are")


def _advice(quirks: Sequence[Quirk]) -> str:
    names = ",".join(quirks) if len(quirks) == 1 else "the names of all flags"
    return f"PENSTOCK_KEDA_QUIRKS={names} keeps KEDA's way"


async def _parsed(
    ref: Ref, body: Object, inventory: Inventory, settings: "Settings", quirks: Sequence[Quirk] = ()
) -> tuple[str | None, list[str]]:
    """Returns the problem of the triggers, None without one, and what could not be read for them."""
    asked = _Asked(inventory)
    wanted = {*settings.keda_quirks, *quirks}
    triggers = Triggers(
        REGISTRY,
        Lookups(asked.get, asked.request, own_namespace=settings.own_namespace),
        Authenticator(settings.own_namespace, missing_is_empty="missing-secrets" in wanted),
        broker=settings.broker.get_secret_value(),
        prefix=settings.prefix,
        most=settings.max_triggers,
        quirks=wanted,
    )
    named = {**body, "metadata": {**body["metadata"], "uid": "judged"}}
    try:
        return (await triggers.parse(ref, named)).problem, asked.unread
    except PenstockError as error:
        return str(error), asked.unread


# Stage: fields of Volcano that the plain cluster does not enforce

#: By kind, the path of the spec of the Volcano Jobs that come of it.
_JOBS = {VC_JOB: "spec", JOB_TEMPLATE: "spec", VC_CRON_JOB: "spec.jobTemplate.spec"}
_SCHEDULERS = "for Volcano's scheduler alone: it has no effect here"


def _of_volcano(kind: Kind, body: Object, settings: "Settings") -> Iterator[Remark]:
    spec = body.get("spec") or {}
    if kind == QUEUE:
        for name in ("affinity", "extendClusters"):
            if spec.get(name):
                yield Remark("not supported", f"spec.{name}", _SCHEDULERS)
        # Volcano's webhook writes true where an author says nothing: manifest and stored object have one verdict.
        if spec.get("reclaimable") is not False:
            yield _of_reclaim(settings)
    elif kind == POD_GROUP:
        yield from _of_topology(topology.unenforced(spec, settings.gang_topology, of_a_job=False), "spec")
    elif place := _JOBS.get(kind):
        for name in place.split(".")[1:]:
            spec = spec.get(name) or {}
        yield from _of_volcano_job({**body, **VC_JOB.type_meta, "spec": spec}, place, settings)


def _of_reclaim(settings: "Settings") -> Remark:
    there = "Volcano: evicts single pods of queues above their share. Here: "
    if settings.gang_reclaim:
        return Remark("differs", "spec.reclaimable", f"{there}whole gangs of such a queue back out")
    advice = "PENSTOCK_GANG_RECLAIM=true makes whole gangs back out"
    return Remark("differs", "spec.reclaimable", f"{there}such a queue keeps its pods", advice)


def _of_volcano_job(body: Object, place: str, settings: "Settings") -> Iterator[Remark]:
    try:
        job = vcjob.parse(body)
    except UserError:
        return
    for event in policies.warnings(job.spec):
        yield Remark("note", place, event.message)
    unenforced = topology.unenforced(podgroup.wanted(job, {})["spec"], settings.gang_topology, of_a_job=True)
    yield from _of_topology(unenforced, place)
    if body["spec"].get("runningEstimate"):
        yield Remark("not supported", f"{place}.runningEstimate", _SCHEDULERS)
    for index, task in enumerate(body["spec"]["tasks"]):
        if task.get("topologyPolicy") not in (None, "", "none"):
            yield Remark("not supported", f"{place}.tasks[{index}].topologyPolicy", _SCHEDULERS)


def _of_topology(why: str | None, place: str) -> Iterator[Remark]:
    for each in why.split("; ") if why else ():
        path, _, text = each.partition(": ")
        yield Remark("not supported", path.replace("spec", place, 1), text, "see docs/volcano.md, network topology")
