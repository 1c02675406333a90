"""The next step of every claim, from the ledger that a poll found and the Jobs that are observed.

A Job of a claim carries a finalizer until its claim is settled. So a Job that is gone did not finish; and a claim
without a Job may have one that the store has not seen yet: creating it again under its name is safe.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from workers.api import conditions
from workers.api.kinds import JOB, Object, finalizers_of
from workers.controllers.claims import binding
from workers.decision.claims import LARGEST, ClaimedItem, ClaimLedger, ClaimOrder, ClaimSettlement
from workers.decision.plan import NOTHING, Delete, Patch, Plan, PollNow, Step, Together
from workers.decision.snapshot import CachedObject, Reading, Snapshot

#: Characters of a reason that are kept with a parked item.
_QUOTE = 500
#: Claims whose items polls may read although their Jobs exist, before a new order says so: every poll reads, stores and
#: hands over those items again.
CARRIED = 16


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """The rules of one object's claims.

    retries: Jobs that a failed item gets after its first one. delay: milliseconds before the attempt of this number.
    unfit: the reason why no Job can be made for an item, beside its size; None if one can. records: the ledger keeps a
    history, and gets the Job of every settlement and the reason of every failure.
    """

    retries: int = 0
    delay: Callable[[int], int] = lambda _attempt: 0
    unfit: Callable[[ClaimedItem], str | None] = lambda _claim: None
    records: bool = False


@dataclass
class ClaimVerdict:
    """The claims and Jobs of one ledger, sorted by their next step.

    missing: claims that need a Job and have none. settlements: claims to settle. bound: ids of claims whose Job exists.
    carried: number of those whose items polls still read.
    freed: Jobs that have ended and whose claim is settled. given_up: unfinished Jobs that are being deleted and still
    wait for their claim. strays: number of unfinished Jobs whose claim is not in the ledger. owed: number of claims
    without an unfinished Job that need one now or later. unclear: the decision needs a fresh reading.
    """

    missing: list[ClaimedItem] = field(default_factory=list)
    settlements: list[ClaimSettlement] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    freed: list[CachedObject] = field(default_factory=list)
    given_up: list[CachedObject] = field(default_factory=list)
    carried: int = 0
    strays: int = 0
    owed: int = 0
    unclear: bool = False


@dataclass(frozen=True, slots=True)
class ObservedClaims:
    """An object's ledger and the Jobs of its claims.

    jobs: all Jobs of the object. reading: the last one of this ledger, None before the first. ledger: as that reading
    found it; its claims are None if it could not be read. last_order: the id of the last order, 0 before the first.
    on_its_way: the last order, if the poll of this reading began before it was given, so that the next one carries it
    out; else None.
    """

    jobs: tuple[CachedObject, ...]
    reading: Reading | None
    ledger: ClaimLedger
    verdict: ClaimVerdict
    job_name: Callable[[ClaimedItem], str]
    last_order: int = 0
    on_its_way: ClaimOrder | None = None

    @property
    def is_known(self) -> bool:
        """Returns True if the ledger could be read."""
        return self.ledger.claims is not None

    @property
    def claims(self) -> tuple[ClaimedItem, ...]:
        """Returns the claimed items, empty if the ledger could not be read."""
        return self.ledger.claims or ()

    @property
    def problem(self) -> str | None:
        """Returns the error that kept the ledger from being read, None without one."""
        if self.reading is None or self.is_known:
            return None
        return self.reading.problem or next((sample.error for sample in self.reading.samples if sample.error), None)

    @property
    def is_closed(self) -> bool:
        """Returns True if nothing is claimed, polls claim nothing more, and no Job waits for its settlement."""
        empty = self.is_known and self.ledger.limit == 0 and not self.claims
        return empty and not self.verdict.given_up and not self.verdict.unclear

    def order(self, limit: int, at: int, *, tail: bool = False, renewed: bool = False) -> tuple[Step, ...]:
        """Returns the step that gives polls their order; empty if the last order still holds, or the same one comes.

        limit: most claims. at: the id of the order (µs, broker's clock). tail: claim from the tail of a list.
        renewed: an order that still holds is replaced.
        """
        verdict = self.verdict
        in_force = self.is_known and self.ledger.limit == limit and not verdict.settlements and not verdict.unclear
        if (in_force and verdict.carried <= CARRIED and not renewed) or self.problem:
            return ()
        settlements, bound = tuple(verdict.settlements), tuple(verdict.bound)
        same = (limit, tail, settlements)
        if (last := self.on_its_way) and (last.limit, last.tail, last.settlements) == same:
            # Given again and again, the last order would always be a later one than that of the last reading.
            return ()
        # The broker's clock may have been set back, and ledgers refuse orders older than the last one.
        id = max(at, self.last_order + 1)
        return (PollNow(ClaimOrder(id, self.ledger.of, limit, tail, settlements, bound)),)

    def deletes(self) -> tuple[Delete, ...]:
        """Returns the deletions of all unfinished Jobs of claims, also if the ledger cannot be read."""
        return tuple(
            Delete(entry.ref, entry.body["metadata"]["uid"])
            for entry in self.jobs
            if entry.body and binding.claim_of(entry.body) and not binding.has_ended(entry.body)
        )

    def release(self) -> tuple[Step, ...]:
        """Returns the steps that take the finalizer off Jobs whose claims are settled and off deleted unfinished Jobs.

        The patch of an unfinished Job is fenced by the observed version: had the Job finished since, its item would be
        done and must not be returned.
        """
        given_up = tuple(_unbound(entry, entry.body) for entry in self.verdict.given_up if entry.body)
        stage = (Together(given_up, vital=False),) if given_up else ()
        return (*stage, *binding.unbind(self.verdict.freed))


def release_orphans(snapshot: Snapshot) -> Plan:
    """Returns the plan for the Jobs of an object that is gone: their claims will never be settled."""
    steps = binding.unbind(binding.bound(snapshot.children.get(JOB.id, ())))
    return Plan(steps, "gone, and its claims are never settled") if steps else NOTHING


def observe(
    snapshot: Snapshot,
    of: str,
    job_name: Callable[[ClaimedItem], str],
    rules: ClaimRules,
    *,
    closing: bool = False,
) -> ObservedClaims:
    """Returns the claims of an object. of: its ledger's name. closing: the ledger gets no new Jobs."""
    jobs, reading = snapshot.children.get(JOB.id, ()), snapshot.reading
    if not (reading and reading.ledger and reading.ledger.of == of):
        reading = None
    ledger = (reading and reading.ledger) or ClaimLedger(of)

    # A later order may let polls claim more, or return items, at any moment: what was found before it proves little.
    last = snapshot.order if snapshot.order and snapshot.order.of == of else None
    order = last if last and last.id != ledger.order else None
    if order:
        ledger = replace(ledger, limit=None)
    leaving = frozenset(each.id for each in order.settlements if each.how == "returned") if order else frozenset()

    # A ledger returns items only once polls claim nothing more: an order to stop comes first.
    stopping = closing and ledger.limit != 0
    if reading is None or ledger.claims is None:
        verdict = ClaimVerdict()
    elif stopping:
        verdict = ClaimVerdict(bound=[claim.id for claim in ledger.claims])
    else:
        verdict = judge(ledger, jobs, reading.started, job_name, rules, closing=closing, leaving=leaving)
    on_its_way = order if order and reading and reading.started < order.id else None
    return ObservedClaims(jobs, reading, ledger, verdict, job_name, last.id if last else 0, on_its_way)


def judge(
    ledger: ClaimLedger,
    jobs: Iterable[CachedObject],
    started: int,
    name: Callable[[ClaimedItem], str],
    rules: ClaimRules,
    *,
    closing: bool = False,
    leaving: Collection[str] = (),
) -> ClaimVerdict:
    """Returns the verdict on every claim and every Job of one.

    started: when the poll began that found this ledger (broker's clock). name: of a claim's Job. closing: no
    Jobs are to be created, and an item without one is returned. leaving: claims that an order returns which polls may
    be carrying out.
    """
    verdict = ClaimVerdict()
    if closing:
        rules = replace(rules, retries=0)
    by_name = {entry.ref.name: entry for entry in jobs}
    returned: list[ClaimSettlement] = []
    claims = ledger.claims or ()
    for claim in claims:
        entry = by_name.pop(name(claim), None)
        if entry is None:
            settled = _without_job(claim, verdict, rules, closing, claim.id in leaving)
        else:
            settled = _with_job(claim, entry, verdict, rules)
        if settled:
            (returned if settled.how == "returned" else verdict.settlements).append(settled)
    # Each returned item goes to the very front, so the oldest must come last.
    verdict.settlements += reversed(returned)
    attempts = {claim.id: claim.attempt for claim in claims}
    for entry in by_name.values():
        if entry.body and (claim_ := binding.claim_of(entry.body)):
            _other_job(entry, entry.body, _is_settled(entry, claim_, attempts, started), verdict)
    return verdict


def _without_job(
    claim: ClaimedItem, verdict: ClaimVerdict, rules: ClaimRules, closing: bool, leaves: bool
) -> ClaimSettlement | None:
    if problem := _unfit(claim):
        return ClaimSettlement(claim.id, "parked", problem)
    if closing:
        return ClaimSettlement(claim.id, "returned")
    if leaves or claim.item is None:
        verdict.unclear = True
    elif problem := rules.unfit(claim):
        return ClaimSettlement(claim.id, "parked", problem)
    else:
        verdict.missing.append(claim)
    verdict.owed += 1
    return None


def _with_job(
    claim: ClaimedItem, entry: CachedObject, verdict: ClaimVerdict, rules: ClaimRules
) -> ClaimSettlement | None:
    job, name = entry.body, entry.ref.name if rules.records else ""
    if job is None:
        return ClaimSettlement(claim.id, "returned", job=name)
    verdict.bound.append(claim.id)
    if claim.item is not None:
        verdict.carried += 1
    match conditions.finished(job):
        case "Complete":
            return ClaimSettlement(claim.id, "done", job=name)
        case "Failed" if claim.attempt < rules.retries:
            verdict.owed += 1
            attempt, reason = claim.attempt + 1, _failure(entry, job) if rules.records else ""
            return ClaimSettlement(claim.id, "retried", reason, attempt, rules.delay(attempt), name)
        case "Failed":
            return ClaimSettlement(claim.id, "parked", _failure(entry, job), job=name)
    if job["metadata"].get("deletionTimestamp") and binding.is_bound(job):
        verdict.given_up.append(entry)
    return None


def _other_job(entry: CachedObject, job: Object, settled: bool, verdict: ClaimVerdict) -> None:
    """Adds a Job whose claim is not in the ledger, or not with this attempt, to the verdict."""
    if not binding.has_ended(job):
        verdict.strays += 1
    elif binding.is_bound(job):
        if settled:
            verdict.freed.append(entry)
        else:
            verdict.unclear = True


def _is_settled(entry: CachedObject, claim: tuple[str, int], attempts: Mapping[str, int], started: int) -> bool:
    """Returns True if the claim of this Job is certainly settled."""
    id, attempt = claim
    if id in attempts:
        return attempts[id] > attempt
    # A reading that began before this Job was last seen may be older than its claim.
    return entry.seen < started


def _unfit(claim: ClaimedItem) -> str | None:
    """Returns the reason that no Job can carry this item, None if one can."""
    if claim.size < 0:
        return "the entry was deleted from the stream before a Job was made for it"
    if claim.size > LARGEST:
        return f"the item has {claim.size} bytes, and a Job can carry {LARGEST}"
    return None


def _failure(entry: CachedObject, job: Object) -> str:
    failed = conditions.find(job, "Failed") or {}
    texts = (f"Job {entry.ref.name} failed", failed.get("reason"), failed.get("message"))
    return ": ".join(text for text in texts if text)[:_QUOTE]


def _unbound(entry: CachedObject, job: Object) -> Patch:
    finalizers = [each for each in finalizers_of(job) if each != binding.FINALIZER]
    return Patch(entry.ref, {"metadata": {"finalizers": finalizers}}, job["metadata"]["resourceVersion"])
