"""Which kinds are followed, and which of them the settings' selector narrows."""

from typing import Any

import pytest

from deploy.informers import followed
from workers.api.kinds import CONFIG_MAP, CRON_JOB, JOB, POD, SCALED_JOB, SECRET, Kind
from workers.controller import Controller
from workers.plan import NOTHING


def controller(kind: Kind, **sees: Any) -> Controller:
    return Controller(kind, lambda snapshot, now: NOTHING, **sees)


@pytest.mark.parametrize(
    ("controllers", "kinds", "narrowed"),
    [
        pytest.param([controller(SCALED_JOB, children=(JOB,))], {SCALED_JOB, JOB, POD}, {SCALED_JOB}, id="children"),
        pytest.param(
            [controller(CRON_JOB, children=(JOB,)), controller(JOB, children=(POD,))],
            {CRON_JOB, JOB, POD},
            {CRON_JOB},
            id="a child has a controller of its own",
        ),
        pytest.param(
            [controller(CONFIG_MAP, adopts=(SECRET,)), controller(SECRET)],
            {CONFIG_MAP, SECRET, POD},
            {CONFIG_MAP},
            id="what may be adopted",
        ),
    ],
)
def test_all_that_is_seen_is_followed_and_only_the_top_is_narrowed(
    controllers: list[Controller], kinds: set[Kind], narrowed: set[Kind]
) -> None:
    every, top = followed({one.kind.id: one for one in controllers})
    assert (set(every), set(top)) == (kinds, narrowed)
    assert len(every) == len(kinds)
