"""A pod's containers: which of them live as long as the pod."""

from workers.api.kinds import Object


def regular(pod: Object) -> list[Object]:
    """The statuses of its regular containers."""
    return list((pod.get("status") or {}).get("containerStatuses") or ())


def restartable(pod: Object) -> list[Object]:
    """The statuses of the init containers that go on running beside the regular ones."""
    status, spec = pod.get("status") or {}, pod.get("spec") or {}
    names = {each["name"] for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"}
    return [each for each in status.get("initContainerStatuses") or () if each.get("name") in names]
