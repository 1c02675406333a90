"""`penstock.dev/v1alpha1` ScalePolicy as a typed model: how many Jobs several ScaledJobs may have together."""

from typing import Annotated, Literal

from pydantic import Field

from workers.api import model
from workers.api.keda.scaledjob import Natural, Text
from workers.api.kinds import SCALE_POLICY, Object
from workers.api.model import Items, Model


class Requirement(Model):
    """One requirement of a label selector."""

    key: Text
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: Items[str] | None = None


class Selector(Model):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: Items[Requirement] | None = None


class ScalePolicySpec(Model):
    """Whose Jobs are counted together, and how many of them there may be."""

    max_jobs: Natural
    """Most unfinished Jobs of all covered ScaledJobs together."""
    selector: Selector | None = None
    """Labels of the ScaledJobs that are covered; default all."""
    namespaces: Items[Text] | None = None
    """Namespaces of the ScaledJobs that are covered; default all."""
    group_by: Annotated[str, Field(min_length=1)] | None = None
    """A label: the limit is for each of its values by itself; ScaledJobs without it are one group."""


class ScalePolicyMetadata(Model):
    """The part of the metadata that decisions use."""

    name: str
    uid: str = ""
    generation: int = 0


class ScalePolicyStatus(Model):
    """Nothing is written back: how a policy is used stands in the ScaledJobs' conditions."""


class ScalePolicy(Model):
    """One ScalePolicy."""

    metadata: ScalePolicyMetadata
    spec: ScalePolicySpec


def parse(body: Object) -> ScalePolicy:
    """The typed form of a ScalePolicy. Raises UserError that names the object and every field that is wrong."""
    return model.parse(ScalePolicy, SCALE_POLICY, body)
