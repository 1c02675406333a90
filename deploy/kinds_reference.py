"""The generator of the tables of docs/kinds.md, from the models: ``python -m deploy.kinds_reference``."""

import json
from collections.abc import Iterator, Mapping

from kubernetes import client

from deploy import generated_docs
from workers.api import crds
from workers.api.kinds import Object

#: By suffix of the group, the system whose kinds these are.
_SYSTEMS = {"keda.sh": "KEDA", "volcano.sh": "Volcano"}

#: By definition, the fields, with all below them, that the system of the kind does not have.
_OURS: Mapping[str, tuple[str, ...]] = {
    "scaledjobs.keda.sh": (
        *("spec.fallback", "spec.jobCreationCooldownSeconds", "spec.passTrigger", "spec.pollingIntervalMilliseconds"),
        *("spec.push", "spec.scalingStrategy.activation", "spec.scalingStrategy.claim", "spec.scalingStrategy.weights"),
        "status.sourcesLeftAlone",
    ),
    "scaledobjects.keda.sh": ("status.memory",),
    "jobs.batch.volcano.sh": (
        *("spec.activeDeadlineSeconds", "spec.restartBackoff", "spec.suspend", "spec.ttlSecondsAfterAborted"),
        *("status.admittedMembers", "status.delayed", "status.failures", "status.groupPhase", "status.handled"),
        *("status.killing", "status.observedGeneration", "status.present", "status.restartTime", "status.startTime"),
    ),
    "cronjobs.batch.volcano.sh": tuple(
        f"spec.jobTemplate.spec.{name}"
        for name in ("activeDeadlineSeconds", "restartBackoff", "suspend", "ttlSecondsAfterAborted")
    ),
    "jobtemplates.flow.volcano.sh": (
        *("spec.activeDeadlineSeconds", "spec.restartBackoff", "spec.suspend", "spec.ttlSecondsAfterAborted"),
    ),
    "jobflows.flow.volcano.sh": (
        *("spec.cancel", "spec.concurrencyPolicy", "spec.failedFlowsHistoryLimit", "spec.parallelism"),
        *("spec.parameters", "spec.schedule", "spec.startingDeadlineSeconds", "spec.successfulFlowsHistoryLimit"),
        *("spec.suspend", "spec.timeZone", "spec.ttlSecondsAfterFinished"),
        *(
            f"spec.flows[].{name}"
            for name in ("allowFailure", "forEach", "if", "retry", "switch", "template", "timeoutSeconds", "when")
        ),
        *("status.active", "status.completionTime", "status.entries", "status.flowConditions"),
        *("status.lastScheduleTime", "status.nextScheduleTime", "status.observedGeneration"),
        *("status.observedSchedule", "status.retried", "status.scheduleEditTime", "status.startTime"),
        *("status.state.message", "status.state.reason"),
    ),
    "podgroups.scheduling.volcano.sh": (
        *("spec.minTaskPlacement", "spec.minTaskPods", "spec.minTaskResources"),
        *("status.admitted", "status.admittedFor", "status.allocated", "status.backOff"),
    ),
    "queues.scheduling.volcano.sh": (
        *("spec.maxRunningJobs", "status.handled", "status.levels", "status.observedGeneration"),
    ),
}


def render() -> str:
    """Returns the tables as Markdown."""
    return "\n".join(_section(each) for each in crds.all_crds())


def _section(definition: Object) -> str:
    spec = definition["spec"]
    (version,) = spec["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    scope = "" if spec["scope"] == "Namespaced" else ", not in a namespace"
    head = (
        f"## {spec['names']['kind']}\n\n`{spec['group']}/{version['name']}`{scope}. {schema.get('description', '')}\n"
    )
    rows = [row for name in ("spec", "status") if name in schema["properties"] for row in _rows(definition, name)]
    others = schema["properties"].keys() - {"apiVersion", "kind", "metadata", "spec", "status"}
    rows += [row for name in sorted(others) for row in _rows(definition, name)]
    return "\n".join([head, "| field | type | default | who has it | meaning |", "|---|---|---|---|---|", *rows, ""])


def _rows(definition: Object, part: str) -> Iterator[str]:
    """Yields the rows of one part of a kind, such as its spec, without the part itself."""
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    inner = schema["properties"][part]
    if not inner.get("properties"):
        yield _row(definition, part, inner, part in schema.get("required", ()))
    for path, each, required in _fields(inner, part):
        yield _row(definition, path, each, required)


def _fields(schema: Object, path: str) -> Iterator[tuple[str, Object, bool]]:
    """Yields path, schema and whether it is required of every field below a schema."""
    for name, inner in (schema.get("properties") or {}).items():
        below = f"{path}.{name}"
        yield below, inner, name in schema.get("required", ())
        items, values = inner.get("items"), inner.get("additionalProperties")
        yield from _fields(inner, below)
        if items:
            yield from _fields(items, f"{below}[]")
        if isinstance(values, dict):
            yield from _fields(values, f"{below}{{}}")


def _row(definition: Object, path: str, schema: Object, required: bool) -> str:
    name = f"**`{path}`**" if required else f"`{path}`"
    default = f"`{json.dumps(schema['default'])}`" if "default" in schema else ""
    meaning = " ".join(schema.get("description", "").split()).replace("|", "\\|")
    return f"| {name} | {_type(schema)} | {default} | {_owner(definition, path)} | {meaning} |"


def _type(schema: Object) -> str:
    """Returns the type of a field in words."""
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if items := schema.get("items"):
        return f"list of {_type(items)}"
    if isinstance(values := schema.get("additionalProperties"), dict):
        return f"map of {_type(values)}"
    if "anyOf" in schema and "type" not in schema:
        return " or ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    return str(schema.get("type", "any"))


def _owner(definition: Object, path: str) -> str:
    """Returns who has a field beside Penstock: the system of the kind, Kubernetes, or Penstock alone."""
    name, group = definition["metadata"]["name"], definition["spec"]["group"]
    if name == "scheduledjobs.penstock.dev":
        return "Kubernetes" if _of_cron_job(path) else "Penstock"
    system = next((each for suffix, each in _SYSTEMS.items() if group.endswith(suffix)), "Penstock")
    ours = any(path == each or path.startswith((f"{each}.", f"{each}[", f"{each}{{")) for each in _OURS.get(name, ()))
    return "Penstock" if ours else system


def _of_cron_job(path: str) -> bool:
    """Returns True if a batch/v1 CronJob has the field, as the official client knows it."""
    part, _, rest = path.partition(".")
    model = {"spec": client.V1CronJobSpec, "status": client.V1CronJobStatus}.get(part)
    top = rest.partition(".")[0].removesuffix("[]")
    return model is not None and top in model.attribute_map.values()


if __name__ == "__main__":
    generated_docs.write("kinds.md", render())
