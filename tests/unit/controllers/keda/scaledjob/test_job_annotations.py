"""Annotations and variables of Jobs that name the trigger that asked for them."""

from tests.support.tables import for_each
from tests.unit.controllers.factories import NOW, reading, sample, scaled_job, snapshot
from tests.unit.controllers.plans import staged
from workers.controllers.keda.scaledjob import decide
from workers.decision.plan import Create


def trigger(name=None):
    return {"type": "redis", "metadata": {}, **({"name": name} if name else {})}


def made(body, *samples):
    plan = decide(snapshot(body, reading=reading(*samples)), NOW)
    return [step.body for step in staged(plan, Create)]


def test_nothing_is_told_unless_asked_for():
    plain = made(scaled_job(), sample(2))
    assert plain == made(scaled_job(passTrigger=False), sample(2))
    assert "penstock.dev" not in str(plain)


def test_job_pod_and_every_container_are_told():
    pod = {
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "env": [{"name": "PENSTOCK_READING", "value": "mine"}]}],
        },
    }
    body = scaled_job(passTrigger=True, jobTargetRef={"template": pod})
    jobs = made(body, sample(2))
    assert len(jobs) == 2
    facts = {"penstock.dev/trigger": "s0-redis-work", "penstock.dev/queue-length": "2", "penstock.dev/reading": "36"}
    for job in jobs:
        template = job["spec"]["template"]
        assert facts.items() <= job["metadata"]["annotations"].items()
        assert template["metadata"]["annotations"] == {"a": "b", **facts}
        assert template["spec"]["initContainers"][0]["env"] == [
            {"name": "PENSTOCK_TRIGGER", "value": "s0-redis-work"},
            {"name": "PENSTOCK_QUEUE_LENGTH", "value": "2"},
            {"name": "PENSTOCK_READING", "value": "36"},
        ]
        assert template["spec"]["containers"][0]["env"] == [
            {"name": "PENSTOCK_READING", "value": "mine"},
            {"name": "PENSTOCK_TRIGGER", "value": "s0-redis-work"},
            {"name": "PENSTOCK_QUEUE_LENGTH", "value": "2"},
        ]
    assert pod["metadata"] == {"annotations": {"a": "b"}}


@for_each(("max", "orders"), ("min", "s0"), ("sum", "s0,orders"), ("avg", "s0,orders"))
def test_the_trigger_is_the_one_whose_queue_was_counted(calculation, expected):
    triggers = [trigger(), trigger("orders"), trigger("idle")]
    body = scaled_job(passTrigger=True, triggers=triggers, scalingStrategy={"multipleScalersCalculation": calculation})
    samples = [sample(2, name="s0"), sample(5, name="s1"), sample(9, name="s2", active=False)]
    (first, *_) = made(body, *samples)
    assert first["metadata"]["annotations"]["penstock.dev/trigger"] == expected


def test_jobs_of_the_minimum_have_no_trigger():
    (job,) = made(scaled_job(passTrigger=True, minReplicaCount=1), sample(0))
    assert job["metadata"]["annotations"]["penstock.dev/trigger"] == ""
