"""Addresses on the loopback: one for each pod that asks, known before it runs."""

import ipaddress

from tests.support.tables import for_each
from workers.api import loopback_addresses


def named(name, namespace="default"):
    return loopback_addresses.address(namespace, name, platform="linux")


def test_an_address_follows_from_the_name_alone():
    assert named("train-worker-0.train") == named("train-worker-0.train")
    assert named("train-worker-0.train") != named("train-worker-0.train", "other")


def test_hardly_any_two_pods_meet():
    found = {named(f"train-worker-{index}.train") for index in range(500)}
    assert len(found) >= 499
    assert all(ipaddress.IPv4Address(each).is_loopback and not each.startswith("127.0.") for each in found)


def test_elsewhere_all_share_one_address():
    assert loopback_addresses.address("default", "a.b", platform="darwin") == "127.0.0.1"


@for_each(
    (None, "127.0.0.1"),
    ("127.3.4.5", "127.3.4.5"),
    ("10.0.0.1", "127.0.0.1"),
    ("0.0.0.0", "127.0.0.1"),
    ("127.1", "127.0.0.1"),
    ("localhost", "127.0.0.1"),
    ("", "127.0.0.1"),
)
def test_a_pod_gets_what_it_asks_for_on_the_loopback_only(asked, given):
    annotations = {} if asked is None else {loopback_addresses.ADDRESS: asked}
    assert loopback_addresses.of({"metadata": {"annotations": annotations}}) == given
    assert loopback_addresses.of({"metadata": {}}) == "127.0.0.1"
