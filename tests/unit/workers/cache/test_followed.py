"""The kinds that are followed, and those that a selector narrows."""

from typing import Any

from tests.support.tables import cases
from workers.api.kinds import CONFIG_MAP, CRON_JOB, JOB, POD, QUEUE, SCALED_JOB, SECRET, Kind
from workers.decision.controller import Controller
from workers.decision.followed_kinds import followed
from workers.decision.plan import NOTHING


def controller(kind: Kind, **sees: Any) -> Controller:
    return Controller(kind, lambda snapshot, now: NOTHING, **sees)


def labelled(kind: Kind, label: str) -> Controller:
    """A controller whose children, Secrets, carry this label."""
    return controller(kind, children=(SECRET,), labelled={SECRET.id: label})


CASES: dict[str, tuple[list[Controller], dict[Kind, str]]] = {
    "children": ([controller(SCALED_JOB, children=(JOB,))], {SCALED_JOB: "team=a", JOB: ""}),
    "a child has a controller of its own": (
        [controller(CRON_JOB, children=(JOB,)), controller(JOB, children=(POD,))],
        {CRON_JOB: "team=a", JOB: ""},
    ),
    "what may be adopted": (
        [controller(CONFIG_MAP, adopts=(SECRET,)), controller(SECRET)],
        {CONFIG_MAP: "team=a", SECRET: ""},
    ),
    "what names it": (
        [controller(CONFIG_MAP, referrers=(SECRET,)), controller(SECRET)],
        {CONFIG_MAP: "team=a", SECRET: ""},
    ),
    "what is read whole, and relatives": (
        [controller(CONFIG_MAP, cluster_wide=(QUEUE,), follows=(SECRET,)), controller(QUEUE)],
        {CONFIG_MAP: "team=a", QUEUE: "", SECRET: ""},
    ),
    "children that carry a label": ([labelled(JOB, "ours")], {JOB: "team=a", SECRET: "ours"}),
    "the same label for all who ask": (
        [labelled(JOB, "ours"), labelled(CRON_JOB, "ours")],
        {JOB: "team=a", CRON_JOB: "team=a", SECRET: "ours"},
    ),
    "another label for another": (
        [labelled(JOB, "ours"), labelled(CRON_JOB, "mine")],
        {JOB: "team=a", CRON_JOB: "team=a", SECRET: ""},
    ),
    "one controller needs all": (
        [labelled(JOB, "ours"), controller(CRON_JOB, follows=(SECRET,))],
        {JOB: "team=a", CRON_JOB: "team=a", SECRET: ""},
    ),
    "what has a label has a controller": ([labelled(JOB, "ours"), controller(SECRET)], {JOB: "team=a", SECRET: ""}),
    "pods may be grandchildren of any kind": (
        [controller(JOB, children=(POD,), labelled={POD.id: "ours"})],
        {JOB: "team=a"},
    ),
}


@cases(CASES)
def test_all_that_is_read_is_followed_and_only_what_is_complete_then_is_narrowed(
    controllers: list[Controller], kinds: dict[Kind, str]
) -> None:
    assert followed({one.kind.id: one for one in controllers}, "team=a") == kinds | {POD: ""}


def test_without_a_selector_all_objects_are_followed() -> None:
    assert followed({SCALED_JOB.id: controller(SCALED_JOB, children=(JOB,))}) == {SCALED_JOB: "", JOB: "", POD: ""}
