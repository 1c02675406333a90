"""`penstock.dev/v1alpha1` EventJob as a typed model: one Job per event of a channel.

A channel is an intake of events in the broker (docs/events.md). Several EventJobs may take the events of one channel;
each has its own deliveries, one per event.
"""

from typing import Annotated, Any, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from workers.api import model
from workers.api.kinds import EVENT_JOB, Object
from workers.api.model import Items, Model, Text
from workers.api.penstock_dev.push_settings import PushSettings
from workers.api.penstock_dev.scheduledjob import Duration, Instant, RunRetry, RunTemplate, Seconds, StatusCondition

#: A CEL expression over `event`, an object of the event's attributes and its parsed `data`.
Expression = Annotated[str, Field(min_length=1, max_length=4096)]
#: Attributes and the texts they are compared with.
Attributes = Annotated[dict[str, str], Field(min_length=1)]


class EventFilter(Model):
    """One condition on events, as CloudEvents' subscriptions have them. Exactly one of the fields."""

    exact: Attributes | None = None
    """Every named attribute has this text."""
    prefix: Attributes | None = None
    """Every named attribute begins with this text."""
    suffix: Attributes | None = None
    """Every named attribute ends with this text."""
    all: "Annotated[Items[EventFilter], Field(min_length=1)] | None" = None
    """All of these hold."""
    any: "Annotated[Items[EventFilter], Field(min_length=1)] | None" = None
    """One of these holds."""
    not_: "Annotated[EventFilter | None, Field(alias='not')]" = None
    """This does not hold."""
    cel: Expression | None = None
    """The expression is true."""

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns a schema of any object: the schemas of kinds cannot refer to themselves."""
        text = "One condition on events: exactly one of exact, prefix, suffix, all, any, not and cel."
        return {"type": "object", "description": text, "x-kubernetes-preserve-unknown-fields": True}

    @model_validator(mode="after")
    def _one_condition(self) -> Self:
        given = (self.exact, self.prefix, self.suffix, self.all, self.any, self.not_, self.cel)
        if sum(each is not None for each in given) != 1:
            raise ValueError("exactly one of exact, prefix, suffix, all, any, not and cel is needed")
        return self


class EventConcurrency(Model):
    """The Jobs that may be unfinished at once."""

    total: Annotated[int, Field(ge=1, le=10_000)] = 10
    """Most Jobs of this EventJob."""
    ordering_key: Expression | None = None
    """Events with the same text run one after the other, in the order of their arrival; null means no order."""


class RateLimit(Model):
    """Jobs that may begin in a time, as a token bucket."""

    jobs: Annotated[int, Field(ge=1, le=1_000_000)]
    """Jobs that may begin per period."""
    period_seconds: Duration = 1
    """The time in which so many may start."""
    burst: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Jobs that may begin at once after a pause; default `jobs`."""


class DeadLetter(Model):
    """The events whose last attempt has failed."""

    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Most parked events; beyond it nothing more runs until some are replayed or dropped."""
    channel: Text | None = None
    """A channel of the namespace that gets each as an event of type `dev.penstock.parked`, too."""


class Deduplication(Model):
    """The events that count as the same one."""

    window_seconds: Seconds = 3600
    """How long an event is remembered; 0 takes every event."""
    limit: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    """Most events that are remembered, the newest."""
    key: Expression | None = None
    """A text that says which event it is, beside source and id, which always do."""


class History(Model):
    """The records of ended events."""

    limit: Annotated[int, Field(ge=0, le=1_000_000)] = 1_000
    """Most records of events that are done, the newest; parked ones stay until they are replayed or dropped."""
    seconds: Duration = 7 * 24 * 3600
    """The age up to which they are kept."""


class EventJobSpec(Model):
    """The events that become Jobs, how, and how many at once."""

    channel: Text | None = None
    """The channel whose events are taken; default the object's name. HTTP pushes go to the EventJob named like it."""
    filter: EventFilter | None = None
    """Events that become Jobs; default all."""
    suspend: bool | None = False
    """Events are taken in, and no Job is created."""
    concurrency: EventConcurrency = EventConcurrency()
    """How many Jobs may run at once, in all and per ordering key."""
    rate_limit: RateLimit | None = None
    """How many Jobs may start in a period."""
    retry: RunRetry | None = None
    """Further Jobs for an event whose Job has failed; default none."""
    dead_letter: DeadLetter = DeadLetter()
    """Where the events go whose attempts have all failed."""
    dedup: Deduplication = Deduplication()
    """How long an event of the same source and id counts as the same."""
    history: History = History()
    """How many ended deliveries are kept."""
    delay_seconds: Seconds = 0
    """An event's Job is created so long after its arrival, and not before the event's attribute `notbefore`."""
    max_events: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Events of the channel that may be not done; more are refused over HTTP and dropped otherwise."""
    ttl_seconds_after_finished: Seconds | None = 3600
    """Finished Jobs are deleted after so long, unless the template says otherwise."""
    push: PushSettings = PushSettings()
    """Who may push over HTTP, and how durable events are."""
    job_template: RunTemplate
    """The Job of every event; `$(event.<path>)` in commands, arguments, variables, labels and annotations stands for
    the event's."""


class EventCounts(Model):
    """The deliveries by state, and how many events ended otherwise since the beginning."""

    waiting: int | None = None
    """They wait for room, their turn or the rate limit."""
    delayed: int | None = None
    """They wait for their time."""
    running: int | None = None
    """Events with a Job that has not ended."""
    retrying: int | None = None
    """They wait for their next attempt."""
    parked: int | None = None
    """Events whose attempts have all failed."""
    done: int | None = None
    """Since the beginning."""
    filtered: int | None = None
    """Since the beginning: the filter did not take them."""
    duplicates: int | None = None
    """Since the beginning: seen before by `dedup.key`."""


class EventJobStatus(Model):
    """The observed state."""

    conditions: Items[StatusCondition] | None = None
    """Ready, and the conditions that explain it."""
    observed_generation: int | None = None
    """The generation of the spec that this status is about."""
    channel: str | None = None
    """The stream that the events come from."""
    stream: str | None = None
    """The broker's stream that events are pushed to."""
    events: EventCounts | None = None
    """Events by what became of them."""
    active: int | None = None
    """Jobs that have not finished."""
    last_event_time: Instant | None = None
    """When the newest event arrived."""
    last_job: str | None = None
    """Name of the newest Job."""


class EventJob(Model):
    """An EventJob."""

    metadata: dict[str, Any]
    spec: EventJobSpec

    @property
    def channel(self) -> str:
        """The channel whose events are taken."""
        return self.spec.channel or str(self.metadata["name"])


def parse(body: Object) -> EventJob:
    """Returns the typed form. Raises UserError that names every malformed field."""
    return model.parse(EventJob, EVENT_JOB, body)
