"""The Jobs that a CronJob takes for its runs: by their annotations, and without those by their names."""

from tests.support.tables import cases
from tests.unit.controllers.batch.cronjob.cronjobs import NOON, UID, CronCluster, cron_job
from workers.api import times

SLOT = {"batch.kubernetes.io/cronjob-scheduled-timestamp": "2026-03-01T12:00:00Z"}
KUBECTL = {"cronjob.kubernetes.io/instantiate": "manual"}
ASKED = {**KUBECTL, "penstock.dev/run-id": "now"}


@cases(
    ("its own", "report-29539440", SLOT, True),
    ("of a Kubernetes before 1.28, which wrote no slots", "report-29539440", {}, True),
    ("its template has kubectl's annotation", "report-29539440", {**SLOT, **KUBECTL}, True),
    ("asked for by an annotation", "report-now", ASKED, True),
    ("made by kubectl", "report-by-hand", KUBECTL, False),
    ("made by kubectl under a name that could be a slot's", "report-1", KUBECTL, False),
    ("says nothing", "something-else", {}, False),
)
def test_only_its_own_runs_are_at_work(name: str, annotations: dict[str, str], ours: bool) -> None:
    cluster = CronCluster(cron_job("0 12 2 * *", concurrencyPolicy="Forbid"))
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": UID, "controller": True}
    cluster.jobs[name] = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": times.render(NOON),
            "annotations": annotations,
            "ownerReferences": [owner],
        }
    }
    events = {record.reason for record in cluster.settle(NOON)}
    assert [each["name"] for each in cluster.status.get("active", ())] == [name] * ours
    assert ("UnexpectedJob" in events) is not ours
