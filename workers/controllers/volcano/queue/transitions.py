"""What becomes of a queue's state: Commands in the order in which they were made, then the queue above, then a look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workers.api.kinds import Object
from workers.controllers.volcano.queue import hierarchy
from workers.controllers.volcano.queue.states import TABLE, Action, QueueState, state_of
from workers.reconcile.plan import RecordEvent

_SUCCESS = {
    "open": RecordEvent("Normal", "OpenQueue", "Open queue succeed"),
    "close": RecordEvent("Normal", "CloseQueue", "Close queue succeed"),
}


@dataclass(frozen=True, slots=True)
class QueueTransitions:
    """A queue's state as it changes step by step.

    groups: how many PodGroups name the queue. above: the state of the queue above, None for nobody's. closed_by_parent:
    the queue opens again with the one above. told: what is recorded, in order.
    """

    state: QueueState
    groups: int
    above: QueueState | None
    closed_by_parent: bool
    told: tuple[RecordEvent, ...] = ()

    def say(self, *records: RecordEvent) -> "QueueTransitions":
        return replace(self, told=(*self.told, *records))

    def move(self, action: Action) -> "QueueTransitions":
        """One cell of the table."""
        cell = TABLE[self.state, action]
        moved = replace(self, state=cell.state(self.groups))
        return moved.say(_SUCCESS[cell.operation]) if cell.operation in _SUCCESS else moved


def run(queue: Object, groups: int, above: QueueState | None, commands: Sequence[Object]) -> QueueTransitions:
    """The queue's state in the end. commands: those that have had no effect yet, in order."""
    state = state_of(queue)
    # What stands beside an open queue is left over from a plan that did not come to its end.
    course = QueueTransitions(state, groups, above, hierarchy.closed_by_parent(queue) and state.shut)
    for command in commands:
        course = _obeyed(course, command, queue)
    course = _followed(course)
    return course.move(Action.SYNC)


def _obeyed(course: QueueTransitions, command: Object, queue: Object) -> QueueTransitions:
    name, wanted = command["metadata"]["name"], str(command.get("action") or "")
    meant = (command.get("target") or {}).get("uid")
    if meant and meant != queue["metadata"]["uid"]:
        return course.say(
            RecordEvent("Warning", "CommandIgnored", f"Command {name} is for another Queue of this name, now gone")
        )
    if wanted not in list(Action):
        known = ", ".join(Action)
        return course.say(
            RecordEvent("Warning", "CommandIgnored", f"Command {name}: {wanted or 'no action'} is none of {known}")
        )
    course = course.say(RecordEvent("Normal", "CommandIssued", f"Command {name}: {wanted}"))
    return _asked(course, Action(wanted), queue)


def _asked(course: QueueTransitions, action: Action, queue: Object) -> QueueTransitions:
    """A user's own wish: the root queue is never closed, and nobody opens below a queue that is closed."""
    if action is Action.CLOSE and hierarchy.is_root(queue):
        return course.say(RecordEvent("Warning", "CloseQueue", "Close queue failed: the root queue is never closed"))
    if action is Action.OPEN and course.state.shut and course.above is not None and course.above.shut:
        above = hierarchy.parent_of(queue)
        return course.say(RecordEvent("Warning", "OpenQueue", f"Open queue failed: {above} is {course.above}"))
    moved = course.move(action)
    return moved if moved.state.shut else replace(moved, closed_by_parent=False)


def _followed(course: QueueTransitions) -> QueueTransitions:
    """The queue closes with the one above, and opens with it again unless somebody had closed it for itself."""
    if course.above is None:
        return course
    if course.above.shut and not course.state.shut:
        return replace(course.move(Action.CLOSE), closed_by_parent=True)
    if course.above is QueueState.OPEN and course.state.shut and course.closed_by_parent:
        return replace(course.move(Action.OPEN), closed_by_parent=False)
    return course
