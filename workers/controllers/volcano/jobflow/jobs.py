"""The manifests of a flow's Jobs, with patches and variables, and the Commands that end Jobs."""

from collections.abc import Mapping
from typing import Any

from workers.api.kinds import COMMAND, JOB_FLOW, VC_JOB, Object, owner_reference
from workers.api.names import fitting_labels
from workers.api.references import CREATED_BY_TEMPLATE
from workers.api.volcano.jobflow import CREATED_BY_FLOW
from workers.flows import flow_expressions
from workers.flows.flow_expressions import FlowScope
from workers.flows.flow_nodes import FlowNode


def build(flow: Object, node: FlowNode, name: str, template: Object, scope: FlowScope) -> Object:
    """Returns a Job's manifest. Raises UserError for a patch that references an unknown name."""
    namespace = flow["metadata"]["namespace"]
    marks = {
        CREATED_BY_TEMPLATE: f"{namespace}.{node.entry.source}",
        CREATED_BY_FLOW: f"{namespace}.{flow['metadata']['name']}",
    }
    spec = template["spec"]
    if node.entry.patch and node.entry.patch.job_spec:
        spec = patched(spec, flow_expressions.filled(node.entry.patch.job_spec, scope))
    if variables := _variables(scope):
        spec = _with_variables(spec, variables)
    return {
        "apiVersion": VC_JOB.api_version,
        "kind": VC_JOB.kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            # Longer values are no labels; the annotation has them in any case.
            "labels": fitting_labels(marks),
            "annotations": marks,
            "ownerReferences": [owner_reference(JOB_FLOW, flow)],
        },
        "spec": spec,
    }


def end(flow: Object, job: Object, why: str) -> Object:
    """Returns the Command that terminates a Job. Its name makes repeated creation harmless."""
    metadata = job["metadata"]
    return {
        "apiVersion": COMMAND.api_version,
        "kind": COMMAND.kind,
        "metadata": {
            "name": f"{metadata['name']}-terminatejob",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(JOB_FLOW, flow)],
        },
        "action": "TerminateJob",
        "target": owner_reference(VC_JOB, job),
        "reason": why,
    }


def _variables(scope: FlowScope) -> dict[str, str]:
    """Returns the environment variables of every container: parameters, and the item."""
    found = {f"FLOW_{name}": value for name, value in scope.parameters.items()}
    if scope.index is not None:
        found |= {"FLOW_ITEM": scope.item or "", "FLOW_INDEX": str(scope.index)}
    return found


def _with_variables(spec: Object, variables: Mapping[str, str]) -> Object:
    tasks = spec.get("tasks")
    return {**spec, "tasks": [_task(task, variables) for task in tasks]} if isinstance(tasks, list) else spec


def _task(task: Any, variables: Mapping[str, str]) -> Any:
    """Returns a task with variables in its containers; malformed parts stay: the Job is refused for them."""
    template = _object(_object(task).get("template"))
    found = _object(template.get("spec"))
    containers = {
        key: [_container(each, variables) for each in found[key]]
        for key in ("initContainers", "containers")
        if isinstance(found.get(key), list)
    }
    return {**task, "template": {**template, "spec": {**found, **containers}}} if containers else task


def _container(container: Any, variables: Mapping[str, str]) -> Any:
    own = _object(container).get("env") or []
    if not isinstance(container, dict) or not isinstance(own, list):
        return container
    there = [_object(each).get("name") for each in own]
    # Prepended: a variable may refer to those before it.
    added = [{"name": name, "value": value} for name, value in variables.items() if name not in there]
    return {**container, "env": [*added, *own]}


def _object(value: Any) -> Object:
    return value if isinstance(value, dict) else {}


def patched(base: Any, patch: Any) -> Any:
    """Returns the base with a patch applied; neither is modified.

    Objects are merged by field, and None removes a field. Lists of named objects (tasks, containers, variables) are
    merged by name; other lists are replaced.
    """
    if isinstance(patch, dict):
        return _patched_object(base if isinstance(base, dict) else {}, patch)
    if _is_named_list(patch) and _is_named_list(base):
        return _patched_list(base, patch)
    return patch


def _patched_object(base: Object, patch: Object) -> Object:
    result = {key: value for key, value in base.items() if key not in patch}
    changed = {key: patched(base.get(key), value) for key, value in patch.items() if value is not None}
    return {key: changed.get(key, result.get(key)) for key in (*base, *changed) if key in changed or key in result}


def _patched_list(base: list[Object], patch: list[Object]) -> list[Object]:
    changes = {each["name"]: each for each in patch}
    there = {each["name"] for each in base}
    kept = [patched(each, changes[each["name"]]) if each["name"] in changes else each for each in base]
    return kept + [patched({}, each) for each in patch if each["name"] not in there]


def _is_named_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(_object(each).get("name"), str) for each in value)
