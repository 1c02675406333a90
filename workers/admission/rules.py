"""The rules by kind, for API servers and webhooks that judge objects of any kind."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from workers.admission import pod, scaledobject
from workers.admission.admission_options import AdmissionOptions
from workers.admission.findings import Finding
from workers.admission.lookup import Lookup
from workers.admission.volcano import cronjob, job, jobflow, podgroup, queue
from workers.api import pod_templates
from workers.api.kinds import (
    CLUSTER_TRIGGER_AUTHENTICATION,
    EVENT_JOB,
    JOB_FLOW,
    JOB_TEMPLATE,
    POD,
    POD_GROUP,
    QUEUE,
    SCALED_JOB,
    SCALED_OBJECT,
    SCHEDULED_JOB,
    TRIGGER_AUTHENTICATION,
    VC_CRON_JOB,
    VC_JOB,
    Kind,
    Object,
    Ref,
)

#: Objects, and whole kinds, to observe before a rule is called.
Needs = tuple[Ref | Kind, ...]


def _as_it_is(body: Object, _lookup: Lookup, _options: AdmissionOptions) -> Object:
    return body


def _nothing_wrong(_body: Object, _lookup: Lookup) -> Iterable[Finding]:
    return ()


@dataclass(frozen=True, slots=True)
class KindRules:
    """The rules of one kind.

    defaulted: fills a new object in. problems: judges an accepted object; the old one is None at creation.
    removal: judges a deletion. lenient: nothing that is wrong in a template refuses the object. looks, judges,
    removes: what `defaulted`, `problems` and `removal` look up. vital: writes fail while the webhook is down.
    """

    kind: Kind
    problems: Callable[[Object, Object | None, Lookup, AdmissionOptions], Iterable[Finding]]
    defaulted: Callable[[Object, Lookup, AdmissionOptions], Object] = _as_it_is
    removal: Callable[[Object, Lookup], Iterable[Finding]] = _nothing_wrong
    lenient: bool = False
    looks: Callable[[Object], Needs] = lambda _body: ()
    judges: Needs = ()
    removes: Needs = ()
    vital: bool = True

    def templates(self, body: Object) -> Iterator[tuple[str, Object]]:
        """Yields the pod templates of an object, each with its path; one that is missing is empty."""
        for path, template in pod_templates.of(self.kind, body):
            yield path, template or {}

    @property
    def fills_in(self) -> bool:
        """True if new objects are changed."""
        return self.defaulted is not _as_it_is

    @property
    def keeps(self) -> bool:
        """True if deletions are judged."""
        return self.removal is not _nothing_wrong


_ALL = (
    KindRules(
        VC_JOB,
        lambda body, old, lookup, _options: job.problems(body, old, lookup),
        defaulted=lambda body, _lookup, options: job.defaulted(body, options.schedulers),
        judges=(QUEUE,),
    ),
    KindRules(
        VC_CRON_JOB,
        lambda body, old, _lookup, _options: cronjob.problems(body, old),
    ),
    KindRules(JOB_FLOW, lambda body, old, lookup, _options: jobflow.problems(body, old, lookup)),
    KindRules(
        QUEUE,
        lambda body, old, lookup, _options: queue.problems(body, old, lookup),
        defaulted=lambda body, _lookup, _options: queue.defaulted(body),
        removal=queue.removal,
        judges=(QUEUE,),
        removes=(QUEUE, POD_GROUP),
    ),
    KindRules(
        POD_GROUP,
        lambda body, old, lookup, _options: podgroup.problems(body, old, lookup),
        defaulted=lambda body, lookup, _options: podgroup.defaulted(body, lookup),
        looks=lambda body: (podgroup.namespace_of(body),),
        judges=(QUEUE,),
    ),
    *(
        # Judged by warnings only, as their controllers say the same in a condition.
        KindRules(kind, lambda _body, _old, _lookup, _options: (), lenient=True, vital=False)
        for kind in (
            SCALED_JOB,
            SCHEDULED_JOB,
            EVENT_JOB,
            JOB_TEMPLATE,
            TRIGGER_AUTHENTICATION,
            CLUSTER_TRIGGER_AUTHENTICATION,
        )
    ),
    KindRules(
        SCALED_OBJECT,
        lambda body, old, lookup, _options: scaledobject.problems(body, old, lookup),
        judges=(SCALED_OBJECT,),
        vital=False,
    ),
    KindRules(
        POD,
        lambda body, old, _lookup, options: pod.problems(body, old, options),
        defaulted=lambda body, _lookup, options: pod.defaulted(body, options),
    ),
)

#: By kind id.
RULES: Mapping[str, KindRules] = {rules.kind.id: rules for rules in _ALL}
