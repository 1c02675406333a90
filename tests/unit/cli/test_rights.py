"""``penstock rights`` prints what the generators of deploy/ make."""

import yaml

from deploy.manifests import rbac, volcano
from tests.support.paths import ROOT
from tests.support.tables import cases
from tests.unit.cli.conftest import Type


@cases(
    ("everywhere", (), rbac.NOTHING, rbac.DEFAULT),
    (
        "with credentials",
        ("--secrets", "a", "--secrets", "b", "--pushers", "*", "--tokens", "a/reader"),
        rbac.Grants(("a", "b"), ("*",), ("a/reader",)),
        rbac.DEFAULT,
    ),
    (
        "in some namespaces",
        ("--namespaces", "a, b", "--own", "ours"),
        rbac.NOTHING,
        rbac.Placement("ours", ("a", "b")),
    ),
    ("in one process", ("--standalone",), rbac.NOTHING, rbac.Placement(processes=rbac.STANDALONE)),
)
def test_the_rights_are_those_of_the_generator(options, granted, placement, penstock: Type) -> None:
    printed = penstock("rights", *options)
    assert (printed.code, printed.err) == (0, "")
    assert list(yaml.safe_load_all(printed.out)) == list(rbac.documents(granted, placement))


def test_the_rights_of_volcanos_kinds_come_when_they_are_asked_for(penstock: Type) -> None:
    printed = penstock("rights", "--volcano", "--ssh", "team")
    wanted = [*rbac.documents(), *volcano.documents(("team",))]
    assert list(yaml.safe_load_all(printed.out)) == wanted


def test_without_options_they_are_those_of_the_checkout(penstock: Type) -> None:
    file = (ROOT / "deploy" / "rbac.yaml").read_text()
    assert list(yaml.safe_load_all(penstock("rights").out)) == list(yaml.safe_load_all(file))


@cases(
    ("a namespace", ("--secrets", "Team"), "--secrets", "'Team' is no namespace"),
    ("namespaces", ("--namespaces", "a,B"), "--namespaces", "'B' is no namespace"),
    ("an account", ("--tokens", "a/R!"), "--tokens", "'R!' is no name of a service account"),
    ("the own namespace", ("--own", "*"), "--own", "'*' is no namespace"),
    ("Volcano in some namespaces", ("--volcano", "--namespaces", "a"), "--volcano", "belong to no namespace"),
    ("plugins of nothing", ("--ssh", "a"), "--ssh", "--volcano"),
)
def test_what_cannot_be_granted_is_refused_by_name(options, option, text, penstock: Type) -> None:
    printed = penstock("rights", *options)
    assert (printed.code, printed.out) == (2, "")
    assert option in printed.err
    assert text in printed.err
