"""What a refusal tells: verb, resource, namespace, and the role to change."""

from tests.support.tables import cases
from workers import errors
from workers.client import transport
from workers.client.missing_rights import MissingRight, missing_right

WORKER = 'User "system:serviceaccount:penstock:penstock-worker" cannot'


@cases(
    (
        "in a namespace",
        f'jobs.batch is forbidden: {WORKER} create resource "jobs" in API group "batch" in the namespace "shop"',
        MissingRight("create", "batch", "jobs", "shop", "penstock-worker"),
    ),
    (
        "in the cluster",
        f'pods is forbidden: {WORKER} list resource "pods" in API group "" at the cluster scope',
        MissingRight("list", "", "pods", "", "penstock-worker"),
    ),
    (
        "a subresource",
        f'x is forbidden: {WORKER} patch resource "scaledjobs/status" in API group "keda.sh" in the namespace "a"',
        MissingRight("patch", "keda.sh", "scaledjobs/status", "a", "penstock-worker"),
    ),
    (
        "of a release of another name",
        'x is forbidden: User "system:serviceaccount:ops:ops-penstock-watch" cannot list resource "pods" '
        'in API group "" at the cluster scope',
        MissingRight("list", "", "pods", "", "ops-penstock-watch"),
    ),
    (
        "somebody else",
        'x is forbidden: User "jane" cannot get resource "pods" in API group "" in the namespace "a"',
        MissingRight("get", "", "pods", "a"),
    ),
    ("a quota", 'pods "a" is forbidden: exceeded quota: compute', None),
    ("a namespace that ends", "unable to create new content in namespace a because it is being terminated", None),
)
def test_a_refusal_names_a_right(message: str, expected: MissingRight | None) -> None:
    assert missing_right(message) == expected


def test_a_right_reads_as_a_sentence() -> None:
    right = MissingRight("patch", "keda.sh", "scaledjobs/status", "shop", "penstock-worker")
    assert str(right) == "patch scaledjobs.keda.sh/status in namespace shop"
    assert str(MissingRight("list", "", "pods", "")) == "list pods in the cluster"
    assert right.remedy == (
        "its Role or ClusterRole penstock-worker must allow: patch scaledjobs/status, API group keda.sh"
    )


def test_an_error_ends_with_the_role_to_change_however_long_the_servers_text_is() -> None:
    text = f'x{"x" * 400} is forbidden: {WORKER} list resource "pods" in API group "" at the cluster scope'
    error = transport.refused("GET /api/v1/pods", 403, {"kind": "Status", "message": text})
    assert isinstance(error, errors.Forbidden)
    assert str(error).endswith("; its ClusterRole penstock-worker must allow: list pods, API group ''")
