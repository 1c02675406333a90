"""`penstock backup` and `penstock restore`, as typed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis

from deploy.backup import archive
from deploy.backup.resettle import MadeClaim
from deploy.cli.backup import restore_command
from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from workers.api.kinds import JOB, Kind

pytestmark = pytest.mark.broker


@pytest.fixture
def broker(redis_server: str) -> Any:
    with redis.Redis.from_url(redis_server, client_name="tests") as client:
        client.flushall()
        client.xadd("{penstock}:events:default/orders", {"specversion": "1.0", "id": "1"})
        yield client
        client.flushall()


def test_a_backup_is_restored_and_what_it_lacks_is_said(
    broker: redis.Redis, redis_server: str, tmp_path: Path, penstock: Type
) -> None:
    file = str(tmp_path / "b")
    assert "0 deliveries and 1 events" in penstock("backup", file, "--broker", redis_server).out
    again = penstock("backup", file, "--broker", redis_server)
    assert "is there already; --overwrite replaces it" in again.err
    penstock("backup", file, "--broker", redis_server, "--overwrite")
    refused = penstock("restore", file, "--broker", redis_server, "--without-cluster")
    assert "the broker is not empty" in refused.err
    broker.flushall()
    told = penstock("restore", file, "--broker", redis_server, "--without-cluster").out
    assert "1 objects restored" in told
    assert "is not in the backup" in told
    assert broker.xlen("{penstock}:events:default/orders") == 1


def test_a_file_that_is_no_backup_is_an_error_that_names_it(tmp_path: Path, penstock: Type) -> None:
    (tmp_path / "b").write_text("hello")
    assert f"{tmp_path}/b: is no backup" in penstock("restore", str(tmp_path / "b")).err
    assert "no such file" in penstock("restore", str(tmp_path / "none")).err


@for_each("backup", "restore")
def test_without_a_broker_no_other_server_is_read_or_written(command: str, tmp_path: Path, penstock: Type) -> None:
    file, words = tmp_path / "b", []
    if command == "restore":
        archive.BackupWriter(file, archive.BackupHeader("penstock", "2026-03-01T08:00:00Z", "redis 7")).finish()
        words = ["--without-cluster"]
    printed = penstock(command, str(file), *words, "--home", str(tmp_path / "none"))
    assert (printed.code, printed.out) == (1, "")
    assert printed.err == (
        f"penstock: no broker: --home {tmp_path}/none has none, and neither --broker nor PENSTOCK_BROKER is set\n"
    )


class ListedJobs:
    """An API server with pages of Jobs."""

    def __init__(self, *pages: list[dict[str, Any]]) -> None:
        self._pages = pages

    async def pages(self, kind: Kind, *, label_selector: str) -> AsyncIterator[tuple[list[dict[str, Any]], str]]:
        assert (kind, label_selector) == (JOB, "penstock.dev/eventjob")
        for page in self._pages:
            yield page, "1"


def job(uid: str, claim: str, attempt: str = "0") -> dict[str, Any]:
    annotations = {"penstock.dev/claim": claim, "penstock.dev/claim-attempt": attempt}
    return {"metadata": {"annotations": annotations, "ownerReferences": [{"kind": "EventJob", "uid": uid}]}}


async def test_the_claims_of_all_jobs_are_found_by_their_eventjob() -> None:
    strange = {"metadata": {"annotations": {}}}
    cluster: Any = ListedJobs([job("u1", "5-0"), strange, job("u2", "x")], [job("u1", "5-0-2", "1")])
    assert await restore_command.made_claims(cluster) == {"u1": [MadeClaim("5-0", 0, 0), MadeClaim("5-0", 2, 1)]}
