"""Command lines that are refused: one line of standard error with the reason, and nothing is changed."""

import pytest

from tests.support.tables import for_each
from tests.unit.cli.conftest import Type
from tests.unit.cli.fake import JOB, POD, FakeCluster
from workers.api.kinds import CRON_JOB, SCHEDULED_JOB

LATER = "2999-01-01T00:00:00Z"


@pytest.fixture
def cluster(cluster: FakeCluster) -> FakeCluster:
    """With a ScheduledJob that is being deleted, a CronJob, a Job without pods, and a pod."""
    cluster.add(SCHEDULED_JOB, "going", metadata={"deletionTimestamp": "2026-03-01T12:00:00Z"}, spec={})
    cluster.add(CRON_JOB, "a", spec={})
    cluster.add(JOB, "idle")
    cluster.add(POD, "p", spec={"containers": [{"name": "main"}]}, status={"phase": "Succeeded"})
    return cluster


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run nightly", "namespace default has no ScheduledJob and no CronJob called nightly"),
        ("run job/crunch", "job/crunch: Job is none of ScheduledJob, CronJob"),
        ("run cronjob/", "cronjob/: either NAME or KIND/NAME is needed"),
        ("run cronjob/nightly", 'cronjobs "nightly" not found'),
        ("run going", "ScheduledJob default/going is being deleted"),
        ("run nightly --env A", "--env: A: NAME=VALUE is needed"),
        ("run nightly --env 1A=2", "--env: '1A' is no name of a variable"),
        ("run nightly --env =2", "--env: '' is no name of a variable"),
        ("suspend gone", "namespace default has no ScheduledJob and no CronJob and no Job and no EventJob called gone"),
        (f"suspend cj/a --until {LATER}", "CronJob default/a: --until: only a ScheduledJob goes on by itself"),
        ("suspend a --until tomorrow", "--until: "),
        ("suspend a --until 2999-01-01T00:00:00", "without a zone"),
        ("suspend a --until 2001-01-01T00:00:00Z", "--until: 2001-01-01T00:00:00Z is over"),
        ("resume pod/a", "pod/a: Pod is none of ScheduledJob, CronJob, Job"),
        ("logs p -c nope", "pod p has no container nope; it has main"),
        ("logs q", 'pods "q" not found'),
        ("logs job/idle", "Job default/idle has no pods"),
        ("logs cm/a", "logs are of a pod, a Job, a ScaledJob, a ScheduledJob, a CronJob, an EventJob, a JobFlow, a D"),
        ("logs job/", "job/: a name is missing"),
        ("get pods,jobs -w", "one kind"),
        ("get pods a -l x=y", "exclude each other"),
        ("get pods a -A", "needs one namespace"),
        ("get pod/a b", "KIND/NAME"),
        ("get pod/", "KIND/NAME"),
    ],
    ids=str,
)
def test_a_request_that_cannot_be_met(line: str, message: str, cluster: FakeCluster, penstock: Type) -> None:
    printed = penstock(*line.split())
    assert (printed.code, printed.out) == (1, "")
    assert message in printed.err
    assert printed.err.count("\n") == 1
    assert {method for method, _ in cluster.calls} <= {"GET"}


@for_each(
    "nonsense",
    "get",
    "get pods -o nonsense",
    "worker --jobs some",
    "up --workers 0",
    "run nightly --timeout 3",
    "delete",
    "delete pods -f x.yaml",
)
def test_a_wrong_command_line_exits_with_2_and_says_how_to_get_help(
    line: str, cluster: FakeCluster, penstock: Type
) -> None:
    printed = penstock(*line.split())
    assert printed.code == 2
    assert "--help" in printed.err
    assert "Traceback" not in printed.err
