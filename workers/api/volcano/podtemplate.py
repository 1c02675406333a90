"""The shape of a pod template, as far as pods are put together from it. All else in it is an API server's to judge.

A cluster without the webhook stores templates of any shape; a template that cannot be read is refused here.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, ValidationError

from penstock import _wording
from workers.api import quantities
from workers.api.model import Items, Model


def _quantity(value: str | int | float) -> str | int | float:
    quantities.parse(str(value))
    return value


_Amounts = dict[str, Annotated[str | int | float, AfterValidator(_quantity)]]
_Things = Items[dict[str, Any]]


class _Resources(Model):
    limits: _Amounts | None = None
    requests: _Amounts | None = None


class _Named(Model):
    name: str


class _Container(Model):
    name: str | None = None
    env: Items[_Named] | None = None
    ports: _Things | None = None
    volume_mounts: _Things | None = None
    resources: _Resources | None = None
    restart_policy: str | None = None


class _PodAffinity(Model):
    required_during_scheduling_ignored_during_execution: _Things | None = None
    preferred_during_scheduling_ignored_during_execution: _Things | None = None


class _Affinity(Model):
    pod_affinity: _PodAffinity | None = None


class _PodSpec(Model):
    containers: Items[_Container] | None = None
    init_containers: Items[_Container] | None = None
    volumes: _Things | None = None
    overhead: _Amounts | None = None
    resources: _Resources | None = None
    affinity: _Affinity | None = None
    hostname: str | None = None
    subdomain: str | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None


class _Metadata(Model):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: Items[str] | None = None


class _Template(Model):
    metadata: _Metadata | None = None
    spec: _PodSpec | None = None


def readable(template: dict[str, Any]) -> dict[str, Any]:
    """The template itself. Raises ValueError that names every place where it has another shape than a pod template."""
    try:
        _Template.model_validate(template)
    except ValidationError as error:
        found = [f"{'.'.join(map(str, each.path))}: {each.message}" for each in _wording.findings(error)]
        raise ValueError("; ".join(found)) from None
    return template
