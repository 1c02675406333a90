"""Changes of a pod's containers, each a new pod."""

from collections.abc import Callable, Sequence

from workers.api.kinds import Object

Change = Callable[[Object], Object]


def change(pod: Object, how: Change, *, init: bool = True) -> Object:
    """The pod with all its containers changed. init: those that run before the others too."""
    lists = ("containers", "initContainers") if init else ("containers",)
    spec = pod["spec"]
    changed = {name: [how(container) for container in spec[name]] for name in lists if spec.get(name)}
    return {**pod, "spec": {**spec, **changed}}


def with_variables(pod: Object, variables: Sequence[Object], *, init: bool = True) -> Object:
    """The pod with further environment variables."""
    return change(pod, lambda container: extended(container, "env", *variables), init=init)


def with_volume(pod: Object, volume: Object, mount: Object, *, init: bool = True) -> Object:
    """The pod with a further volume that is mounted into its containers."""
    mounted = change(pod, lambda container: extended(container, "volumeMounts", mount), init=init)
    return {**mounted, "spec": extended(mounted["spec"], "volumes", volume)}


def with_port(container: Object, name: str, number: int) -> Object:
    """The container with a port; one that has the number or the name already stays as it is."""
    there = container.get("ports") or ()
    if any(port.get("containerPort") == number or port.get("name") == name for port in there):
        return container
    return extended(container, "ports", {"name": name, "containerPort": number})


def extended(body: Object, field: str, *items: Object) -> Object:
    """The object with further items in one of its lists."""
    return {**body, field: [*(body.get(field) or ()), *items]} if items else body


def variable(name: str, value: object) -> Object:
    """An environment variable."""
    return {"name": name, "value": str(value)}
