"""`penstock.dev/v1alpha1` ScalePolicy as a typed model: a limit on the Jobs of several ScaledJobs together."""

from typing import Annotated, Literal

from pydantic import Field

from workers.api import model
from workers.api.kinds import SCALE_POLICY, Object
from workers.api.model import Items, Model, Natural, Text


class Requirement(Model):
    """One requirement of a label selector."""

    key: Text
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """In, NotIn, Exists or DoesNotExist."""
    values: Items[str] | None = None
    """Values of In and NotIn."""


class Selector(Model):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    """Labels that must have these values."""
    match_expressions: Items[Requirement] | None = None
    """Requirements, all of which must hold."""


class ScalePolicySpec(Model):
    """The ScaledJobs whose Jobs are counted together, and the limit."""

    max_jobs: Natural
    """Most unfinished Jobs of all covered ScaledJobs together."""
    selector: Selector | None = None
    """Labels of the ScaledJobs that are covered; default all."""
    namespaces: Items[Text] | None = None
    """Namespaces of the ScaledJobs that are covered; default all."""
    group_by: Annotated[str, Field(min_length=1)] | None = None
    """A label: each of its values has the limit by itself; ScaledJobs without it are one group."""


class ScalePolicyMetadata(Model):
    """The part of the metadata that decisions use."""

    name: str
    uid: str = ""
    generation: int = 0


class ScalePolicyStatus(Model):
    """Empty: the conditions of the ScaledJobs show the effect of a policy."""


class ScalePolicy(Model):
    """One ScalePolicy."""

    metadata: ScalePolicyMetadata
    spec: ScalePolicySpec


def parse(body: Object) -> ScalePolicy:
    """Returns the typed form of a ScalePolicy. Raises UserError that names every malformed field."""
    return model.parse(ScalePolicy, SCALE_POLICY, body)
