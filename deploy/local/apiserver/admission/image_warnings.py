"""Warnings about containers that have nothing to run: images are not run on this cluster."""

from collections.abc import Iterator

from deploy.local.image_commands import Images
from workers.api import pod_templates
from workers.api.kinds import POD, Kind, Object


def warned(kind: Kind, body: Object, old: Object | None, images: Images) -> list[str]:
    """Returns one warning per container without a command. old: the version it replaces, whose warnings are known."""
    known = [] if old is None else warned(kind, old, None, images)
    return [text for text in _of_specs(kind, body, images) if text not in known]


def pod_specs(kind: Kind, body: Object) -> Iterator[tuple[str, Object]]:
    """Yields the pod specs of an object, each with its place; none of a kind that has none."""
    pods = [("", body)] if kind.id == POD.id else pod_templates.of(kind, body)
    for place, pod in pods:
        if isinstance(pod, dict) and isinstance(spec := pod.get("spec"), dict):
            yield f"{place}.spec".removeprefix("."), spec


def _of_specs(kind: Kind, body: Object, images: Images) -> Iterator[str]:
    for place, spec in pod_specs(kind, body):
        for part in ("initContainers", "containers"):
            for at, container in pod_templates.at(f"{part}[]", spec):
                if isinstance(container, dict) and (problem := images.problem(container)):
                    yield f"{place}.{at}: {problem}"
