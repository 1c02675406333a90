"""The `celery` trigger: tasks of Celery queues that are not done, on Redis or RabbitMQ."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import SecretStr, ValidationError, model_validator

from penstock.parameters import IGNORED_TRUST, ParameterError
from penstock.scaler import Connections, Measure, Source, parameter
from scalers.concurrency import side_by_side
from scalers.sources.celery import backlog, broker_url
from scalers.sources.celery.backlog import Backlog, TransportLayout
from scalers.sources.celery.broker_url import BrokerURL
from scalers.sources.field_properties import value_of
from scalers.sources.messaging.rabbitmq import RabbitMQ
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.sentinel import RedisSentinel
from scalers.sources.redis.source import measured
from scalers.sources.tls import TLS, Certificates

_M, _A, _E = Source.METADATA, Source.AUTHENTICATION, Source.ENVIRONMENT

#: Parameters that mean something on Redis only.
_REDIS_ONLY = {
    "count_future_tasks": "countFutureTasks",
    "global_keyprefix": "globalKeyprefix",
    "priority_steps": "prioritySteps",
    "separator": "separator",
    "unacked_key": "unackedKey",
    "cert": "cert",
}


class CeleryTasks(Certificates):
    """Tasks of Celery queues that are not done: those that wait, and those that workers have not acknowledged."""

    broker: SecretStr = parameter(
        sources=(_M, _A, _E),
        description="Celery's broker URL: `redis://`, `rediss://`, `sentinel://` (several with `;`), `amqp://`",
    )
    queues: tuple[str, ...] = parameter(("celery",), also=("queue",), sources=(_M,), description="counted together")
    tasks_per_job: int = parameter(1, sources=(_M,), ge=1, description="tasks that one Job is meant for")
    activation_tasks: int = parameter(0, sources=(_M,), ge=0, description="active above so many tasks")
    count_future_tasks: bool = parameter(
        False, sources=(_M,), description="Redis: count tasks whose eta lies in the future, too"
    )
    global_keyprefix: str = parameter("", sources=(_M,), description="Redis: the transport option of this name")
    priority_steps: tuple[str, ...] = parameter(
        ("0", "3", "6", "9"), sources=(_M,), description="Redis: the transport option of this name"
    )
    separator: str = parameter(
        "", sources=(_M,), description="Redis: the transport option `sep`, if it is not Celery's own"
    )
    unacked_key: str = parameter("unacked", sources=(_M,), description="Redis: the transport option of this name")
    sentinel_master: str | None = parameter(
        None, sources=(_M, _A, _E), description="the transport option `master_name`"
    )
    sentinel_username: str | None = parameter(None, sources=(_M, _A, _E), description="for the sentinels")
    sentinel_password: SecretStr | None = parameter(None, sources=(_M, _A, _E), description="for the sentinels")
    management: str | None = parameter(
        None,
        sources=(_M, _A, _E),
        description="RabbitMQ: the management plugin's address; else the broker's host, port 15672 (TLS: 15671)",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        url = self._url
        if not all(self.queues):
            raise ParameterError("queues", "must be names of queues, separated by commas")
        self.certificates()
        if url.options and IGNORED_TRUST not in self.quirks:
            raise ParameterError(
                "broker",
                f"{url.options[0]} is not supported: give ca, cert and key to the authentication, of a rediss:// or "
                "amqps:// broker",
            )
        if (url.scheme in broker_url.SENTINEL) != bool(self.sentinel_master):
            raise ParameterError("sentinelMaster", "and a sentinel:// broker must come together")
        if url.scheme in broker_url.AMQP:
            for field, name in _REDIS_ONLY.items():
                if field in self.model_fields_set:
                    raise ParameterError(name, "means something on Redis only")
            _ = self._rabbits
            return self
        if self.management:
            raise ParameterError("management", "means something on RabbitMQ only")
        _ = self._steps
        try:
            _ = self.server
        except ParameterError:
            raise
        except ValueError as error:
            raise ParameterError("broker", str(error)) from None
        if url.scheme != "rediss":
            self.refuse_unused("a rediss:// broker")
        self._tls.context()
        return self

    @property
    def _url(self) -> BrokerURL:
        try:
            return broker_url.parse(self.broker.get_secret_value())
        except ValueError as error:
            raise ParameterError("broker", str(error)) from None

    @property
    def _steps(self) -> tuple[int, ...]:
        if not all(step.isascii() and step.isdecimal() for step in self.priority_steps):
            raise ParameterError("prioritySteps", "must be whole numbers such as 0,3,6,9")
        return tuple(map(int, self.priority_steps))

    @property
    def _tls(self) -> TLS:
        return replace(self.certificates(), verify=not self.unsafe_ssl and self._url.verify is not False)

    @property
    def metric(self) -> str:
        """The queues' names."""
        return f"celery-{'-'.join(self.queues)}"

    target: ClassVar[float] = value_of("tasks_per_job")
    activation: ClassVar[float] = value_of("activation_tasks")

    @property
    def server(self) -> Any:
        """A Redis server, its sentinels, or the management plugin."""
        url = self._url
        if url.scheme in broker_url.AMQP:
            return self._rabbits[0].server
        tls = self._tls if url.scheme == "rediss" else None
        login = RedisServer("", 0, url.database, url.username, url.password, tls)
        if url.scheme in broker_url.REDIS:
            host, port = url.places[0]
            return RedisServer(host, port, login.database, login.username, login.password, tls)
        password = self.sentinel_password.get_secret_value() if self.sentinel_password else None
        sentinels = tuple(RedisServer(host, port, 0, self.sentinel_username, password) for host, port in url.places)
        return RedisSentinel(sentinels, self.sentinel_master or "", login)

    @property
    def question(self) -> Backlog:
        """The question for a Redis server."""
        layout = TransportLayout(self.global_keyprefix, self.separator or TransportLayout().separator, self.unacked_key)
        return Backlog(self.queues, layout, self._steps, self.count_future_tasks)

    watched: ClassVar[tuple[str, ...]] = value_of("question.lists")

    @property
    def _rabbits(self) -> tuple[RabbitMQ, ...]:
        """Each queue as the `rabbitmq` trigger measures it over HTTP."""
        url = self._url
        host = f"[{url.places[0][0]}]" if ":" in url.places[0][0] else url.places[0][0]
        place = f"https://{host}:15671" if url.scheme == "amqps" else f"http://{host}:15672"
        if self.management and urlsplit(self.management).scheme not in ("http", "https"):
            raise ParameterError("management", "must be a URL such as http://rabbit.example:15672")
        shared: dict[str, Any] = {
            "host": SecretStr(f"{(self.management or place).rstrip('/')}/"),
            "protocol": "http",
            "vhost_name": url.vhost,
            "username": url.username or "guest",
            "password": SecretStr(url.password or "guest"),
            "unsafe_ssl": not self._tls.verify,
            "ca": self.ca,
            "quirks": self.quirks,
        }
        try:
            return tuple(RabbitMQ(queue_name=queue, **shared) for queue in self.queues)
        except ValidationError as error:
            cause = error.errors(include_input=False)[0].get("ctx", {}).get("error")
            field = cause.field if isinstance(cause, ParameterError) else "management"
            raise ParameterError("management" if field == "host" else field, str(cause or "is wrong")) from None

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """Returns all backlogs; from Redis in one round trip."""
        if scalers[0].apart:
            return await super().read(scalers, connections)
        server = scalers[0].server
        asked = [scaler.question for scaler in scalers]
        questions = list(dict.fromkeys(asked))
        answers = dict(zip(questions, await server.answers(questions, backlog.ask, connections), strict=True))
        return [measured(server, question, answers[question]) for question in asked]

    @property
    def apart(self) -> bool:
        """True for RabbitMQ, where every queue is a question of its own."""
        return self._url.scheme in broker_url.AMQP

    async def answer(self, connections: Connections) -> float:
        """Returns the tasks of its queues on RabbitMQ, read side by side. Raises the first failure of any of them."""
        answers = await side_by_side(rabbit.answer(connections) for rabbit in self._rabbits)
        return sum(answer.value if isinstance(answer, Measure) else answer for answer in answers)
