"""Chart and kustomization render the same objects for the same choices, with the rights of deploy/manifests."""

import pytest

from deploy.manifests import chart as generator
from deploy.manifests import rbac, volcano
from tests.support import rendered
from tests.support.helm import Helm
from tests.support.tables import cases


@pytest.mark.parametrize("name", rendered.OVERLAYS)
def test_an_overlay_and_the_chart_render_the_same_objects(name: str, chart: Helm) -> None:
    ours, theirs = (
        rendered.comparable(each) for each in (chart.template(rendered.OVERLAYS[name]), rendered.overlay(name))
    )
    assert ours.keys() == theirs.keys()
    for identity in ours:
        assert ours[identity] == theirs[identity], identity


def test_every_overlay_is_compared() -> None:
    assert {each.name for each in (rendered.KUSTOMIZE / "overlays").iterdir()} == set(rendered.OVERLAYS)


def test_the_copies_in_chart_and_kustomization_are_in_step() -> None:
    made = generator.files()
    stale = [str(path) for path, text in made.items() if (generator.DEPLOY / path).read_text() != text]
    assert not stale, "run: python -m deploy.manifests.chart"
    # A CRD or dashboard that is gone stays in no folder.
    for folder in {path.parent for path in made if path.parent.name in ("crds", "dashboards")}:
        assert {each.name for each in (generator.DEPLOY / folder).iterdir()} == {
            path.name for path in made if path.parent == folder
        }


@cases(
    ("everywhere", {}, rbac.NOTHING, rbac.DEFAULT, None),
    (
        "with credentials of some namespaces",
        {"rights": {"secrets": ["team", "other"], "pushers": ["team"], "tokens": ["team/reader", "other"]}},
        rbac.Grants(("team", "other"), ("team",), ("team/reader", "other")),
        rbac.DEFAULT,
        None,
    ),
    (
        "with all credentials",
        {"rights": {"secrets": ["*"], "pushers": ["*"], "tokens": ["*"]}},
        rbac.Grants(("*",), ("*",), ("*",)),
        rbac.DEFAULT,
        None,
    ),
    (
        "in some namespaces, one of them Penstock's",
        {"namespaces": ["team", "penstock"]},
        rbac.NOTHING,
        rbac.Placement(namespaces=("team", "penstock")),
        None,
    ),
    (
        "in some namespaces with their credentials",
        {"namespaces": ["team", "other"], "rights": {"secrets": ["*"], "pushers": ["team"], "tokens": ["team/reader"]}},
        rbac.Grants(("*",), ("team",), ("team/reader",)),
        rbac.Placement(namespaces=("team", "other")),
        None,
    ),
    ("in one process", {"mode": "standalone"}, rbac.NOTHING, rbac.Placement(processes=rbac.STANDALONE), None),
    ("Volcano's kinds", {"volcano": {"enabled": True, "ssh": ["team"]}}, rbac.NOTHING, rbac.DEFAULT, ("team",)),
    (
        "Volcano's kinds in one process",
        {"volcano": {"enabled": True, "ssh": ["*"]}, "mode": "standalone"},
        rbac.NOTHING,
        rbac.Placement(processes=rbac.STANDALONE),
        ("*",),
    ),
)
def test_the_chart_grants_what_the_generator_of_rights_says(values, granted, placement, ssh, chart: Helm) -> None:
    wanted = list(rbac.documents(granted, placement))
    if ssh is not None:
        wanted += [each for each in volcano.documents(ssh, placement) if each["kind"] != "Service"]
    kinds = {"ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"}
    found = [each for each in chart.template({**rendered.EXTERNAL, **values}) if each["kind"] in kinds]
    assert rendered.comparable(found) == rendered.comparable(wanted)
