"""KEDA's `loki` trigger: the value of a LogQL metric query."""

from typing import ClassVar

from penstock.scaler import Source, parameter
from scalers.sources.http.prometheus import Vector
from scalers.sources.http.web import Session


class Loki(Vector):
    """A metric query on a Loki server."""

    tenant_name: str | None = parameter(
        None, sources=(Source.METADATA,), description="tenant, sent as the header `X-Scope-OrgID`"
    )

    metric: ClassVar[str] = "loki"

    async def ask(self, session: Session) -> float:
        """Returns the query's value now."""
        headers = {"X-Scope-OrgID": self.tenant_name} if self.tenant_name else None
        answer = await self.get(session, "/loki/api/v1/query", {"query": self.query}, headers=headers)
        return self.sample(answer.body)
