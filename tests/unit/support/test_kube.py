"""The arguments with which the tests start a real control plane, by its version."""

from pathlib import Path

from tests.support import kube
from tests.support.tables import cases, for_each

#: Arguments of the two components that a version no longer knows, with the first such version.
GONE = {
    **dict.fromkeys(("--port", "--address", "--insecure-port", "--insecure-bind-address"), (1, 24)),
    **{"--kubelet-https": (1, 22), "--target-ram-mb": (1, 24), "--master-service-namespace": (1, 27)},
    **dict.fromkeys(("--enable-taint-manager", "--pod-eviction-timeout"), (1, 27)),
}
HOME = Path("/home-of-the-test")


def arguments(at: kube.Version) -> tuple[list[str], list[str]]:
    return (
        kube.apiserver_arguments(at, HOME, "http://127.0.0.1:2379", 6443),
        kube.controllers_arguments(at, HOME, HOME / "kubeconfig", 10257),
    )


@for_each(*((1, minor) for minor in range(20, 41)))
def test_no_version_is_given_an_argument_that_it_does_not_know(major: int, minor: int) -> None:
    at = (major, minor)
    names = {argument.partition("=")[0] for command in arguments(at) for argument in command}
    assert [name for name in sorted(names) if name in GONE and at >= GONE[name]] == []


@cases(
    ("Debian's", (1, 20), ["--port=0"]),
    ("the last that listens in the clear", (1, 23), ["--port=0"]),
    ("the first that does not", (1, 24), []),
    ("1.36", (1, 36), []),
)
def test_the_arguments_of_a_version(at: kube.Version, more: list[str]) -> None:
    server, controllers = arguments(at)
    newest = arguments((1, 99))
    assert [each for each in controllers if each not in newest[1]] == more
    assert server == newest[0], "the API server of every version is started alike"
    assert set(newest[1]) <= set(controllers)


@cases(
    ("a release", "Kubernetes v1.36.0", (1, 36)),
    ("a patch of one", "Kubernetes v1.20.2-dirty", (1, 20)),
    ("a build without a name", "Kubernetes v0.0.0-master+$Format:%H$", (1, 20)),
)
def test_what_a_program_says_of_its_version(said: str, version: kube.Version) -> None:
    assert kube.parse_version(said) == version
