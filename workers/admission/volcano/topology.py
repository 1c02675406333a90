"""Network topologies: the two ways to name the highest tier exclude each other."""

from collections.abc import Iterator

from workers.admission.findings import Finding
from workers.api.kinds import Object


def tiers(topology: Object | None, path: str) -> Iterator[Finding]:
    """What is wrong with a networkTopology that the schema accepts."""
    if topology and topology.get("highestTierAllowed") is not None and topology.get("highestTierName"):
        yield Finding(path, "must not have both highestTierAllowed and highestTierName")
