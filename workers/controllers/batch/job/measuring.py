"""What is counted for Prometheus: Jobs, pods and indexes that ended, and what a failure policy did."""

from collections import Counter
from collections.abc import Iterator, Sequence

from workers.api.kinds import Object
from workers.controllers import conditions
from workers.controllers.batch.job.findings import Findings
from workers.controllers.batch.job.indexes import Indexes
from workers.controllers.batch.job.spec import BatchJobSpec
from workers.reconcile.plan import CountMetric

_RESULTS = {"Complete": "succeeded", "Failed": "failed"}


def written(spec: BatchJobSpec, before: Object, after: Object) -> Iterator[CountMetric]:
    """What the status of a Job that had not finished counts beyond the one before it."""
    mode = "Indexed" if spec.indexed else "NonIndexed"
    for type_, result in _RESULTS.items():
        ended = conditions.find({"status": after}, type_)
        if ended and ended["status"] == "True":
            yield CountMetric("jobs_finished", labels=(mode, result, ended.get("reason") or ""))
        if (more := after.get(result, 0) - before.get(result, 0)) > 0:
            yield CountMetric("job_pods_finished", more, (mode, result))
    limit = "perIndex" if spec.per_index else "global"
    for field, result in (("completedIndexes", "succeeded"), ("failedIndexes", "failed")):
        if (more := len(Indexes.parse(after.get(field))) - len(Indexes.parse(before.get(field)))) > 0:
            yield CountMetric("job_finished_indexes", more, (result, limit))


def handled(findings: Findings, released: Sequence[Object]) -> Iterator[CountMetric]:
    """What the pod failure policy did to the pods that are let go."""
    written_down = set(findings.ledger.waiting_failed)
    verdicts = (
        findings.verdicts.get(pod["metadata"]["uid"]) for pod in released if pod["metadata"]["uid"] not in written_down
    )
    for action, number in Counter(each.action for each in verdicts if each and each.action).items():
        yield CountMetric("pod_failures_handled", number, (action,))
