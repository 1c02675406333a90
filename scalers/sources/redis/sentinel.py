"""Redis and Valkey masters that sentinels monitor: the sentinels name the current one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redis import exceptions

from penstock.connections import Connections
from penstock.scaler import SourceError
from scalers.sources.redis.connection import Answer, Ask, Question, RedisLink, RedisServer, Seeds


@dataclass(frozen=True, slots=True)
class RedisSentinel:
    """A master and its sentinels. login: the master's database and login, without host and port.

    Every reading asks the sentinels: a master that was replaced may still be reachable, with outdated data.
    """

    sentinels: tuple[RedisServer, ...]
    master: str
    login: RedisServer

    def __str__(self) -> str:
        return f"{self.master} of {','.join(sentinel.place for sentinel in self.sentinels)}"

    async def answers(self, questions: Sequence[Question], ask: Ask, connections: Connections) -> list[Answer]:
        """See scalers.sources.redis.connection.Topology."""

        async def master_of(sentinel: RedisServer, link: RedisLink) -> RedisServer:
            [answer] = await link.run([("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.master)])
            if isinstance(answer, exceptions.RedisError):
                raise SourceError(f"{sentinel.place}: {answer}")
            if not answer:
                raise SourceError(f"{sentinel.place}: knows no master {self.master}")
            host, port = answer
            return replace(self.login, host=host.decode(), port=int(port))

        async with connections.use(self, lambda: Seeds(self.sentinels), _forget) as seeds:
            master = await seeds.ask(master_of, connections)
        return await master.answers(questions, ask, connections)


async def _forget(_: Seeds) -> None:
    """Does nothing: the sentinels' clients are shared."""
