"""The resources that a waiting gang lacks, and who holds them."""

from collections.abc import Iterable, Sequence

from deploy.cli import output
from workers.api.kinds import Object, controller_of
from workers.api.references import GROUP_NAME

#: The number of holders shown.
SHOWN = 10
#: Resources of a gang that does not say what it needs.
_USUAL = ("cpu", "memory")


def lacks_room(group: Object) -> bool:
    """Returns True if a PodGroup waits because others hold what it needs."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    return any(
        each.get("type") == "Unschedulable"
        and each.get("status") == "True"
        and each.get("reason") == "NotEnoughResources"
        for each in conditions
    )


def table(group: Object, pods: Iterable[Object]) -> tuple[list[str], list[list[str]]]:
    """Returns the header and a row per holder, the largest first. pods: of the whole cluster."""
    # Imported late, because loading the controllers takes longer than most commands.
    from workers.controllers.volcano.podgroup import vectors
    from workers.controllers.volcano.podgroup.members import member

    asked = vectors.plain(vectors.readable((group.get("spec") or {}).get("minResources"))) or dict.fromkeys(_USUAL, 1)
    names = [name for name, amount in sorted(asked.items()) if amount > 0]
    held: dict[str, dict[str, int]] = {}
    for one in map(member, pods):
        if one.occupies:
            holder = held.setdefault(_holder(one.pod), {})
            for name in {"pods", *names}:
                holder[name] = holder.get(name, 0) + one.requests.get(name, 0)

    def rank(holder: str) -> tuple[float, int, str]:
        share = max((held[holder].get(name, 0) / asked[name] for name in names), default=0.0)
        return -share, -held[holder]["pods"], holder

    columns = [name for name in names if name != "pods"]
    rows = [
        [holder, str(held[holder]["pods"] // 10**9), *(vectors.text(name, held[holder][name]) for name in columns)]
        for holder in sorted(held, key=rank)
    ]
    return ["HELD BY", "PODS", *map(str.upper, columns)], rows


def show(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints the largest holders."""
    if rows:
        total = len(rows)
        output.say(f"Held{f' ({total} holders, the largest {SHOWN} shown)' if total > SHOWN else ''}:")
        output.table(header, rows[:SHOWN], indent="  ")


def _holder(pod: Object) -> str:
    """Returns the pod's PodGroup, else its controller, else the pod."""
    metadata = pod["metadata"]
    owner = controller_of(pod)
    if group := (metadata.get("annotations") or {}).get(GROUP_NAME):
        name = f"PodGroup/{group}"
    else:
        name = f"{owner['kind']}/{owner['name']}" if owner else f"Pod/{metadata['name']}"
    return f"{metadata['namespace']} {name}"
