"""Which kinds are followed, and which of them a selector narrows."""

from typing import Any

import pytest

from deploy.processes.watch import followed
from workers.api.kinds import CONFIG_MAP, CRON_JOB, JOB, POD, QUEUE, SCALED_JOB, SECRET, Kind
from workers.decision.controller import Controller
from workers.decision.plan import NOTHING


def controller(kind: Kind, **sees: Any) -> Controller:
    return Controller(kind, lambda snapshot, now: NOTHING, **sees)


@pytest.mark.parametrize(
    ("controllers", "kinds"),
    [
        pytest.param(
            [controller(SCALED_JOB, children=(JOB,))], {SCALED_JOB: "team=a", JOB: "", POD: ""}, id="children"
        ),
        pytest.param(
            [controller(CRON_JOB, children=(JOB,)), controller(JOB, children=(POD,))],
            {CRON_JOB: "team=a", JOB: "", POD: ""},
            id="a child has a controller of its own",
        ),
        pytest.param(
            [controller(CONFIG_MAP, adopts=(SECRET,)), controller(SECRET)],
            {CONFIG_MAP: "team=a", SECRET: "", POD: ""},
            id="what may be adopted",
        ),
        pytest.param(
            [controller(CONFIG_MAP, referrers=(SECRET,)), controller(SECRET)],
            {CONFIG_MAP: "team=a", SECRET: "", POD: ""},
            id="what names it",
        ),
        pytest.param(
            [controller(CONFIG_MAP, cluster_wide=(QUEUE,), follows=(SECRET,)), controller(QUEUE)],
            {CONFIG_MAP: "team=a", QUEUE: "", SECRET: "", POD: ""},
            id="what is seen whole, and relatives",
        ),
        pytest.param(
            [controller(JOB, children=(SECRET,), labelled={SECRET.id: "ours"})],
            {JOB: "team=a", SECRET: "ours", POD: ""},
            id="children that carry a label",
        ),
        pytest.param(
            [
                controller(JOB, children=(SECRET,), labelled={SECRET.id: "ours"}),
                controller(CRON_JOB, children=(SECRET,), labelled={SECRET.id: "ours"}),
            ],
            {JOB: "team=a", CRON_JOB: "team=a", SECRET: "ours", POD: ""},
            id="the same label for all who ask",
        ),
        pytest.param(
            [
                controller(JOB, children=(SECRET,), labelled={SECRET.id: "ours"}),
                controller(CRON_JOB, children=(SECRET,), labelled={SECRET.id: "mine"}),
            ],
            {JOB: "team=a", CRON_JOB: "team=a", SECRET: "", POD: ""},
            id="another label for another",
        ),
        pytest.param(
            [
                controller(JOB, children=(SECRET,), labelled={SECRET.id: "ours"}),
                controller(CRON_JOB, follows=(SECRET,)),
            ],
            {JOB: "team=a", CRON_JOB: "team=a", SECRET: "", POD: ""},
            id="somebody needs all",
        ),
        pytest.param(
            [controller(JOB, children=(SECRET,), labelled={SECRET.id: "ours"}), controller(SECRET)],
            {JOB: "team=a", SECRET: "", POD: ""},
            id="what has a label has a controller",
        ),
        pytest.param(
            [controller(JOB, children=(POD,), labelled={POD.id: "ours"})],
            {JOB: "team=a", POD: ""},
            id="pods may be anybody's grandchildren",
        ),
    ],
)
def test_all_that_is_seen_is_followed_and_only_what_is_complete_then_is_narrowed(
    controllers: list[Controller], kinds: dict[Kind, str]
) -> None:
    assert followed({one.kind.id: one for one in controllers}, "team=a") == kinds
