"""Whatever stops between two steps of a plan: each Command takes effect once, in order, and none is left."""

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.controllers.volcano.test_queues import after, command, consumed, decided, groups, queue
from workers.api.kinds import Object
from workers.controllers.volcano.queue.states import TABLE, Action, QueueState
from workers.reconcile.plan import NOTHING, PatchStatus, Plan, Together


class House:
    """One queue, its Commands, and a worker that may die after any step."""

    def __init__(self, phases: list[str]) -> None:
        self.queue = queue(state="Open")
        self.commands: dict[str, Object] = {}
        self.taken: list[str] = []
        self.groups = groups(*phases)

    def work(self, steps: int | None = None) -> bool:
        """Decides, and carries out so many steps of the plan; answers whether there was anything to do."""
        plan = decided(self.queue, has=self.groups, commands=list(self.commands.values()))
        for step in plan.steps[:steps]:
            if isinstance(step, PatchStatus):
                before = self.queue["status"].get("handled", [])
                self.taken += [uid for uid in step.status.get("handled", []) if uid not in before]
            if isinstance(step, Together):
                for name in consumed(Plan((step,))):
                    del self.commands[name]
            self.queue = after(self.queue, Plan((step,)))
        return plan != NOTHING


@given(
    phases=st.lists(st.sampled_from(["Running", "Completed"]), max_size=2),
    happenings=st.lists(st.one_of(st.sampled_from(list(Action)), st.integers(0, 6)), max_size=12),
)
def test_each_command_takes_effect_once_and_in_order(phases: list[str], happenings: list[Action | int]) -> None:
    house = House(phases)
    asked: list[Action] = []
    for happening in happenings:
        if isinstance(happening, Action):
            name = f"c{len(asked):02}"
            house.commands[name] = command(name, happening, created=f"2026-03-01T11:00:{len(asked):02}Z")
            asked.append(happening)
        else:
            house.work(steps=happening)
    for _ in range(3):
        house.work()
    assert not house.work()
    assert not house.commands
    assert house.taken == [f"uid-c{number:02}" for number in range(len(asked))]
    state = QueueState.OPEN
    for action in asked:
        state = TABLE[state, action].state(len(house.groups))
    assert house.queue["status"]["state"] == TABLE[state, Action.SYNC].state(len(house.groups))
