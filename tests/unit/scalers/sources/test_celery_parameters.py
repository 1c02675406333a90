"""Parameters of the `celery` trigger, the broker URLs it takes, and which messages come from which queue."""

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.connections import Connections
from penstock.errors import SourceError
from penstock.parameters import Trigger
from scalers.sources.celery.backlog import Backlog, BacklogTables, TransportLayout, matches
from scalers.sources.celery.broker_url import BrokerURL, parse
from scalers.sources.celery.tasks import CeleryTasks
from scalers.sources.http.web import Server
from scalers.sources.messaging.rabbitmq import RabbitMQ
from scalers.sources.redis.connection import RedisServer
from scalers.sources.redis.sentinel import RedisSentinel
from scalers.sources.tls import TLS
from tests.support.tables import cases

REDIS, RABBIT, SENTINEL = "redis://:hush@a:1/2", "amqp://u:hush@rabbit/work", "sentinel://:hush@a:1/2;sentinel://b"


def trigger(broker: str = REDIS, *, authentication: dict[str, str] | None = None, **metadata: str) -> Trigger:
    return Trigger(3, "celery", metadata={"broker": broker, **metadata}, authentication=authentication or {})


def scaler(broker: str = REDIS, **more: Any) -> CeleryTasks:
    return CeleryTasks.parse(trigger(broker, **more))


def test_no_text_of_a_scaler_shows_a_secret() -> None:
    for broker, more in ((REDIS, {}), (RABBIT, {}), (SENTINEL, {"sentinelMaster": "m"})):
        found = scaler(broker, **more)
        assert "hush" not in f"{found} {found!r} {found.server} {found.server!r}"


@cases(
    ("host", "redis://a", BrokerURL("redis", (("a", 6379),), "", None, None)),
    ("all of it", "redis://u:p%40%2F@a:1/3", BrokerURL("redis", (("a", 1),), "3", "u", "p@/")),
    (
        "TLS unchecked, in Celery's words",
        "rediss://[::1]?ssl_cert_reqs=CERT_NONE",
        BrokerURL("rediss", (("::1", 6379),), "", None, None, verify=False),
    ),
    (
        "TLS checked",
        "rediss://a?ssl_cert_reqs=required&ssl_ca_certs=/a.pem",
        BrokerURL("rediss", (("a", 6379),), "", None, None, True, ("ssl_ca_certs",)),
    ),
    ("sentinels", "sentinel://:p@a:1/2; sentinel://b", BrokerURL("sentinel", (("a", 1), ("b", 26379)), "2", None, "p")),
    ("RabbitMQ", "amqp://a", BrokerURL("amqp", (("a", 0),), "", None, None)),
    ("the virtual host /", "pyamqp://a//", BrokerURL("pyamqp", (("a", 0),), "/", None, None)),
)
def test_broker_urls(text: str, parsed: BrokerURL) -> None:
    assert parse(text) == parsed


@cases(
    ("Redis", REDIS, {}, RedisServer("a", 1, 2, None, "hush")),
    ("TLS, checked unless told otherwise", "rediss://a", {}, RedisServer("a", 6379, 0, tls=TLS())),
    ("TLS, unchecked", "rediss://a?ssl_cert_reqs=none", {}, RedisServer("a", 6379, 0, tls=TLS(verify=False))),
    ("by the parameter", "rediss://a", {"unsafeSsl": "true"}, RedisServer("a", 6379, 0, tls=TLS(verify=False))),
    (
        "sentinels: the URL's login and database are the master's",
        SENTINEL,
        {"sentinelMaster": "m", "sentinelUsername": "su", "sentinelPassword": "sp"},
        RedisSentinel(
            (RedisServer("a", 1, 0, "su", "sp"), RedisServer("b", 26379, 0, "su", "sp")),
            "m",
            RedisServer("", 0, 2, None, "hush"),
        ),
    ),
    ("RabbitMQ's plugin, where it usually is", RABBIT, {}, Server("http://rabbit:15672", TLS())),
    ("with TLS", "amqps://r", {}, Server("https://r:15671", TLS())),
    ("or somewhere else", RABBIT, {"management": "https://m:1"}, Server("https://m:1", TLS())),
)
def test_where_to_ask(broker: str, metadata: dict[str, str], server: object) -> None:
    assert scaler(broker, **metadata).server == server


def test_the_numbers() -> None:
    found = scaler(queues="a,b", tasksPerJob="7", activationTasks="2")
    assert (found.metric, found.target, found.activation) == ("celery-a-b", 7, 2)
    assert found.watched == tuple(f"{name}{end}" for name in "ab" for end in ("", *(f"\x06\x16{n}" for n in (3, 6, 9))))


def test_transport_options_say_where_messages_are() -> None:
    found = scaler(globalKeyprefix="app:", prioritySteps="0,1", separator=":", unackedKey="held", queue="a")
    assert found.question == Backlog(("a",), TransportLayout("app:", ":", "held"), (0, 1))
    assert found.watched == ("app:a", "app:a:1")
    assert scaler(countFutureTasks="true").question == Backlog(("celery",), future=True)


SEP = "\x06\x16"
TABLES = BacklogTables(
    {
        "direct": [SEP.join(("key", "", "work")), SEP.join(("other", "", "else"))],
        "topic": [SEP.join(("img.*", "^img\\..*?[^\\.]$", "work"))],
        "broken": ["no separators"],
    },
    SEP,
)


@cases(
    ("by the queue's name", "", "work", True),
    ("another queue", "", "else", False),
    ("bound", "direct", "key", True),
    ("bound to another queue", "direct", "other", False),
    ("the queue's name is no key of this exchange", "direct", "work", False),
    ("a topic", "topic", "img.png", True),
    ("a longer topic", "topic", "img.a.png", False),
    ("an entry that is none", "broken", "work", False),
    ("a broadcast", "broadcast", "", False),
)
def test_which_queue_a_held_message_came_from(exchange: str, key: str, reaches: bool) -> None:
    assert TABLES.reaches("work", exchange, key) is reaches


@cases(
    ("the same", "a.b", "a.b", True),
    ("another word", "a.b", "a.c", False),
    ("a word is missing", "a.*", "a", False),
    ("any word", "*.b", "a.b", True),
    ("everything", "#", "a.b.c", True),
    ("no further word", "a.#", "a", True),
    ("words between", "a.#.c", "a.x.y.c", True),
    ("words between, and a wrong end", "a.#.c", "a.x.y.d", False),
    ("a word that stands twice", "#.c", "c.x.c", True),
    ("many wildcards", ".".join("#" * 20 + "x"), ".".join("a" * 40), False),
)
def test_topics(pattern: str, key: str, fits: bool) -> None:
    assert matches(pattern.split("."), key.split(".")) is fits


@given(pattern=st.text("ab*#", max_size=6), key=st.text("ab", max_size=6))
def test_topics_of_short_words_are_patterns_of_letters(pattern: str, key: str) -> None:
    expression = pattern.replace("*", ".").replace("#", ".*")
    assert matches(pattern, key) is bool(re.fullmatch(expression, key))


async def test_on_rabbitmq_nothing_of_a_question_goes_on_when_it_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: set[str] = set()

    async def answer(self: RabbitMQ, connections: Connections) -> float:
        under_way.add(self.queue_name)
        try:
            await asyncio.sleep(0)
            if self.queue_name == "gone":
                raise SourceError("no queue gone")
            await asyncio.Event().wait()
        finally:
            under_way.discard(self.queue_name)
        return 0.0

    monkeypatch.setattr(RabbitMQ, "answer", answer)
    with pytest.raises(SourceError, match="no queue gone"):
        await scaler(RABBIT, queues="hangs,gone").answer(Connections())
    assert not under_way
