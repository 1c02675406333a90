"""What an installation brings: bounded, locked with hashes, and under licences that this project can be used with."""

import re

import pytest
from packaging.markers import Marker
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging import dependencies, licences
from tests.packaging.licences import IN_EXTRAS, PERMISSIVE, Licence
from tests.support.paths import ROOT
from tests.support.tables import for_each

LOCK = (ROOT / "requirements.lock").read_text()
LOCKED = {
    canonicalize_name(name): (version, marker)
    for name, version, marker in re.findall(
        r"^([\w.-]+)==(\S+)(?: ; ([^\\\n]+))?(?: \\\n    --hash=sha256:[0-9a-f]{64})+$", LOCK, re.MULTILINE
    )
}


def test_every_licence_is_on_the_list() -> None:
    always, extras = licences.found()
    assert len(always) > 40
    assert {"psycopg"} <= {one.distribution for one in extras}
    assert licences.refused() == []


@for_each(
    ("MIT", True),
    ("MIT OR GPL-3.0-only", True),
    ("MIT AND GPL-3.0-only", False),
    ("GPL-3.0-only AND (Apache-2.0 OR MIT)", False),
    ("MPL-2.0 AND (Apache-2.0 OR GPL-3.0-only)", True),
    ("(MIT", False),
    ("MIT GPL-3.0-only", False),
    ("GPL-2.0-only WITH Classpath-exception-2.0", False),
    ("LGPL-3.0-only", False),
    ("UNKNOWN", False),
    ("", False),
)
def test_an_expression_is_acceptable_by_its_parts(expression: str, acceptable: bool) -> None:
    assert Licence("x", "1", expression).acceptable(PERMISSIVE) == acceptable


def test_an_extra_alone_may_bring_the_lgpl() -> None:
    assert Licence("x", "1", "LGPL-3.0-only").acceptable(PERMISSIVE | IN_EXTRAS)
    assert not Licence("x", "1", "GPL-3.0-only").acceptable(PERMISSIVE | IN_EXTRAS)


@pytest.mark.parametrize("required", dependencies.declared(*dependencies.EXTRAS), ids=str)
def test_a_requirement_has_an_upper_bound_that_the_lock_keeps(required) -> None:
    version = Version(LOCKED[canonicalize_name(required.name)][0])
    assert version in required.specifier
    assert not required.specifier.contains(f"{version.major + 1}.0" if version.major else f"0.{version.minor + 1}")


def test_the_lock_has_everything_with_hashes_and_names_no_place() -> None:
    wanted = dependencies.closure(dependencies.declared(*dependencies.EXTRAS))
    assert "tzdata" in wanted
    assert wanted - set(LOCKED) == set()
    assert "://" not in LOCK
    assert len(re.findall(r"^[^\s#]", LOCK, re.MULTILINE)) == len(LOCKED), "each requirement has hashes"


def test_development_uses_the_versions_of_the_lock() -> None:
    text = (ROOT / "constraints.txt").read_text()
    constraints = {canonicalize_name(name): version for name, version in re.findall(r"^([\w.-]+)==(\S+)$", text, re.M)}
    # What another platform needs is installed there alone.
    here = {name: version for name, (version, marker) in LOCKED.items() if not marker or Marker(marker).evaluate()}
    assert {name: constraints.get(name) for name in here} == here
