"""What the server makes of Jobs: defaults, generated selectors, refusals, and what may change."""

import copy
from typing import Any

import pytest

from deploy.local.apiserver import strategies
from tests.unit.apiserver.examples import changed, created, job, problems, template
from workers.api import names
from workers.api.kinds import JOB

NON_NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
GENERATED = {
    "batch.kubernetes.io/controller-uid": "u",
    "controller-uid": "u",
    "batch.kubernetes.io/job-name": "j",
    "job-name": "j",
}
INDEXED: dict[str, Any] = {"completionMode": "Indexed", "completions": 3, "parallelism": 3}
MANY: dict[str, Any] = {**INDEXED, "completions": 100_001, "backoffLimitPerIndex": 1, "maxFailedIndexes": 10_000}
LONG = {"successPolicy": {"rules": [{"succeededIndexes": ",".join(map(str, range(0, 30_000, 2)))}]}}


def test_a_job_gets_its_defaults() -> None:
    body = created(JOB, job())
    spec = body["spec"]
    assert {name: value for name, value in spec.items() if name not in ("template", "selector")} == {
        "parallelism": 1,
        "completions": 1,
        "completionMode": "NonIndexed",
        "backoffLimit": 6,
        "suspend": False,
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert spec["template"]["metadata"]["labels"] == GENERATED
    assert body["metadata"] == {
        "name": "j",
        "namespace": "default",
        "uid": "u",
        "creationTimestamp": "2026-01-10T12:00:00Z",
        "generation": 1,
        "labels": GENERATED,
    }
    assert body["status"] == {}


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        pytest.param({"parallelism": 3}, "completions", None, id="a work queue has no completions"),
        pytest.param({"completions": 3}, "parallelism", 1, id="parallelism is one"),
        pytest.param({**INDEXED, "backoffLimitPerIndex": 1}, "backoffLimit", 2147483647, id="limits per index"),
        pytest.param({"podFailurePolicy": {"rules": []}}, "podReplacementPolicy", "Failed", id="a failure policy"),
        pytest.param({"backoffLimit": 0}, "backoffLimit", 0, id="zero is a limit"),
    ],
)
def test_a_default_depends_on_other_fields(spec: Any, field: str, value: Any) -> None:
    assert created(JOB, job(**spec))["spec"].get(field) == value


def test_a_condition_pattern_means_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = created(JOB, job(podFailurePolicy={"rules": [rule]}))["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_a_status_cannot_be_brought_along() -> None:
    assert created(JOB, {**job(), "status": {"succeeded": 1}})["status"] == {}


def rule(**fields: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": "FailJob", **fields}]}}


def codes(*values: int, operator: str = "In") -> dict[str, Any]:
    return rule(onExitCodes={"operator": operator, "values": list(values)})


def manual(**expression: Any) -> dict[str, Any]:
    return {"manualSelector": True, "selector": {"matchExpressions": [{"key": "a", **expression}]}}


AT = "spec.podFailurePolicy.rules[0]"
SUCCESS = "spec.successPolicy.rules[0]"


def success(**fields: Any) -> dict[str, Any]:
    return {**INDEXED, "successPolicy": {"rules": [fields]}}


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        pytest.param({"parallelism": -1}, "spec.parallelism", NON_NEGATIVE, id="parallelism"),
        pytest.param({"completions": -1}, "spec.completions", NON_NEGATIVE, id="completions"),
        pytest.param(
            {**INDEXED, "backoffLimitPerIndex": -1}, "spec.backoffLimitPerIndex", NON_NEGATIVE, id="per index"
        ),
        pytest.param(
            {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": -1},
            "spec.maxFailedIndexes",
            NON_NEGATIVE,
            id="maxFailedIndexes",
        ),
        pytest.param({"backoffLimit": -1}, "spec.backoffLimit", NON_NEGATIVE, id="backoffLimit"),
        pytest.param({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished", NON_NEGATIVE, id="ttl"),
        pytest.param({"activeDeadlineSeconds": -1}, "spec.activeDeadlineSeconds", NON_NEGATIVE, id="deadline"),
        pytest.param(
            {"completionMode": "Other"},
            "spec.completionMode",
            'Unsupported value: "Other": supported values: "NonIndexed", "Indexed"',
            id="completionMode",
        ),
        pytest.param(
            {"completionMode": "Indexed", "parallelism": 2},
            "spec.completions",
            "Required value: when completion mode is Indexed",
            id="indexed without completions",
        ),
        pytest.param(
            {**INDEXED, "parallelism": 100_001, "completions": 100_001},
            "spec.parallelism",
            "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
            id="too parallel",
        ),
        pytest.param(
            {"backoffLimitPerIndex": 1},
            "spec.backoffLimitPerIndex",
            "Invalid value: 1: requires indexed completion mode",
            id="per index without indexes",
        ),
        pytest.param(
            {**INDEXED, "maxFailedIndexes": 1},
            "spec.backoffLimitPerIndex",
            "Required value: when maxFailedIndexes is specified",
            id="failed indexes without a limit",
        ),
        pytest.param(
            {**INDEXED, "backoffLimitPerIndex": 1, "maxFailedIndexes": 4},
            "spec.maxFailedIndexes",
            "Invalid value: 4: must be less than or equal to completions",
            id="more failed indexes than indexes",
        ),
        pytest.param(
            {**MANY, "maxFailedIndexes": None},
            "spec.maxFailedIndexes",
            "Required value: must be specified when completions is above 100000",
            id="many completions without a limit of failed indexes",
        ),
        pytest.param(
            {**MANY, "maxFailedIndexes": 10_001},
            "spec.maxFailedIndexes",
            "Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with "
            "backoff limit per index",
            id="many completions and failed indexes",
        ),
        pytest.param(
            {**MANY, "parallelism": 10_001},
            "spec.parallelism",
            "Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with "
            "backoff limit per index",
            id="many completions side by side",
        ),
        pytest.param(
            {**INDEXED, "completions": 200_000, "backoffLimitPerIndex": 1, "maxFailedIndexes": 100_001},
            "spec.maxFailedIndexes",
            "Invalid value: 100001: must be less than or equal to 100000",
            id="too many failed indexes",
        ),
        pytest.param(
            {"maxFailedIndexes": 1},
            "spec.maxFailedIndexes",
            "Invalid value: 1: requires indexed completion mode",
            id="failed indexes without indexes",
        ),
        pytest.param(
            {"managedBy": "us"},
            "spec.managedBy",
            'Invalid value: "us": must be a domain-prefixed path (such as "acme.io/foo")',
            id="managedBy without a domain",
        ),
        pytest.param(
            {"managedBy": ""},
            "spec.managedBy",
            "Required value",
            id="managedBy that is empty",
        ),
        pytest.param(
            {"managedBy": f"example.com/{'x' * 60}"},
            "spec.managedBy",
            "Too long: must have at most 63 bytes",
            id="managedBy",
        ),
        pytest.param(
            {"podReplacementPolicy": "Never"},
            "spec.podReplacementPolicy",
            'Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed"',
            id="podReplacementPolicy",
        ),
        pytest.param(
            {**codes(1), "podReplacementPolicy": "TerminatingOrFailed"},
            "spec.podReplacementPolicy",
            'Unsupported value: "TerminatingOrFailed": supported values: "Failed"',
            id="replacement with a failure policy",
        ),
        pytest.param(
            codes(0), f"{AT}.onExitCodes.values[0]", "Invalid value: 0: must not be 0 for the In operator", id="In 0"
        ),
        pytest.param(
            codes(2, 1), f"{AT}.onExitCodes.values", "Invalid value: [2,1]: must be ordered", id="not ordered"
        ),
        pytest.param(codes(1, 1), f"{AT}.onExitCodes.values[1]", "Duplicate value: 1", id="twice"),
        pytest.param(
            codes(), f"{AT}.onExitCodes.values", "Invalid value: []: at least one value is required", id="no exit codes"
        ),
        pytest.param(
            codes(1, operator="Near"),
            f"{AT}.onExitCodes.operator",
            'Unsupported value: "Near": supported values: "In", "NotIn"',
            id="operator",
        ),
        pytest.param(
            rule(),
            AT,
            "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            id="empty rule",
        ),
        pytest.param(
            rule(onExitCodes={"operator": "In", "values": [1]}, onPodConditions=[{"type": "x"}]),
            AT,
            "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported",
            id="a rule with two sides",
        ),
        pytest.param(
            rule(action="", onPodConditions=[{"type": "x"}]),
            f"{AT}.action",
            'Required value: valid values: "Count", "FailIndex", "FailJob", "Ignore"',
            id="no action",
        ),
        pytest.param(
            codes(1, operator=""),
            f"{AT}.onExitCodes.operator",
            'Required value: valid values: "In", "NotIn"',
            id="no operator",
        ),
        pytest.param(
            codes(*range(256), operator="NotIn"),
            f"{AT}.onExitCodes.values",
            "Too many: 256: must have at most 255 items",
            id="too many exit codes",
        ),
        pytest.param(
            rule(onPodConditions=[{"type": "x"}] * 21),
            f"{AT}.onPodConditions",
            "Too many: 21: must have at most 20 items",
            id="too many patterns",
        ),
        pytest.param(
            rule(onPodConditions=[{"type": "a/b/c"}]),
            f"{AT}.onPodConditions[0].type",
            f'Invalid value: "a/b/c": {names.qualified_name("a/b/c")[0]}',
            id="a condition's type",
        ),
        pytest.param(
            rule(action="FailIndex", onPodConditions=[{"type": "x"}]),
            f"{AT}.action",
            'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
            id="FailIndex",
        ),
        pytest.param(
            rule(action="Nap", onPodConditions=[{"type": "x"}]),
            f"{AT}.action",
            'Unsupported value: "Nap": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
            id="action",
        ),
        pytest.param(
            rule(onPodConditions=[{"type": "x", "status": "Maybe"}]),
            f"{AT}.onPodConditions[0].status",
            'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
            id="condition status",
        ),
        pytest.param(
            rule(onExitCodes={"operator": "In", "values": [1], "containerName": "z"}),
            f"{AT}.onExitCodes.containerName",
            'Invalid value: "z": must be one of the container or initContainer names in the pod template',
            id="container name",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "x"}]}] * 21}},
            "spec.podFailurePolicy.rules",
            "Too many: 21: must have at most 20 items",
            id="too many rules",
        ),
        pytest.param(
            {"successPolicy": {"rules": [{"succeededCount": 1}]}},
            "spec.successPolicy",
            'Invalid value: {"rules":[{"succeededCount":1}]}: requires indexed completion mode',
            id="successPolicy without indexes",
        ),
        pytest.param(
            success(),
            SUCCESS,
            "Required value: at least one of succeededCount or succeededIndexes must be specified",
            id="empty",
        ),
        pytest.param(
            success(succeededIndexes="0-1", succeededCount=3),
            f"{SUCCESS}.succeededCount",
            "Invalid value: 3: must be less than or equal to 2 "
            "(the number of indexes in the specified succeededIndexes field)",
            id="more than the set has",
        ),
        pytest.param(
            success(succeededIndexes="7"),
            f"{SUCCESS}.succeededIndexes",
            'Invalid value: "7": error parsing succeededIndexes: too large index: "7"',
            id="an index beyond the end",
        ),
        pytest.param(
            {**INDEXED, "successPolicy": {"rules": []}},
            "spec.successPolicy.rules",
            "Required value: at least one rules must be specified when the successPolicy is specified",
            id="no way to succeed",
        ),
        pytest.param(
            {**INDEXED, "successPolicy": {"rules": [{"succeededCount": 1}] * 21}},
            "spec.successPolicy.rules",
            "Too many: 21: must have at most 20 items",
            id="too many ways to succeed",
        ),
        pytest.param(
            success(succeededCount=4),
            f"{SUCCESS}.succeededCount",
            "Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
            id="more than all",
        ),
        pytest.param(success(succeededCount=-1), f"{SUCCESS}.succeededCount", NON_NEGATIVE, id="less than none"),
        pytest.param(
            success(succeededIndexes="2,1"),
            f"{SUCCESS}.succeededIndexes",
            'Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1',
            id="falling indexes",
        ),
        pytest.param(
            {**INDEXED, "completions": 100_000, **LONG},
            f"{SUCCESS}.succeededIndexes",
            "Too long: must have at most 65536 bytes",
            id="a long text of indexes",
        ),
        pytest.param(
            {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
            "spec.template.metadata.labels",
            "Invalid value: {}: `selector` does not match template `labels`",
            id="a selector that selects others",
        ),
        pytest.param({"manualSelector": True}, "spec.selector", "Required value", id="no selector"),
        pytest.param(
            manual(operator="In"),
            "spec.selector.matchExpressions[0].values",
            "Required value: must be specified when `operator` is 'In' or 'NotIn'",
            id="a selector that is in nothing",
        ),
        pytest.param(
            manual(operator="Exists", values=["b"]),
            "spec.selector.matchExpressions[0].values",
            "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            id="a selector that exists in something",
        ),
        pytest.param(
            manual(operator="Near", values=["b"]),
            "spec.selector.matchExpressions[0].operator",
            'Invalid value: "Near": not a valid selector operator',
            id="a selector's operator",
        ),
    ],
)
def test_a_job_is_refused(spec: Any, field: str, message: str) -> None:
    found = problems(JOB, job(**spec))
    assert (field, message) in found
    others = {"spec.completions", "spec.podReplacementPolicy", "spec.backoffLimitPerIndex"}
    assert {place for place, _ in found} <= {field, *others, "spec.template.metadata.labels"}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param({"restartPolicy": "Always"}, 'Required value: valid values: "OnFailure", "Never"', id="Always"),
        pytest.param({"restartPolicy": None}, 'Required value: valid values: "OnFailure", "Never"', id="none"),
    ],
)
def test_pods_of_jobs_end(pod: Any, message: str) -> None:
    assert problems(JOB, job(pod=pod)) == [("spec.template.spec.restartPolicy", message)]


def test_what_needs_indexes_is_not_judged_without_them() -> None:
    policy = {"rules": [{"succeededCount": 5}]}
    detail = 'Invalid value: {"rules":[{"succeededCount":5}]}: requires indexed completion mode'
    assert problems(JOB, job(successPolicy=policy)) == [("spec.successPolicy", detail)]


def test_a_failure_policy_needs_pods_that_are_never_restarted() -> None:
    found = problems(JOB, job(pod={"restartPolicy": "OnFailure"}, **codes(1)))
    detail = 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
    assert found == [("spec.template.spec.restartPolicy", detail)]


def test_a_selector_of_ones_own_needs_to_be_announced() -> None:
    found = problems(JOB, job(selector={"matchLabels": {"a": "b"}}))
    assert [(field, message.rpartition(": ")[2]) for field, message in found] == [
        ("spec.selector", "`selector` not auto-generated"),
        ("spec.template.metadata.labels", "`selector` does not match template `labels`"),
    ]


def test_generated_labels_cannot_be_forged() -> None:
    body = job(template=template(labels={"job-name": "other"}))
    assert [field for field, _ in problems(JOB, body)] == ["spec.template.metadata.labels[job-name]"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"podFailurePolicy": {"rules": []}}, id="a failure policy without rules"),
        pytest.param({"activeDeadlineSeconds": 0}, id="no time at all"),
        pytest.param({"parallelism": 0, "completions": 0}, id="nothing to do"),
        pytest.param({**INDEXED, "backoffLimitPerIndex": 0, "maxFailedIndexes": 3}, id="limits per index"),
        pytest.param(
            {**INDEXED, "backoffLimitPerIndex": 1, "template": template(restartPolicy="OnFailure")},
            id="limits per index of pods that are restarted",
        ),
        pytest.param(success(succeededIndexes="0,2", succeededCount=2), id="a success policy"),
        pytest.param({**INDEXED, "completions": 2**31 - 1, **success(succeededIndexes="0-2")}, id="indexes"),
    ],
)
def test_a_job_is_accepted(spec: Any) -> None:
    assert problems(JOB, job(**spec)) == []


def test_names_must_leave_room_for_labels_and_indexes() -> None:
    long = problems(JOB, job(metadata={"name": "a" * 64}))
    assert {field for field, _ in long} == {"spec.template.labels"}
    name = "a" * 62
    indexed = problems(JOB, job(metadata={"name": name}, **INDEXED))
    detail = f'Invalid value: "{name}": will not able to create pod with invalid DNS label: {name}-2'
    assert indexed == [("metadata.name", detail)]


def test_a_name_with_a_dot_is_accepted_with_a_warning() -> None:
    body = job(metadata={"name": "a.b"})
    assert problems(JOB, body) == []
    assert ["DNS label" in warning for warning in strategies.strategy(JOB).warnings(body)] == [True]


STORED = created(JOB, job(completions=3, parallelism=2))


def with_spec(body: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**body, "spec": {**body["spec"], **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        {"parallelism": 5},
        {"backoffLimit": 1},
        {"activeDeadlineSeconds": 9},
        {"ttlSecondsAfterFinished": 9},
        {"suspend": True},
        {"podReplacementPolicy": "Failed"},
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_field_may_change_and_is_counted(spec: Any) -> None:
    new, found = changed(JOB, STORED, with_spec(STORED, **spec))
    assert found == []
    assert new["metadata"]["generation"] == 2


def test_what_is_the_same_is_not_counted() -> None:
    new, found = changed(JOB, STORED, {**STORED, "status": {"active": 3}})
    assert (new, found) == (STORED, [])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        pytest.param({"completions": 4}, "spec.completions", id="completions"),
        pytest.param({"selector": {"matchLabels": {}}}, "spec.selector", id="selector"),
        pytest.param({"completionMode": "Indexed"}, "spec.completionMode", id="completionMode"),
        pytest.param({"managedBy": "example.com/us"}, "spec.managedBy", id="managedBy"),
        pytest.param({"podFailurePolicy": {"rules": []}}, "spec.podFailurePolicy", id="podFailurePolicy"),
        pytest.param({"template": template(hostname="x")}, "spec.template", id="template"),
    ],
)
def test_a_field_may_not_change(spec: Any, field: str) -> None:
    _new, found = changed(JOB, STORED, with_spec(STORED, **spec))
    assert field in [place for place, message in found if message.endswith(IMMUTABLE)]


def test_what_a_job_of_indexes_succeeds_and_fails_by_is_fixed() -> None:
    stored = created(JOB, job(**INDEXED, backoffLimitPerIndex=1, maxFailedIndexes=1))
    assert changed(JOB, stored, with_spec(stored, maxFailedIndexes=2))[1] == []
    wanted = {"backoffLimitPerIndex": 2, "successPolicy": {"rules": [{"succeededCount": 1}]}}
    for field, value in wanted.items():
        [(place, message)] = changed(JOB, stored, with_spec(stored, **{field: value}))[1]
        assert (place, message.endswith(IMMUTABLE)) == (f"spec.{field}", True)


def test_the_rules_of_a_new_job_hold_for_a_changed_one() -> None:
    found = changed(JOB, STORED, with_spec(STORED, backoffLimit=-1))[1]
    assert found == [("spec.backoffLimit", NON_NEGATIVE)]


def test_an_indexed_job_scales_as_a_whole() -> None:
    stored = created(JOB, job(**INDEXED))
    required = ("spec.completions", "Required value: when completion mode is Indexed")
    assert changed(JOB, stored, with_spec(stored, completions=None))[1] == [required]
    assert changed(JOB, stored, with_spec(stored, completions=5, parallelism=5))[1] == []
    detail = "Invalid value: 5: can only be modified in tandem with spec.parallelism"
    assert changed(JOB, stored, with_spec(stored, completions=5))[1] == [("spec.completions", detail)]


@pytest.mark.parametrize(
    ("status", "fine"),
    [
        pytest.param({}, True, id="never started"),
        pytest.param({"active": 1}, False, id="with a pod"),
        pytest.param({"startTime": "2026-01-10T12:00:00Z"}, False, id="started and not yet suspended"),
        pytest.param(
            {"startTime": "2026-01-10T12:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]},
            True,
            id="suspended",
        ),
    ],
)
def test_a_suspended_job_may_be_sent_elsewhere(status: Any, fine: bool) -> None:
    stored = {**created(JOB, job(suspend=True)), "status": status}
    moved = copy.deepcopy(stored["spec"]["template"])
    moved["metadata"]["labels"]["new"] = moved["metadata"].setdefault("annotations", {})["new"] = "text"
    moved["spec"]["nodeSelector"] = {"zone": "b"}
    moved["spec"]["tolerations"] = [{"key": "a", "operator": "Exists"}]
    moved["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    moved["spec"]["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    moved["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}
    assert (changed(JOB, stored, with_spec(stored, template=moved))[1] == []) is fine
    moved["spec"]["hostname"] = "x"
    assert changed(JOB, stored, with_spec(stored, template=moved))[1] != []
