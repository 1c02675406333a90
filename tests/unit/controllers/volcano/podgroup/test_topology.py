"""Node labels that stand for the tiers of networkTopology, and the affinity that pods get by them."""

from tests.support.tables import cases
from tests.unit.controllers.factories import NOW
from tests.unit.controllers.volcano.podgroup.gangs import everything, group, node
from workers.api.kinds import Object
from workers.controllers.volcano import podgroup
from workers.controllers.volcano.podgroup import topology, vectors
from workers.controllers.volcano.podgroup.admission_round import admit
from workers.controllers.volcano.podgroup.group import DEFAULT_RULES

LABELS = ("rack", "zone")


@cases(
    ("the nearest", {"highestTierAllowed": 1}, "rack"),
    ("the farthest", {"highestTierAllowed": 2}, "zone"),
    ("beyond it", {"highestTierAllowed": 3}, None),
    ("none", {"highestTierAllowed": 0}, None),
    ("by name", {"highestTierName": "zone"}, "zone"),
    ("of another name", {"highestTierName": "row"}, None),
    ("not said", {"mode": "hard"}, None),
)
def test_the_label_of_a_tier(given: Object, label: str | None) -> None:
    assert topology.label(given, LABELS) == label


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"labelSelector": {"matchLabels": {"job": "train"}}, "topologyKey": "rack"}
OWN = {"nodeAffinity": {"x": 1}, "podAffinity": {REQUIRED: ["mine"], "other": []}}


@cases(
    ("no topology", None, {}, None),
    ("no label for its tier", {"highestTierAllowed": 9}, {}, None),
    ("hard", {"highestTierAllowed": 1}, {}, {"podAffinity": {REQUIRED: [TERM]}}),
    (
        "soft",
        {"mode": "soft", "highestTierName": "rack"},
        {},
        {"podAffinity": {PREFERRED: [{"weight": 100, "podAffinityTerm": TERM}]}},
    ),
    (
        "beside its own",
        {"mode": "hard", "highestTierAllowed": 1},
        {"affinity": OWN},
        {"nodeAffinity": {"x": 1}, "podAffinity": {REQUIRED: ["mine", TERM], "other": []}},
    ),
)
def test_the_affinity_of_pods(given: Object | None, spec: Object, affinity: Object | None) -> None:
    found = topology.with_affinity({"containers": [], **spec}, given, LABELS, {"job": "train"})
    assert found == {"containers": [], **spec, **({"affinity": affinity} if affinity else {})}


@cases(
    ("room", {"cpu": 2}, {"cpu": 2}, True),
    ("too little", {"cpu": 3}, {"cpu": 2}, False),
    ("of what is not there", {"gpu": 1}, {"cpu": 2}, False),
    ("nothing, where more is taken than there is", {"cpu": 0}, {"cpu": -1}, True),
)
def test_what_fits(asked: dict[str, int], room: dict[str, int], fits: bool) -> None:
    assert vectors.fits(asked, room) is fits


def test_the_round_of_the_root_queue_is_that_of_these_rules() -> None:
    snapshot = everything(groups=[group()], nodes=[node()])
    assert podgroup.rounds()(snapshot, NOW) == admit(snapshot, NOW, DEFAULT_RULES)
