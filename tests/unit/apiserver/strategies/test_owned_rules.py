"""Penstock's own kinds on the embedded server: an invalid spec is refused, field by field."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from deploy.local.apiserver import strategies
from deploy.local.apiserver.codec.field_errors import DecodeError
from deploy.local.apiserver.discovery import api_resources
from tests.support.crd_copies import crd_copies
from tests.support.tables import cases
from tests.unit.apiserver.examples import NON_NEGATIVE, NOW, refusals, spelled, template
from tests.unit.apiserver.odd import ODD, mutated, places
from workers.api.kinds import SCALED_JOB, SCHEDULED_JOB, Object

DEFINITIONS = {crd["metadata"]["name"]: crd for crd in crd_copies()}
RULES = strategies.strategy(SCHEDULED_JOB, DEFINITIONS[SCHEDULED_JOB.id])


def scheduled_job(**spec: Any) -> Object:
    return {
        "apiVersion": SCHEDULED_JOB.api_version,
        "kind": SCHEDULED_JOB.kind,
        "metadata": {"name": "tick", "namespace": "default", "uid": "u"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template()}}, **spec},
    }


FULL = scheduled_job(
    timeZone="Europe/Berlin",
    schedules=[{"schedule": "*/10 * * * * *"}, {"schedule": "@every 90s", "timeZone": "UTC"}],
    suspendUntil="2026-01-01T00:00:00Z",
    catchUp={"policy": "All", "limit": 3},
    exclusions=[
        {"dates": ["2026-12-24"], "timeZone": "Europe/Berlin"},
        {"schedule": "0 2 * * 0", "durationSeconds": 3600},
        {"start": "2026-01-01T00:00:00Z", "end": "2026-01-02T00:00:00+01:00"},
    ],
    retry={"limit": 2},
    concurrencyPolicy="Forbid",
    jitterSeconds=5,
)


def refused(body: Object) -> list[tuple[str, str]]:
    return spelled(RULES.validate_create(RULES.prepare_create(body, NOW)))


def test_a_scheduled_job_is_accepted() -> None:
    assert refused(FULL) == []


@refusals(
    {
        'spec.schedule: Invalid value: "* * * *": expected 5 to 6 fields, found 4: [* * * *]': {"schedule": "* * * *"},
        'spec.timeZone: Invalid value: "Mars": unknown time zone Mars': {"timeZone": "Mars"},
        'spec.schedules[1].schedule: Invalid value: "@never": unrecognized descriptor: @never': {
            "schedules": [{"schedule": "@daily"}, {"schedule": "@never"}]
        },
        'spec.schedules[0].timeZone: Invalid value: "local": timeZone must be an explicit time zone '
        "as defined in https://www.iana.org/time-zones": {"schedules": [{"schedule": "@daily", "timeZone": "local"}]},
        'spec.exclusions[0].schedule: Invalid value: "0 25 * * *": end of range (25) above maximum (23): 25': {
            "exclusions": [{"schedule": "0 25 * * *", "durationSeconds": 1}]
        },
        'spec.exclusions[0].timeZone: Invalid value: "Mars": unknown time zone Mars': {
            "exclusions": [{"dates": ["2026-12-24"], "timeZone": "Mars"}]
        },
    }
)
def test_an_invalid_schedule_or_zone_is_refused(refusal: str, body: Any) -> None:
    assert refused(scheduled_job(**body)) == [tuple(refusal.split(": ", 1))]


AT = "spec.exclusions[0]"


@cases(
    {
        "an instant": ({"suspendUntil": "tomorrow"}, "spec.suspendUntil"),
        "a day": ({"exclusions": [{"dates": ["2026-02-30"]}]}, "spec.exclusions[0].dates[0]"),
        "an instant's zone": ({"exclusions": [{"start": "2026-01-01"}]}, "spec.exclusions[0].start"),
        **{
            f"an exclusion that ends {end}": ({"exclusions": [{"start": "2026-03-01T00:00:00Z", "end": end}]}, AT)
            for end in ("2026-02-28T00:00:00Z", "2026-03-01T01:00:00+01:00")
        },
        "a Job without a template": ({"jobTemplate": {"spec": {}}}, "spec.jobTemplate.spec"),
        "less than nothing": ({"jitterSeconds": -1}, "spec.jitterSeconds"),
        "a policy nobody knows": ({"concurrencyPolicy": "Never"}, "spec.concurrencyPolicy"),
    },
)
def test_errors_of_the_model_name_their_fields(spec: Any, field: str) -> None:
    assert [place for place, _ in refused(scheduled_job(**spec))] == [field]


@refusals(
    {
        'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"': {
            "template": template(restartPolicy="Always")
        },
        f"spec.jobTemplate.spec.backoffLimit: {NON_NEGATIVE}": {"template": template(), "backoffLimit": -1},
        "spec.jobTemplate: Invalid value: json: cannot unmarshal number into Go struct field "
        "EnvVar.spec.jobTemplate.spec.template.spec.containers.env.value of type string": (
            {"template": template(container={"env": [{"name": "A", "value": 5}]})}
        ),
    }
)
def test_a_template_that_no_job_can_be_made_from_is_refused(refusal: str, body: Any) -> None:
    assert refused(scheduled_job(jobTemplate={"spec": body})) == [tuple(refusal.split(": ", 1))]


def test_a_missing_template_is_required() -> None:
    body = scheduled_job()
    del body["spec"]["jobTemplate"]
    assert refused(body) == [("spec.jobTemplate", "Required value")]


def test_a_stored_invalid_spec_may_stay_and_lose_its_finalizers() -> None:
    stored = RULES.prepare_create(scheduled_job(schedule="@never"), NOW)
    for changes in ({"labels": {"a": "b"}}, {"finalizers": []}):
        new = {**stored, "metadata": {**stored["metadata"], **changes}}
        assert RULES.validate_update(RULES.prepare_update(new, stored), stored) == []
    worse = {**stored, "spec": {**stored["spec"], "suspend": True}}
    found = spelled(RULES.validate_update(RULES.prepare_update(worse, stored), stored))
    assert [field for field, _ in found] == ["spec.schedule"]


def test_kinds_without_rules_of_ours_are_judged_by_their_schema_alone() -> None:
    rules = strategies.strategy(SCALED_JOB, DEFINITIONS[SCALED_JOB.id])
    assert rules.validate_create({"metadata": {"name": "x"}, "spec": "nonsense"}) == []


[RESOURCE] = api_resources.custom(DEFINITIONS[SCHEDULED_JOB.id])


@given(st.data())
def test_odd_values_anywhere_are_answered(data: st.DataObject) -> None:
    change = st.tuples(st.sampled_from(list(places(FULL))), st.sampled_from(ODD))
    body = mutated(FULL, data.draw(st.lists(change, min_size=1, max_size=5)))
    try:
        decoded, _ = RESOURCE.schema.decode(body, strict="Warn")
    except DecodeError:
        return
    decoded["metadata"] = {**(decoded.get("metadata") or {}), "uid": "u"}
    new = RESOURCE.strategy.prepare_create(RESOURCE.schema.default(decoded), NOW)
    errors = [*RESOURCE.schema.validate(new), *RESOURCE.strategy.validate_create(new)]
    assert all(error.field and error.message for error in errors)
