"""CronJobs on the server: defaults, refusals, and stored time zones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from tests.support.tables import cases
from tests.unit.apiserver.examples import (
    NON_NEGATIVE,
    changed,
    created,
    problems,
    refusals,
    refused,
    template,
    unsupported,
)
from workers.api.kinds import CRON_JOB, Object

METADATA = {"name": "x", "namespace": "default", "uid": "u"}
NO_TZ = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
BERLIN = "CRON_TZ=Europe/Berlin 0 2 * * *"


def cron(**spec: Any) -> Object:
    """A CronJob; keywords are fields of its spec."""
    jobs = {"spec": {"template": template()}}
    return {"metadata": METADATA, "spec": {"schedule": "* * * * *", "jobTemplate": jobs, **spec}}


def of_job(**spec: Any) -> Object:
    """A CronJob whose Jobs have such a spec."""
    return {"jobTemplate": {"spec": {"template": template(), **spec}}}


def test_a_cron_job_gets_its_defaults_and_its_template_only_those_of_pods() -> None:
    body = created(CRON_JOB, cron())
    spec = body["spec"]
    assert {name: spec[name] for name in spec if name != "jobTemplate"} == {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    }
    assert spec["jobTemplate"]["spec"].keys() == {"template"}
    assert spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"
    assert (body["status"], body["metadata"]["generation"]) == ({}, 1)


def test_a_condition_pattern_in_a_template_means_true() -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    spec = created(CRON_JOB, cron(**of_job(podFailurePolicy={"rules": [rule]})))["spec"]["jobTemplate"]["spec"]
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert "podReplacementPolicy" not in spec


@refusals(
    {
        "schedule: Required value": {"schedule": ""},
        'schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]': {"schedule": "* * * *"},
        'schedule: Invalid value: "0 * * * * *": expected exactly 5 fields, found 6: [0 * * * * *]': {
            "schedule": "0 * * * * *"
        },
        'schedule: Invalid value: "@never": unrecognized descriptor: @never': {"schedule": "@never"},
        'schedule: Invalid value: "0 0 * * 7": end of range (7) above maximum (6): 7': {"schedule": "0 0 * * 7"},
        'schedule: Invalid value: "0 22-4 * * *": beginning of range (22) beyond end of range (4): 22-4': {
            "schedule": "0 22-4 * * *"
        },
        'schedule: Invalid value: "*/0 * * * *": step of range should be a positive number: */0': {
            "schedule": "*/0 * * * *"
        },
        f'schedule: Invalid value: "TZ=UTC * * * * *": {NO_TZ}': {"schedule": "TZ=UTC * * * * *"},
        'timeZone: Invalid value: "": timeZone must be nil or non-empty string': {"timeZone": ""},
        'timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in '
        "https://www.iana.org/time-zones": {"timeZone": "Local"},
        'timeZone: Invalid value: "Middle/Earth": unknown time zone Middle/Earth': {"timeZone": "Middle/Earth"},
        'timeZone: Invalid value: "../etc/passwd": unknown time zone ../etc/passwd': {"timeZone": "../etc/passwd"},
        f"concurrencyPolicy: {unsupported('x', 'Allow', 'Forbid', 'Replace')}": {"concurrencyPolicy": "x"},
        f"startingDeadlineSeconds: {NON_NEGATIVE}": {"startingDeadlineSeconds": -1},
        f"successfulJobsHistoryLimit: {NON_NEGATIVE}": {"successfulJobsHistoryLimit": -1},
        f"failedJobsHistoryLimit: {NON_NEGATIVE}": {"failedJobsHistoryLimit": -1},
        f"jobTemplate.spec.parallelism: {NON_NEGATIVE}": of_job(parallelism=-1),
        'jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"': of_job(
            template=template(restartPolicy="Always")
        ),
        "jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated": of_job(selector={}),
        'jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"': of_job(
            manualSelector=True
        ),
    }
)
def test_a_cron_job_is_refused(refusal: str, body: Any) -> None:
    assert refused(CRON_JOB, cron(**body)) == [f"spec.{refusal}"]


def test_an_unknown_zone_in_a_schedule_is_a_second_error() -> None:
    [(field, first), (_, second)] = problems(CRON_JOB, cron(schedule="TZ=Middle/Earth * * * * *"))
    assert (field, "provided bad location" in first, NO_TZ in second) == ("spec.schedule", True, True)


@pytest.mark.parametrize(
    "spec",
    [
        *(
            {"schedule": text}
            for text in ("0 2 * * 1-5", "@daily", "@every 5m", ", * * * *", "? ? ? ? ?", "*/61 * * * *")
        ),
        *({"timeZone": zone} for zone in ("Europe/Berlin", "Etc/GMT+5", "UTC")),
        of_job(manualSelector=False),
        {"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0},
    ],
    ids=str,
)
def test_a_cron_job_is_accepted(spec: Any) -> None:
    assert problems(CRON_JOB, cron(**spec)) == []


@given(st.text(alphabet="0123456789*/-,?@TZ= evry1hmsLW#janMON/", max_size=30))
def test_any_schedule_is_accepted_or_refused_by_its_own_field(text: str) -> None:
    assert {field for field, _ in problems(CRON_JOB, cron(schedule=text))} <= {"spec.schedule"}


def test_the_name_of_a_cron_job_leaves_room_for_its_jobs() -> None:
    body = {**cron(), "metadata": {**METADATA, "name": "x" * 53}}
    detail = f'Invalid value: "{"x" * 53}": must be no more than 52 characters'
    assert problems(CRON_JOB, body) == [("metadata.name", detail)]
    assert changed(CRON_JOB, created(CRON_JOB, body), body)[1] == []


PLAIN = created(CRON_JOB, cron())
ZONED = {**PLAIN, "spec": {**PLAIN["spec"], "schedule": BERLIN}}
LOST = {**PLAIN, "spec": {**PLAIN["spec"], "timeZone": "Middle/Earth"}}


@cases(
    ("a stored zone in the schedule", ZONED, {}, []),
    ("another instead of it", ZONED, {"schedule": "TZ=UTC 0 3 * * *"}, []),
    ("the field instead of it", ZONED, {"schedule": "0 3 * * *", "timeZone": "UTC"}, []),
    (
        "both",
        *(ZONED, {"timeZone": "UTC"}),
        [f'schedule: Invalid value: "{BERLIN}": cannot use both timeZone field and TZ or CRON_TZ in schedule'],
    ),
    (
        "a zone in the schedule where none was",
        *(PLAIN, {"schedule": BERLIN}),
        [f'schedule: Invalid value: "{BERLIN}": {NO_TZ}'],
    ),
    ("a stored zone that is no more", LOST, {"suspend": True}, []),
    (
        "another that never was",
        *(LOST, {"timeZone": "Middle/West"}),
        ['timeZone: Invalid value: "Middle/West": unknown time zone Middle/West'],
    ),
    ("none any more", LOST, {"timeZone": None}, []),
)
def test_a_stored_time_zone_may_stay(stored: Object, spec: Any, refused: list[str]) -> None:
    new = {**stored, "spec": {name: value for name, value in {**stored["spec"], **spec}.items() if value is not None}}
    assert changed(CRON_JOB, stored, new)[1] == [tuple(f"spec.{each}".split(": ", 1)) for each in refused]


def test_only_changes_of_the_spec_increase_the_generation() -> None:
    stored = created(CRON_JOB, cron())
    same, _ = changed(CRON_JOB, stored, {**stored, "status": {"lastScheduleTime": "2026-01-01T00:00:00Z"}})
    new, _ = changed(CRON_JOB, stored, {**stored, "spec": {**stored["spec"], "suspend": True}})
    assert (same["metadata"]["generation"], new["metadata"]["generation"]) == (1, 2)


def test_any_client_may_write_the_status() -> None:
    rules, stored = strategies.strategy(CRON_JOB), created(CRON_JOB, cron())
    new = rules.prepare_status({**stored, "spec": {}, "status": {"active": [{"name": "nonsense"}]}}, stored)
    assert (rules.validate_status(new, stored), new["spec"]) == ([], stored["spec"])


def test_authors_are_warned_once_of_names_and_always_of_zones_in_schedules() -> None:
    rules, body = strategies.strategy(CRON_JOB), {**cron(), "metadata": {**METADATA, "name": "a.b"}}
    assert ["DNS label" in warning for warning in rules.warnings(body)] == [True]
    assert rules.warnings(body, body) == []
    (zoned,) = rules.warnings(ZONED, ZONED)
    assert zoned.startswith("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://")
    many = of_job(completionMode="Indexed", completions=100_001, parallelism=10_001)
    (indexed,) = rules.warnings(cron(**many))
    assert indexed.startswith("spec.jobTemplate.spec: In Indexed Jobs with")
