"""Lists of objects with the columns of vcctl."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deploy.cli import discovery, output
from deploy.cli.objects import get
from workers.api.kinds import Kind, Object

if TYPE_CHECKING:
    from workers.client.rest import Cluster


async def items(cluster: "Cluster", kind: Kind, namespace: str = "") -> list[Object]:
    """All objects of a kind; namespace: empty for all."""
    query = get.Query(discovery.DiscoveredKind(kind), namespace)
    found: list[Object] = (await get.pages(cluster, query))["items"]
    return found


def show(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """The table, or that there is nothing to show."""
    if rows:
        output.table(header, [["" if cell is None else str(cell) for cell in row] for row in rows])
    else:
        output.say("No resources found")
