"""The admission checks: each returns the refusal of a group, or None, in the order in which they are asked."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from workers.admission.volcano.queue_lookup import OPEN, ROOT
from workers.api.volcano.podgroup import GIVEN_UP
from workers.controllers.volcano.podgroup import vectors
from workers.controllers.volcano.podgroup.deserved_shares import QueueTree
from workers.controllers.volcano.podgroup.group import WAITING_LIMIT, GangDemand, Group
from workers.controllers.volcano.podgroup.ledger import PlacementLedger
from workers.controllers.volcano.podgroup.members import Member
from workers.controllers.volcano.podgroup.quotas import NamespaceQuotas
from workers.controllers.volcano.podgroup.vectors import EMPTY, Vector


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a group waits. hopeless: waiting alone will not help.

    room: the group waits for room, which is reserved for it once it is late. short: the queue without enough left,
    empty for the cluster. scattered: there is room, in pieces on several nodes.
    """

    reason: str
    message: str
    hopeless: bool = False
    room: bool = False
    short: str = ""
    scattered: bool = False


class AdmissionChecks:
    """The checks with the totals of one round."""

    def __init__(self, tree: QueueTree, ledger: PlacementLedger, quotas: NamespaceQuotas, now: datetime) -> None:
        self._tree, self._ledger, self._quotas, self._now = tree, ledger, quotas, now
        # Answers to demands while no room is given away; those of `_lasting` until a gang is admitted.
        self._answers: dict[GangDemand, Refusal] = {}
        self._lasting: dict[GangDemand, Refusal] = {}
        self._rules: tuple[Callable[[Group], Refusal | None], ...] = (
            self._queue,
            self._incomplete,
            self._too_many,
            self._beyond_cluster,
            self._beyond_queues,
            self._beyond_quotas,
            self._scattered,
        )

    def ask(self, group: Group) -> Refusal | None:
        """Returns the first refusal; None admits the group and counts its need.

        Equal demands have equal answers as long as no room is given away between them.
        """
        if group.problem or group.durations or group.back_off:
            own = self.permanent_refusal(group) or self._backing_off(group)
            if own is not None:
                return own
        demand = group.demand
        refusal = self._answers.get(demand) or self._lasting.get(demand)
        if refusal is not None:
            return refusal
        for rule in self._rules:
            refusal = rule(group)
            if refusal is not None:
                (self._lasting if self._lasts(demand, refusal) else self._answers)[demand] = refusal
                return refusal
        self._ledger.promise(group)
        self._quotas.promise(group)
        self._answers.clear()
        self._lasting.clear()
        return None

    def _lasts(self, demand: GangDemand, refusal: Refusal) -> bool:
        """Returns True if reservations, which only take room, leave the answer to this demand as it is.

        That is where nothing is left of the first resource that the demand names: amounts left are told from 0 on. What
        other queues are guaranteed may grow less with a reservation.
        """
        if not refusal.room or refusal.short or refusal.scattered or self._tree.guarded:
            return False
        name, value = demand.need[0]
        left = self._ledger.left(demand.queue, name)
        return value > 0 and left is not None and left <= 0

    def permanent_refusal(self, group: Group) -> Refusal | None:
        """Returns the refusal that no amount of room changes; None if there is none."""
        return self._malformed(group) or self._given_up(group)

    def check_pod(self, group: Group, pod: Member) -> bool:
        """Returns True if a pod beyond its gang may start now; it counts at once."""
        if group.queue not in self._tree or any(
            self._tree[name].state != OPEN for name in self._tree.chains[group.queue]
        ):
            return False
        ledger, shape = self._ledger, pod.shape
        if self._short_of(group.queue, pod.requests) or (ledger.bins is not None and ledger.bins.is_reserved(shape)):
            return False
        if ledger.bins is not None and not ledger.bins.take((shape,)):
            return False
        ledger.give(group.queue, pod.requests)
        self._answers.clear()
        return True

    def reserve_rooms(self, waiting: Iterable[tuple[Group, Refusal]]) -> None:
        """Reserves the room that these groups wait for, as `reserve_room` does; of many with equal demands the sum."""
        plain: list[GangDemand] = []
        for group, refusal in waiting:
            if refusal.room and not (refusal.short or refusal.scattered):
                plain.append(group.demand)
            else:
                self.reserve_room(group, refusal)
        for demand, number in Counter(plain).items():
            self._ledger.reserve(demand, number)
        self._answers.clear()

    def reserve_room(self, group: Group, refusal: Refusal) -> None:
        """Reserves the room that this group waits for.

        A group short of its queue's resources reserves those of the queue. A group with scattered room reserves its
        nodes: the scheduler, not Penstock, picks a node for each pod.
        """
        if not refusal.room:
            return
        if refusal.short:
            self._ledger.withhold(refusal.short, vectors.minus(group.need, group.loose))
        elif not refusal.scattered:
            self._ledger.reserve(group.demand)
        elif self._ledger.bins is not None:
            self._ledger.bins.reserve(group.shapes or ())
        self._answers.clear()

    def _malformed(self, group: Group) -> Refusal | None:
        return Refusal("InvalidSpec", group.problem, hopeless=True) if group.problem else None

    def _given_up(self, group: Group) -> Refusal | None:
        if not group.elapsed(WAITING_LIMIT, self._now) or group.was_whole:
            return None
        waited = group.body["metadata"]["annotations"][WAITING_LIMIT]
        text = f"the gang did not start within {waited}, as {WAITING_LIMIT} asks, and waits no longer"
        return Refusal(GIVEN_UP, text, hopeless=True)

    def _backing_off(self, group: Group) -> Refusal | None:
        back = group.back_off
        if back is None or (self._now >= back.until and not group.is_clearing):
            return None
        if back.reclaimed:
            return Refusal("BackingOff", "its room was reclaimed for a gang of another queue; it may try again soon")
        times = "once" if back.count == 1 else f"{back.count} times"
        return Refusal("BackingOff", f"the gang was let through {times} and not placed; it may try again soon")

    def _queue(self, group: Group) -> Refusal | None:
        name = group.queue
        if name not in self._tree:
            return Refusal("QueueNotFound", f"there is no queue {name}")
        if name == ROOT or self._tree.children[name]:
            return Refusal("QueueNotLeaf", f"queue {name} takes no work itself, only the queues below it do")
        for each in self._tree.chains[name]:
            state = self._tree[each].state
            if state != OPEN:
                return Refusal("QueueNotOpen", f"queue {each} takes no work: its state is {state}")
        return None

    def _incomplete(self, group: Group) -> Refusal | None:
        text = group.demand.short_of_pods
        return Refusal("NotEnoughTasks", text) if text else None

    def _too_many(self, group: Group) -> Refusal | None:
        if group.runs:
            # A gang that lost pods has its place among the running ones.
            return None
        for name in self._tree.chains[group.queue]:
            limit = self._tree[name].limit
            if limit is not None and self._ledger.running[name] >= limit:
                text = f"queue {name} runs {self._ledger.running[name]} groups, and may run {limit} at once"
                return Refusal("TooManyRunning", text)
        return None

    def _beyond_queues(self, group: Group) -> Refusal | None:
        for queue in self._tree.chains[group.queue]:
            if found := self._beyond_queue(queue, group.need, group.loose):
                name, asked, limit = found
                left = limit - self._ledger.use[queue].get(name, 0) + group.loose.get(name, 0)
                texts = _texts(name, asked=asked, left=left, limit=limit)
                there = f"queue {queue} has {texts['left']} of {texts['limit']} {name} left"
                return _short(there, texts, asked > limit, queue)
        return None

    def _beyond_queue(self, queue: str, amounts: Vector, counted: Vector = EMPTY) -> tuple[str, int, int] | None:
        """Returns the first resource that a queue is short of: name, request, limit. counted: in its use already."""
        for name, asked in amounts.items():
            limit, more = self._ledger.limit(queue, name), max(asked - counted.get(name, 0), 0)
            if limit is not None and asked > 0 and more + self._ledger.use[queue].get(name, 0) > limit:
                return name, asked, limit
        return None

    def _beyond_cluster(self, group: Group) -> Refusal | None:
        if not (found := self._beyond_room(group.queue, group.need)):
            return None
        name, asked, left = found
        total = (self._ledger.total or {}).get(name, 0)
        kept = self._ledger.kept(group.queue, name)
        texts = _texts(name, asked=asked, left=left, total=total, kept=kept)
        never = asked > (self._ledger.limit(group.queue, name) or 0)
        others = f" besides the {texts['kept']} that other queues are guaranteed" if kept else ""
        return _short(f"the cluster has {texts['left']} of {texts['total']} {name} left{others}", texts, never)

    def _beyond_room(self, queue: str, amounts: Vector) -> tuple[str, int, int] | None:
        """Returns the first resource that the cluster is short of: name, request, room."""
        for name, asked in amounts.items():
            left = self._ledger.left(queue, name)
            if left is not None and asked > max(left, 0):
                return name, asked, left
        return None

    def _short_of(self, queue: str, amounts: Vector) -> bool:
        """Returns True if the cluster, the queue or an ancestor has too little left."""
        if self._beyond_room(queue, amounts):
            return True
        return any(self._beyond_queue(each, amounts) for each in self._tree.chains[queue])

    def _beyond_quotas(self, group: Group) -> Refusal | None:
        text = self._quotas.refused(group)
        return Refusal("QuotaExceeded", text) if text else None

    def _scattered(self, group: Group) -> Refusal | None:
        """The last check: it takes the room on the nodes."""
        bins = self._ledger.bins
        if bins is None or not group.shapes:
            return None
        kept = any(map(bins.is_reserved, group.shapes))
        if not kept and bins.take(group.shapes):
            return None
        never = ": it can never start as things are"
        if bins.nowhere(group.shapes):
            text = "there is a pod in the gang that no node takes, by its size, node selector, affinity or tolerations"
            return Refusal("NeverFits", text + never, hopeless=True)
        text = f"not for each of its {len(group.shapes)} pods on one that takes it"
        if not bins.fits_alone(group.shapes):
            text = f"there is room for the gang on all nodes together, but {text}, even were they empty{never}"
            return Refusal("NeverFits", text, hopeless=True)
        there = "there is room for the gang on all nodes together, but "
        text = "nodes that it may go to are kept for one that has waited for longer" if kept else text
        return Refusal("NotEnoughResources", there + text, room=True, scattered=True)


def _texts(name: str, **amounts: int) -> Mapping[str, str]:
    return {each: vectors.text(name, max(0, value)) for each, value in amounts.items()}


def _short(there: str, texts: Mapping[str, str], never: bool, queue: str = "") -> Refusal:
    text = f"{there}, the gang needs {texts['asked']}"
    if never:
        return Refusal("NeverFits", f"{text}: it can never start as things are", hopeless=True)
    return Refusal("NotEnoughResources", text, room=True, short=queue)
