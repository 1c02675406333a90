"""What a decision sees of an object's ledger and of the Jobs of its claims."""

from dataclasses import dataclass
from functools import cached_property

from workers.api.kinds import JOB, Object
from workers.controllers.keda.scaledjob import binding, names
from workers.controllers.keda.scaledjob.claims import ClaimVerdict, judge
from workers.handoff.claims import ClaimedItem, ClaimLedger, ClaimOrder, ledger_of, name_of
from workers.reconcile.plan import Patch, PollNow, Step, Together
from workers.reconcile.snapshot import CachedObject, Reading, Snapshot


@dataclass(frozen=True)
class ObservedClaims:
    """An object's ledger and the Jobs of its claims. closing: no new Jobs are wanted."""

    snapshot: Snapshot
    body: Object
    closing: bool = False
    retries: int = 0
    tail: bool = False

    @cached_property
    def jobs(self) -> tuple[CachedObject, ...]:
        return self.snapshot.children.get(JOB.id, ())

    @cached_property
    def name(self) -> str:
        """The ledger's."""
        return name_of(ledger_of(self.body) or "")

    @cached_property
    def reading(self) -> Reading | None:
        """The last reading of this ledger, whether it could be read or not."""
        reading = self.snapshot.reading
        return reading if reading and reading.ledger and reading.ledger.of == self.name else None

    @cached_property
    def found(self) -> ClaimLedger:
        return (self.reading and self.reading.ledger) or ClaimLedger(self.name)

    @property
    def is_known(self) -> bool:
        """Whether the ledger could be read."""
        return self.found.claims is not None

    @property
    def claims(self) -> tuple[ClaimedItem, ...]:
        """What is claimed, as far as that is known."""
        return self.found.claims or ()

    @property
    def problem(self) -> str | None:
        """Why the ledger could not be read."""
        reading = self.reading
        if reading is None or self.is_known:
            return None
        return reading.problem or next((sample.error for sample in reading.samples if sample.error), None)

    @cached_property
    def verdict(self) -> ClaimVerdict:
        if self.reading is None or not self.is_known:
            return ClaimVerdict()
        # What has no Job goes back only when nothing more is taken: until then nobody makes a Job for it.
        closing = self.closing and self.found.limit == 0
        if self.closing and not closing:
            return ClaimVerdict(bound=[claim.id for claim in self.claims])
        return judge(self.found, self.jobs, self.reading.started, self.job_name, retries=self.retries, closing=closing)

    @cached_property
    def running(self) -> list[CachedObject]:
        """Unfinished Jobs of claims that nobody deletes, whatever is known of the ledger."""
        return [
            each for each in self.jobs if each.body and binding.claim_of(each.body) and not binding.has_ended(each.body)
        ]

    @property
    def is_closed(self) -> bool:
        """Nothing is claimed, nothing will be, and no Job waits to hear so."""
        verdict = self.verdict
        empty = self.is_known and self.found.limit == 0 and not self.claims
        return empty and not verdict.given_up and not verdict.unclear

    def job_name(self, claim: ClaimedItem) -> str:
        return names.claimed(self.body["metadata"]["name"], self.name, claim.id, claim.attempt)

    def ask(self, limit: int) -> tuple[Step, ...]:
        """Give the order that follows from what is known, unless it stands already and nothing is to be settled."""
        verdict = self.verdict
        stands = self.is_known and self.found.limit == limit and not verdict.settlements and not verdict.unclear
        if stands or self.problem:
            return ()
        order = ClaimOrder(
            id=self.snapshot.at,
            of=self.name,
            limit=limit,
            tail=self.tail,
            settlements=tuple(verdict.settlements),
            bound=tuple(verdict.bound),
        )
        return (PollNow(order),)

    def let_go(self) -> tuple[Step, ...]:
        """Let Jobs go whose claims are settled, and those that somebody deleted before they finished.

        The latter only as they were observed: had one finished since, its item would be done, and must not go back.
        """
        given_up = tuple(_unbound(entry, entry.body) for entry in self.verdict.given_up if entry.body)
        stage = (Together(given_up, vital=False),) if given_up else ()
        return (*stage, *binding.unbind(self.verdict.freed))


def _unbound(entry: CachedObject, job: Object) -> Patch:
    finalizers = [each for each in job["metadata"]["finalizers"] if each != binding.FINALIZER]
    return Patch(entry.ref, {"metadata": {"finalizers": finalizers}}, job["metadata"]["resourceVersion"])
