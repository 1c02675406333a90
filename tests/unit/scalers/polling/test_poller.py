"""How late a poll is, and that what an object's triggers say is shown of every kind of poll but a flow's."""

from dataclasses import replace
from typing import ClassVar

from prometheus_client import REGISTRY

from penstock.scaler import Measure, Scaler
from scalers.polling import object_poll
from scalers.polling.circuit_breaker import CircuitBreaker
from scalers.polling.object_poll import ObjectPoll
from scalers.triggers.parse import Parsed, SourceKey, TriggerProbe, polling_interval
from scheduler.queue import Lease
from tests.support.tables import cases
from tests.unit.controllers.factories import UID, sample
from workers.api.kinds import JOB_FLOW, SCALED_JOB, Kind, Ref
from workers.decision.claims import LEDGER, ClaimLedger
from workers.decision.snapshot import Reading, TriggerSample


def poll(
    *,
    interval: int | None = 30,
    before: float | None = None,
    uid: str = UID,
    kind: Kind = SCALED_JOB,
    name: str = "late",
) -> ObjectPoll:
    """One that began a hundred seconds into the epoch. before: when the one before did."""
    spec = {"triggers": [{"type": "redis"}], **({} if interval is None else {"pollingInterval": interval})}
    body = {"metadata": {"name": name, "namespace": "default", "uid": UID, "generation": 1}, "spec": spec}
    previous = None if before is None else Reading(id=1, started=round(before * 1e6), generation=1, uid=uid)
    lease = Lease(Ref(kind, "default", name).key, token=1, deadline=1.0, failures=0, reason=None, generation="")
    return ObjectPoll(lease, body, Parsed(()), previous, 100_000_000, polling_interval(body, 10.0))


@cases(
    ("the first", {}, None),
    ("in time", {"before": 70.0}, 0.0),
    ("late", {"before": 65.5}, 4.5),
    ("woken", {"before": 90.0}, -20.0),
    ("by the settings' interval", {"before": 88.0, "interval": None}, 2.0),
    ("an object of its name, now gone", {"before": 10.0, "uid": "another"}, None),
)
def test_how_late_a_poll_is(given, late):
    assert poll(**given).late() == late


def test_a_value_that_changes_by_itself_is_not_polled_before_it_does():
    polled = poll()
    polled.again = 7.023
    assert polled.next() == 107.023


@cases(("ScaledJob", SCALED_JOB, 3), ("JobFlow", JOB_FLOW, None))
def test_what_claims_measure_is_shown_and_what_flows_probe_is_not(kind, shown):
    name = f"shown-{kind.plural}"
    polled = poll(kind=kind, name=name)
    polled.parsed = Parsed((PLAIN,))
    polled.samples[0] = sample(3)
    polled.export(0, 0.5)
    labels = {
        "namespace": "default",
        "metric": polled.samples[0].name,
        "scaledObject": name,
        "scaler": "redis",
        "triggerIndex": "0",
        "type": "scaledjob",
    }
    assert REGISTRY.get_sample_value("keda_scaler_metrics_value", labels) == shown


@cases(("no trigger", []), ("null", None))
def test_a_ledger_is_shown_also_of_an_object_that_names_no_trigger_any_more(triggers):
    polled = poll(name="let-go")
    polled.parsed = Parsed((PLAIN,))
    polled.body["spec"]["triggers"] = triggers
    polled.body["metadata"]["annotations"] = {LEDGER: '{"type": "redis", "metadata": {"listName": "work"}}'}
    polled.samples[0] = sample(3)
    polled.export(0, 0.5)
    shown = [
        one.value
        for metric in REGISTRY.collect()
        for one in metric.samples
        if one.name == "keda_scaler_metrics_value" and one.labels["scaledObject"] == "let-go"
    ]
    assert shown == [3]


class Careless(Scaler):
    """Of somebody else: it does not say when it is active, nor what one Job is meant for."""

    metric: ClassVar[str] = "careless"
    target: ClassVar[None] = None
    server: ClassVar[str] = "the server"


def test_a_scaler_that_says_nonsense_is_unknown_by_itself():
    polled, scaler = poll(), Careless()
    polled.parsed = Parsed((TriggerProbe("s0-careless", "careless", scaler, SourceKey.of(scaler, None)),))
    polled.take(0, Measure(3.0))
    assert polled.complete
    assert (polled.samples[0].value, polled.samples[0].active) == (0.0, False)
    assert polled.samples[0].error.startswith("the server: TypeError: ")


class Plain(Scaler):
    """Asks for five a Job, and is active above two."""

    metric: ClassVar[str] = "plain"
    target: ClassVar[float] = 5.0
    activation: ClassVar[float] = 2.0
    server: ClassVar[str] = "the server"


PLAIN = TriggerProbe("s0-plain", "plain", Plain(), SourceKey.of(Plain(), None))


@cases(
    ("above the activation", Measure(2.5), TriggerSample("s0-plain", "plain", 2.5, 5.0, True)),
    ("not above it", Measure(2.0), TriggerSample("s0-plain", "plain", 2.0, 5.0, False)),
    ("active by itself", Measure(0.0, active=True), TriggerSample("s0-plain", "plain", 0.0, 5.0, True)),
    ("a target of its own", Measure(3.0, target=7), TriggerSample("s0-plain", "plain", 3.0, 7.0, True)),
    (
        "not all of it",
        Measure(3.0, incomplete="no age"),
        TriggerSample("s0-plain", "plain", 3.0, 5.0, True, incomplete="the server: no age"),
    ),
    ("an error", "refused", TriggerSample("s0-plain", "plain", error="refused")),
)
def test_a_sample_says_all_of_its_answer(answer, expected):
    assert object_poll.sample(PLAIN, answer) == expected


def test_a_reading_is_newer_than_the_one_before_and_has_its_samples_in_order():
    polled = poll(before=70.0)
    polled.body["metadata"]["generation"] = 4
    polled.parsed = Parsed((PLAIN, replace(PLAIN, name="s1-plain")))
    polled.take(1, Measure(4.0, again=0.1))
    assert not polled.complete
    polled.take(0, "refused")
    first, second = (
        TriggerSample("s0-plain", "plain", error="refused"),
        TriggerSample("s1-plain", "plain", 4.0, 5.0, True),
    )
    found = polled.reading()
    assert found == Reading(100_000_000, 100_000_000, 4, (first, second), None, UID, interval=30.0)
    assert polled.again == object_poll.SOONEST
    polled.previous = replace(found, id=300_000_000)
    assert polled.reading().id == 300_000_001, "the broker may have been emptied, or its clock set back"
    polled.parsed, polled.samples = Parsed(problem="no Secret"), {}
    assert (polled.complete, polled.reading().problem, polled.reading().samples) == (True, "no Secret", ())


@cases(("its own", {"interval": 300}, 300.0), ("the default", {"interval": None}, 10.0))
def test_a_reading_has_the_interval_of_its_object(given, expected):
    polled = poll(**given)
    polled.parsed = Parsed(problem="no Secret")
    assert polled.reading().interval == expected


def test_a_sample_is_shown_under_the_name_that_its_trigger_has():
    polled = poll(name="named")
    polled.parsed = Parsed((replace(PLAIN, given="mine"),))
    polled.samples[0] = sample(3)
    polled.export(0, 0.5)
    labels = [one.labels for metric in REGISTRY.collect() for one in metric.samples
              if one.name == "keda_scaler_metrics_value" and one.labels["scaledObject"] == "named"]  # fmt: skip
    assert [each["scaler"] for each in labels] == ["mine"]


SAME = Reading(1, 1, 1, (TriggerSample("a", "b"),), None, UID)


@cases(
    ("the first", None, SAME, True),
    ("nothing new", SAME, replace(SAME, id=2, started=2), False),
    ("another value", SAME, replace(SAME, samples=(TriggerSample("a", "b", 1.0),)), True),
    ("work that waits", replace(SAME, samples=(sample(1),)), replace(SAME, samples=(sample(1),)), True),
    ("a failure", SAME, replace(SAME, samples=(TriggerSample("a", "b", failures=1),)), True),
    ("another generation", SAME, replace(SAME, generation=2), True),
    ("another object", SAME, replace(SAME, uid="other"), True),
    ("another problem", SAME, replace(SAME, problem="x"), True),
    ("another ledger", SAME, replace(SAME, ledger=ClaimLedger("x", 1)), True),
)
def test_a_decision_is_asked_for(previous, reading, asked):
    assert object_poll.asks_for_decision(previous, reading) is asked


def test_the_trigger_of_another_generation_is_another_asker():
    polled = poll()
    polled.body["metadata"]["generation"] = 4
    assert polled.asker(1) == (UID, (1, 4))


def test_a_ledger_that_fails_tells_the_open_breaker_of_its_server():
    polled = poll()
    polled.parsed = Parsed((PLAIN,))
    polled.take_claims("refused", CircuitBreaker(3, 900, "refused"))
    assert (polled.samples[0].error, polled.samples[0].next_attempt) == ("refused", 900)


def test_a_failure_is_counted_on_from_the_reading_before_of_the_same_object():
    polled = poll(before=70.0)
    polled.body["spec"]["fallback"] = {"failureThreshold": 3, "replicas": 1}
    polled.parsed = Parsed((PLAIN,))
    polled.take(0, "refused")
    assert polled.samples[0].failures == 1
    polled.previous = polled.reading()
    polled.take(0, "refused")
    assert polled.samples[0].failures == 2
    polled.previous = polled.reading()
    polled.take(0, Measure(3.0, incomplete="no age"))
    assert polled.samples[0].failures == 3
    polled.previous = replace(polled.reading(), uid="another")
    polled.take(0, "refused")
    assert polled.samples[0].failures == 1
