"""What is to become of every claim, from the ledger and the Jobs that are there.

A Job of a claim has a finalizer until its claim is settled. So a Job that is gone did not finish; and a claim without
a Job may have one of which nobody here knows yet: making it again under its name is safe.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.keda.scaledjob import binding
from workers.handoff.claims import LARGEST, ClaimedItem, ClaimLedger, ClaimSettlement
from workers.reconcile.snapshot import CachedObject

#: Characters of a reason that are kept with a parked item.
_QUOTE = 500


@dataclass
class ClaimVerdict:
    """missing: claims that are to have a Job and have none. settlements: claims whose fate is known. bound: claims
    whose Job exists. freed: Jobs that have ended and whose claim is settled. given_up: Jobs that are being deleted,
    unfinished, and still hold their claim. running: unfinished Jobs that nobody deletes. strays: how many Jobs run
    whose claim is not in the ledger. owed: how many claims have no unfinished Job and are to have one, now or when more
    is known. unclear: only a fresh reading can tell more.
    """

    missing: list[ClaimedItem] = field(default_factory=list)
    settlements: list[ClaimSettlement] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    freed: list[CachedObject] = field(default_factory=list)
    given_up: list[CachedObject] = field(default_factory=list)
    running: list[CachedObject] = field(default_factory=list)
    strays: int = 0
    owed: int = 0
    unclear: bool = False


def judge(
    ledger: ClaimLedger,
    jobs: Iterable[CachedObject],
    started: int,
    name: Callable[[ClaimedItem], str],
    *,
    retries: int = 0,
    closing: bool = False,
) -> ClaimVerdict:
    """Decide on every claim and on every Job of one.

    started: when the poll began that found this ledger (broker's clock). name: of a claim's Job. retries: how often a
    failed item gets another Job. closing: no new Jobs are wanted, and an item that has none is returned.
    """
    verdict = ClaimVerdict()
    by_name = {entry.ref.name: entry for entry in jobs}
    returned: list[ClaimSettlement] = []
    claims = ledger.claims or ()
    for claim in claims:
        entry = by_name.pop(name(claim), None)
        settled = _without_job(claim, verdict, closing) if entry is None else None
        if entry is not None:
            settled = _with_job(claim, entry, verdict, 0 if closing else retries)
        if settled:
            (returned if settled.how == "returned" else verdict.settlements).append(settled)
    # Each returned item goes to the very front: the oldest comes last.
    verdict.settlements += reversed(returned)
    attempts = {claim.id: claim.attempt for claim in claims}
    for entry in by_name.values():
        if entry.body and (claim_ := binding.claim_of(entry.body)):
            _other_job(entry, entry.body, _is_settled(entry, claim_, attempts, started), verdict)
    return verdict


def _without_job(claim: ClaimedItem, verdict: ClaimVerdict, closing: bool) -> ClaimSettlement | None:
    if problem := _unfit(claim):
        return ClaimSettlement(claim.id, "parked", problem)
    if closing:
        return ClaimSettlement(claim.id, "returned")
    verdict.owed += 1
    if claim.item is None:
        verdict.unclear = True
    else:
        verdict.missing.append(claim)
    return None


def _with_job(claim: ClaimedItem, entry: CachedObject, verdict: ClaimVerdict, retries: int) -> ClaimSettlement | None:
    job = entry.body
    if job is None:
        return ClaimSettlement(claim.id, "returned")
    verdict.bound.append(claim.id)
    match conditions.finished(job):
        case "Complete":
            return ClaimSettlement(claim.id, "done")
        case "Failed" if claim.attempt < retries:
            verdict.owed += 1
            return ClaimSettlement(claim.id, "retried", attempt=claim.attempt + 1)
        case "Failed":
            return ClaimSettlement(claim.id, "parked", _why(entry, job))
    if not job["metadata"].get("deletionTimestamp"):
        verdict.running.append(entry)
    elif binding.is_bound(job):
        verdict.given_up.append(entry)
    return None


def _other_job(entry: CachedObject, job: Object, settled: bool, verdict: ClaimVerdict) -> None:
    """A Job that no claim asks for, any more or yet."""
    if not binding.has_ended(job):
        verdict.running.append(entry)
        verdict.strays += 1
    elif binding.is_bound(job):
        if settled:
            verdict.freed.append(entry)
        else:
            verdict.unclear = True


def _is_settled(entry: CachedObject, claim: tuple[str, int], attempts: Mapping[str, int], started: int) -> bool:
    """Whether the ledger is known to need this Job no more."""
    id, attempt = claim
    if id in attempts:
        return attempts[id] > attempt
    # A reading from before this Job was last seen may be older than its claim.
    return entry.seen < started


def _unfit(claim: ClaimedItem) -> str | None:
    """Why no Job can ever be made for this claim."""
    if claim.size < 0:
        return "the entry was deleted from the stream before a Job was made for it"
    if claim.size > LARGEST:
        return f"the item has {claim.size} bytes, and a Job can carry {LARGEST}"
    return None


def _why(entry: CachedObject, job: Object) -> str:
    failed = conditions.find(job, "Failed") or {}
    texts = (f"Job {entry.ref.name} failed", failed.get("reason"), failed.get("message"))
    return ": ".join(text for text in texts if text)[:_QUOTE]
