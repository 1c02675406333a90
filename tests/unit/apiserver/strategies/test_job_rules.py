"""Jobs on the server: defaults, generated selectors, refusals, and mutable fields."""

import copy
from typing import Any

import pytest

from deploy.local.apiserver import strategies
from tests.support.tables import cases, for_each
from tests.unit.apiserver.examples import (
    NON_NEGATIVE,
    changed,
    created,
    job,
    problems,
    refusals,
    refused,
    template,
    unsupported,
)
from workers.api import names
from workers.api.kinds import JOB

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


@cases(
    ("a work queue has no completions", {"parallelism": 3}, "completions", None),
    ("parallelism is one", {"completions": 3}, "parallelism", 1),
    ("limits per index", {**INDEXED, "backoffLimitPerIndex": 1}, "backoffLimit", 2147483647),
    ("a failure policy", {"podFailurePolicy": {"rules": []}}, "podReplacementPolicy", "Failed"),
    ("zero is a limit", {"backoffLimit": 0}, "backoffLimit", 0),
)
def test_a_default_depends_on_other_fields(spec: Any, field: str, value: Any) -> None:
    assert created(JOB, job(**spec))["spec"].get(field) == value


def test_a_condition_pattern_means_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = created(JOB, job(podFailurePolicy={"rules": [rule]}))["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]


def test_a_status_cannot_be_brought_along() -> None:
    assert created(JOB, {**job(), "status": {"succeeded": 1}})["status"] == {}


X = [{"type": "x"}]


def rule(action: str = "FailJob", **fields: Any) -> dict[str, Any]:
    """A failure policy with one rule."""
    return {"podFailurePolicy": {"rules": [{"action": action, **fields}]}}


def codes(*values: int, operator: str = "In", **fields: Any) -> dict[str, Any]:
    """A failure policy with one rule on exit codes."""
    return rule(onExitCodes={"operator": operator, "values": list(values), **fields})


def manual(**expression: Any) -> dict[str, Any]:
    """A selector of the author's with one expression."""
    return {"manualSelector": True, "selector": {"matchExpressions": [{"key": "a", **expression}]}}


def indexed(**fields: Any) -> dict[str, Any]:
    return {**INDEXED, **fields}


def per_index(**fields: Any) -> dict[str, Any]:
    return indexed(backoffLimitPerIndex=1, **fields)


def success(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A success policy with these rules, else with one of these fields."""
    return indexed(successPolicy={"rules": list(rules) or [fields]})


# Paths of fields, and sentences, that many refusals share.
AT, CODES = "podFailurePolicy.rules[0]", "podFailurePolicy.rules[0].onExitCodes"
CONDITION = f"{AT}.onPodConditions[0]"
SUCCESS = "successPolicy.rules[0]"
EXPRESSION = "selector.matchExpressions[0]"
NO_INDEXES = "requires indexed completion mode"
ACTIONS = '"Count", "FailIndex", "FailJob", "Ignore"'
NOT_MANY = "must be less than or equal to 10000 when completions are above 100000 and used with backoff limit per index"
NO_CONTAINER = "must be one of the container or initContainer names in the pod template"
UNPARSED = "error parsing succeededIndexes"


@refusals(
    {
        f"parallelism: {NON_NEGATIVE}": {"parallelism": -1},
        f"completions: {NON_NEGATIVE}": {"completions": -1},
        f"backoffLimitPerIndex: {NON_NEGATIVE}": indexed(backoffLimitPerIndex=-1),
        f"maxFailedIndexes: {NON_NEGATIVE}": per_index(maxFailedIndexes=-1),
        f"backoffLimit: {NON_NEGATIVE}": {"backoffLimit": -1},
        f"ttlSecondsAfterFinished: {NON_NEGATIVE}": {"ttlSecondsAfterFinished": -1},
        f"activeDeadlineSeconds: {NON_NEGATIVE}": {"activeDeadlineSeconds": -1},
        f"completionMode: {unsupported('Other', 'NonIndexed', 'Indexed')}": {"completionMode": "Other"},
        "completions: Required value: when completion mode is Indexed": {"completionMode": "Indexed", "parallelism": 2},
        "parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed": (
            indexed(parallelism=100_001, completions=100_001)
        ),
        f"backoffLimitPerIndex: Invalid value: 1: {NO_INDEXES}": {"backoffLimitPerIndex": 1},
        "backoffLimitPerIndex: Required value: when maxFailedIndexes is specified": indexed(maxFailedIndexes=1),
        "maxFailedIndexes: Invalid value: 4: must be less than or equal to completions": per_index(maxFailedIndexes=4),
        "maxFailedIndexes: Required value: must be specified when completions is above 100000": {
            **MANY,
            "maxFailedIndexes": None,
        },
        f"maxFailedIndexes: Invalid value: 10001: {NOT_MANY}": {**MANY, "maxFailedIndexes": 10_001},
        f"parallelism: Invalid value: 10001: {NOT_MANY}": {**MANY, "parallelism": 10_001},
        "maxFailedIndexes: Invalid value: 100001: must be less than or equal to 100000": per_index(
            completions=200_000, maxFailedIndexes=100_001
        ),
        f"maxFailedIndexes: Invalid value: 1: {NO_INDEXES}": {"maxFailedIndexes": 1},
        'managedBy: Invalid value: "us": must be a domain-prefixed path (such as "acme.io/foo")': {"managedBy": "us"},
        "managedBy: Required value": {"managedBy": ""},
        "managedBy: Too long: must have at most 63 bytes": {"managedBy": f"example.com/{'x' * 60}"},
        f"podReplacementPolicy: {unsupported('Never', 'Failed', 'TerminatingOrFailed')}": {
            "podReplacementPolicy": "Never"
        },
        f"podReplacementPolicy: {unsupported('TerminatingOrFailed', 'Failed')}": {
            **codes(1),
            "podReplacementPolicy": "TerminatingOrFailed",
        },
        f"{CODES}.values[0]: Invalid value: 0: must not be 0 for the In operator": codes(0),
        f"{CODES}.values: Invalid value: [2,1]: must be ordered": codes(2, 1),
        f"{CODES}.values[1]: Duplicate value: 1": codes(1, 1),
        f"{CODES}.values: Invalid value: []: at least one value is required": codes(),
        f"{CODES}.operator: {unsupported('Near', 'In', 'NotIn')}": codes(1, operator="Near"),
        f"{AT}: Invalid value: specifying one of OnExitCodes and OnPodConditions is required": rule(),
        f"{AT}: Invalid value: specifying both OnExitCodes and OnPodConditions is not supported": rule(
            onExitCodes={"operator": "In", "values": [1]}, onPodConditions=X
        ),
        f"{AT}.action: Required value: valid values: {ACTIONS}": rule("", onPodConditions=X),
        f'{CODES}.operator: Required value: valid values: "In", "NotIn"': codes(1, operator=""),
        f"{CODES}.values: Too many: 256: must have at most 255 items": codes(*range(256), operator="NotIn"),
        f"{AT}.onPodConditions: Too many: 21: must have at most 20 items": rule(onPodConditions=X * 21),
        f'{CONDITION}.type: Invalid value: "a/b/c": {names.qualified_name("a/b/c")[0]}': rule(
            onPodConditions=[{"type": "a/b/c"}]
        ),
        f'{AT}.action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set': rule(
            "FailIndex", onPodConditions=X
        ),
        f'{AT}.action: Unsupported value: "Nap": supported values: {ACTIONS}': rule("Nap", onPodConditions=X),
        f"{CONDITION}.status: {unsupported('Maybe', 'False', 'True', 'Unknown')}": rule(
            onPodConditions=[{"type": "x", "status": "Maybe"}]
        ),
        f'{CODES}.containerName: Invalid value: "z": {NO_CONTAINER}': codes(1, containerName="z"),
        "podFailurePolicy.rules: Too many: 21: must have at most 20 items": {
            "podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": X}] * 21}
        },
        f'successPolicy: Invalid value: {{"rules":[{{"succeededCount":1}}]}}: {NO_INDEXES}': {
            "successPolicy": {"rules": [{"succeededCount": 1}]}
        },
        f"{SUCCESS}: Required value: at least one of succeededCount or succeededIndexes must be specified": success(),
        f"{SUCCESS}.succeededCount: Invalid value: 3: must be less than or equal to 2 "
        "(the number of indexes in the specified succeededIndexes field)": success(
            succeededIndexes="0-1", succeededCount=3
        ),
        f'{SUCCESS}.succeededIndexes: Invalid value: "7": {UNPARSED}: too large index: "7"': success(
            succeededIndexes="7"
        ),
        "successPolicy.rules: Required value: "
        "at least one rules must be specified when the successPolicy is specified": (
            indexed(successPolicy={"rules": []})
        ),
        "successPolicy.rules: Too many: 21: must have at most 20 items": success(*[{"succeededCount": 1}] * 21),
        f"{SUCCESS}.succeededCount: Invalid value: 4: must be less than or equal to 3 "
        "(the number of specified completions)": success(succeededCount=4),
        f"{SUCCESS}.succeededCount: {NON_NEGATIVE}": success(succeededCount=-1),
        f'{SUCCESS}.succeededIndexes: Invalid value: "2,1": {UNPARSED}: '
        "non-increasing order, previous: 2, current: 1": success(succeededIndexes="2,1"),
        f"{SUCCESS}.succeededIndexes: Too long: must have at most 65536 bytes": indexed(completions=100_000, **LONG),
        "template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`": {
            "manualSelector": True,
            "selector": {"matchLabels": {"a": "b"}},
        },
        "selector: Required value": {"manualSelector": True},
        f"{EXPRESSION}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'": manual(
            operator="In"
        ),
        f"{EXPRESSION}.values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'": manual(
            operator="Exists", values=["b"]
        ),
        f'{EXPRESSION}.operator: Invalid value: "Near": not a valid selector operator': manual(
            operator="Near", values=["b"]
        ),
    }
)
def test_a_job_is_refused(refusal: str, body: Any) -> None:
    found = [each.removeprefix("spec.") for each in refused(JOB, job(**body))]
    assert refusal in found
    others = {"completions", "podReplacementPolicy", "backoffLimitPerIndex", "template.metadata.labels"}
    assert {each.partition(": ")[0] for each in found} <= {refusal.partition(": ")[0], *others}


@for_each("Always", None)
def test_pods_of_jobs_end(policy: str | None) -> None:
    message = 'Required value: valid values: "OnFailure", "Never"'
    assert problems(JOB, job(pod={"restartPolicy": policy})) == [("spec.template.spec.restartPolicy", message)]


def test_a_success_policy_without_indexes_is_not_validated_further() -> None:
    policy = {"rules": [{"succeededCount": 5}]}
    detail = 'Invalid value: {"rules":[{"succeededCount":5}]}: requires indexed completion mode'
    assert problems(JOB, job(successPolicy=policy)) == [("spec.successPolicy", detail)]


def test_a_failure_policy_needs_pods_that_are_never_restarted() -> None:
    found = problems(JOB, job(pod={"restartPolicy": "OnFailure"}, **codes(1)))
    detail = 'Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified'
    assert found == [("spec.template.spec.restartPolicy", detail)]


def test_an_own_selector_needs_manualselector() -> None:
    found = problems(JOB, job(selector={"matchLabels": {"a": "b"}}))
    assert [(field, message.rpartition(": ")[2]) for field, message in found] == [
        ("spec.selector", "`selector` not auto-generated"),
        ("spec.template.metadata.labels", "`selector` does not match template `labels`"),
    ]


def test_exit_codes_beyond_the_limit_are_not_looked_at_one_by_one() -> None:
    found = problems(JOB, job(**codes(*range(200_000, 0, -1))))
    assert [field for field, _ in found] == [f"spec.{CODES}.values"]


def test_generated_labels_cannot_be_forged() -> None:
    body = job(template=template(labels={"job-name": "other"}))
    assert [field for field, _ in problems(JOB, body)] == ["spec.template.metadata.labels[job-name]"]


@cases(
    ("a failure policy without rules", {"podFailurePolicy": {"rules": []}}),
    ("no time at all", {"activeDeadlineSeconds": 0}),
    ("nothing to do", {"parallelism": 0, "completions": 0}),
    ("limits per index", indexed(backoffLimitPerIndex=0, maxFailedIndexes=3)),
    (
        "limits per index of pods that are restarted",
        indexed(backoffLimitPerIndex=1, template=template(restartPolicy="OnFailure")),
    ),
    ("a success policy", success(succeededIndexes="0,2", succeededCount=2)),
    ("indexes", {**INDEXED, "completions": 2**31 - 1, **success(succeededIndexes="0-2")}),
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
    (warning,) = strategies.strategy(JOB).warnings(body)
    assert warning.endswith("a DNS label is recommended: [must not contain dots]")


@for_each(
    (100_001, 10_001, "Indexed", True),
    (100_000, 10_001, "Indexed", False),
    (100_001, 10_000, "Indexed", False),
    (100_001, 10_001, "NonIndexed", False),
)
def test_very_many_indexes_are_warned_of_whenever_the_spec_changes(
    completions: int, parallelism: int, mode: str, warned: bool
) -> None:
    rules = strategies.strategy(JOB)
    body = job(completionMode=mode, completions=completions, parallelism=parallelism)
    text = (
        "spec: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "
        "Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
    )
    assert rules.warnings(body) == [text] * warned
    older = {**body, "metadata": {**body["metadata"], "generation": 1}}
    newer = {**body, "metadata": {**body["metadata"], "generation": 2}}
    assert (rules.warnings(newer, older), rules.warnings(older, older)) == ([text] * warned, [])


STORED = created(JOB, job(completions=3, parallelism=2))


def with_spec(body: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {**body, "spec": {**body["spec"], **spec}}


@pytest.mark.parametrize(
    "spec",
    [
        *({"parallelism": 5}, {"backoffLimit": 1}, {"activeDeadlineSeconds": 9}, {"ttlSecondsAfterFinished": 9}),
        *({"suspend": True}, {"podReplacementPolicy": "Failed"}),
    ],
    ids=lambda spec: next(iter(spec)),
)
def test_a_field_may_change_and_is_counted(spec: Any) -> None:
    new, found = changed(JOB, STORED, with_spec(STORED, **spec))
    assert found == []
    assert new["metadata"]["generation"] == 2


def test_an_unchanged_spec_keeps_its_generation() -> None:
    new, found = changed(JOB, STORED, {**STORED, "status": {"active": 3}})
    assert (new, found) == (STORED, [])


@for_each(
    *(("completions", 4), ("selector", {"matchLabels": {}}), ("completionMode", "Indexed")),
    *(("managedBy", "example.com/us"), ("podFailurePolicy", {"rules": []}), ("template", template(hostname="x"))),
)
def test_a_field_may_not_change(field: str, value: Any) -> None:
    _new, found = changed(JOB, STORED, with_spec(STORED, **{field: value}))
    assert f"spec.{field}" in [place for place, message in found if message.endswith(IMMUTABLE)]


def test_limits_per_index_and_success_policy_are_immutable() -> None:
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


@cases(
    ("never started", {}, True),
    ("with a pod", {"active": 1}, False),
    ("started and not yet suspended", {"startTime": "2026-01-10T12:00:00Z"}, False),
    ("suspended", {"startTime": "2026-01-10T12:00:00Z", "conditions": [{"type": "Suspended", "status": "True"}]}, True),
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
