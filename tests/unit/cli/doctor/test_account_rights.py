"""The rights that doctor asks for: those of the account's own process, where the settings need them."""

from typing import Any

from deploy.cli.doctor.account_rights import account_of, examined, needed
from tests.support.tables import cases
from workers.client.missing_rights import MissingRight
from workers.errors import NotFound
from workers.settings import Settings


@cases(
    ("a worker", "system:serviceaccount:penstock:penstock-worker", "worker", "penstock-worker"),
    ("in another namespace", "system:serviceaccount:ours:penstock-watch", "watch", "penstock-watch"),
    ("of another release", "system:serviceaccount:ops:ops-penstock-watch", "watch", "ops-penstock-watch"),
    ("of one called like us", "system:serviceaccount:a:penstock-blue-scaler", "scaler", "penstock-blue-scaler"),
    ("another account", "system:serviceaccount:penstock:default", "standalone", "penstock-standalone"),
    ("another worker", "system:serviceaccount:penstock:ci-worker", "standalone", "penstock-standalone"),
    ("a person", "jane", "standalone", "penstock-standalone"),
    ("nobody knows", "", "standalone", "penstock-standalone"),
)
def test_the_process_and_the_role_of_a_user(user: str, process: str, role: str) -> None:
    assert account_of(user) == (process, role)


def rights(process: str, **settings: Any) -> set[str]:
    return {str(one) for one in needed(process, Settings(**settings), "role")}


def test_rights_are_needed_where_objects_are_served() -> None:
    assert "list scaledjobs.keda.sh in the cluster" in rights("watch")
    single = rights("watch", namespaces=("a", "b"), cluster_scoped=False, own_namespace="ours")
    assert {"list scaledjobs.keda.sh in namespace a", "list scaledjobs.keda.sh in namespace b"} <= single
    assert "update leases.coordination.k8s.io in namespace ours" in single
    assert not [one for one in single if one.endswith("in the cluster")]


def test_rights_for_kinds_that_are_left_alone_are_not_needed() -> None:
    assert not [one for one in rights("worker") if "cronjobs" in one]
    assert [one for one in rights("worker", cronjobs=True) if "cronjobs" in one]
    assert not [one for one in rights("watch") if "scalepolicies" in one or "queues" in one]
    assert [one for one in rights("watch", policies=True) if "scalepolicies" in one]
    assert [one for one in rights("watch", volcano=True) if "queues" in one]


class Server:
    """Knows one user and refuses one verb."""

    def __init__(self, user: str | None) -> None:
        self.user = user

    async def request(self, method: str, path: str, *, body: Any = None) -> Any:
        if path.endswith("selfsubjectreviews"):
            if self.user is None:
                raise NotFound("no such API", status=404)
            return {"status": {"userInfo": {"username": self.user}}}
        return {"status": {"allowed": body["spec"]["resourceAttributes"]["verb"] != "watch"}}


@cases(
    ("ours", "system:serviceaccount:penstock:penstock-watch", "penstock-watch"),
    ("of another release", "system:serviceaccount:ops:ops-penstock-watch", "ops-penstock-watch"),
    ("before 1.28", None, "penstock-standalone"),
)
async def test_what_the_server_refuses_is_lacking(user: str | None, role: str) -> None:
    found = await examined(Server(user), Settings())  # type: ignore[arg-type]
    assert found.role == role
    assert MissingRight("watch", "keda.sh", "scaledjobs", "", role) in found.lacking
    assert {one.verb for one in found.lacking} == {"watch"}
