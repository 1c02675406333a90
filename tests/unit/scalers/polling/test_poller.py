"""How late a poll is, and that what an object's triggers say is shown of every kind of poll but a flow's."""

from typing import ClassVar

from prometheus_client import REGISTRY

from penstock.scaler import Measure, Scaler
from scalers.polling.object_poll import ObjectPoll
from scalers.triggers.parse import Parsed, SourceKey, TriggerProbe
from scheduler.queue import Lease
from tests.support.tables import cases
from tests.unit.controllers.factories import UID, sample
from workers.api.kinds import JOB_FLOW, SCALED_JOB, Kind, Ref
from workers.decision.claims import LEDGER
from workers.decision.snapshot import Reading


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
    body = {"metadata": {"name": name, "namespace": "default", "uid": UID}, "spec": spec}
    previous = None if before is None else Reading(id=1, started=round(before * 1e6), generation=1, uid=uid)
    lease = Lease(Ref(kind, "default", name).key, token=1, deadline=1.0, failures=0, reason=None, generation="")
    return ObjectPoll(lease, body, Parsed(()), previous, started=100_000_000)


@cases(
    ("the first", {}, None),
    ("in time", {"before": 70.0}, 0.0),
    ("late", {"before": 65.5}, 4.5),
    ("woken", {"before": 90.0}, -20.0),
    ("by the settings' interval", {"before": 88.0, "interval": None}, 2.0),
    ("an object of its name, now gone", {"before": 10.0, "uid": "another"}, None),
)
def test_how_late_a_poll_is(given, late):
    assert poll(**given).late(10.0) == late


def test_a_value_that_changes_by_itself_is_not_polled_before_it_does():
    polled = poll()
    polled.again = 7.023
    assert polled.next(10.0) == 107.023


@cases(("ScaledJob", SCALED_JOB, 3), ("JobFlow", JOB_FLOW, None))
def test_what_claims_measure_is_shown_and_what_flows_probe_is_not(kind, shown):
    name = f"shown-{kind.plural}"
    polled = poll(kind=kind, name=name)
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
