"""KEDA's `kubernetes-resource` trigger: a number in a ConfigMap or a Secret."""

import base64
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from penstock.parameters import ParameterError
from penstock.scaler import Connections, Measure, Scaler, Source, SourceError, parameter
from scalers.sources.field_properties import value_of
from scalers.sources.http import extracting
from scalers.sources.kubernetes.each_by_itself import each_by_itself
from workers.api.kinds import CONFIG_MAP, SECRET, Ref
from workers.client.rest import Cluster
from workers.errors import NotFound

_M = (Source.METADATA,)


class KubernetesResource(Scaler):
    """One key of one ConfigMap or Secret of the object's namespace."""

    within: str = parameter(sources=(Source.NAMESPACE,))
    resource_kind: Literal["ConfigMap", "Secret"] = parameter(sources=_M, description="kind of the object that is read")
    resource_name: str = parameter(sources=_M, description="name of the object")
    key: str = parameter(sources=_M, description="key whose entry holds the number")
    format: Literal["number", "json", "yaml"] = parameter(
        "number", sources=_M, description="how the entry is read; YAML up to 256 KB, whose aliases are not followed"
    )
    value_location: str | None = parameter(
        None,
        sources=_M,
        description="[path](json-paths.md) of the number for `json`, a dotted one for `yaml`; required by both",
    )
    value_type: Literal["float64", "int64", "quantity"] = parameter(
        "float64", sources=_M, description="how a plain entry is written"
    )
    target_value: float = parameter(sources=_M, gt=0, description="value that one Job is meant for")
    activation_target_value: float = parameter(0.0, sources=_M, description="the trigger is active above this value")

    @model_validator(mode="after")
    def _located(self) -> Self:
        if (self.format == "number") != (self.value_location is None):
            demand = "has no meaning with" if self.format == "number" else "is required by"
            raise ParameterError("valueLocation", f"{demand} format {self.format}")
        extracting.check(self.format, self.value_location or "")
        return self

    @property
    def metric(self) -> str:
        """KEDA's name."""
        return f"{self.resource_kind.lower()}-{self.resource_name}-{self.key}"

    target: ClassVar[float] = value_of("target_value")
    activation: ClassVar[float] = value_of("activation_target_value")
    server: ClassVar[str] = "the API server"

    @property
    def ref(self) -> Ref:
        """The ConfigMap or Secret."""
        return Ref(CONFIG_MAP if self.resource_kind == "ConfigMap" else SECRET, self.within, self.resource_name)

    @classmethod
    async def read(cls, scalers: Sequence[Self], connections: Connections) -> Sequence[float | Measure | Exception]:
        """Reads each object once, side by side."""
        cluster = connections.cluster
        if cluster is None:
            raise SourceError("there is no cluster to ask here")
        refs = list(dict.fromkeys(scaler.ref for scaler in scalers))
        data = dict(zip(refs, await each_by_itself(partial(_data, cluster), refs), strict=True))
        return [scaler.number(data[scaler.ref]) for scaler in scalers]

    def number(self, data: dict[str, str] | SourceError | None) -> float | Exception:
        """Returns the number at the key, or a SourceError, which never quotes the value: it may be secret."""
        if isinstance(data, SourceError):
            return data
        if data is None:
            return SourceError(f"{self.ref} does not exist")
        if self.key not in data:
            return SourceError(f"{self.ref} has no key {self.key}")
        try:
            return self._read(data[self.key])
        except SourceError as error:
            return SourceError(f"{self.ref}: {self.key}: {error}")
        # Whatever else a parser raises for a value is that value's fault, and no other object's.
        except (ArithmeticError, ValueError, RecursionError):
            return SourceError(f"{self.ref}: {self.key}: it cannot be read")

    def _read(self, entry: str) -> float:
        body = base64.b64decode(entry) if self.resource_kind == "Secret" else entry.encode()
        if self.value_location is not None:
            read = extracting.from_json if self.format == "json" else extracting.from_yaml
            value = read(body, self.value_location)
        elif self.value_type == "quantity":
            value = extracting.number(body.decode(errors="replace"), self.key)
        else:
            value = self._plain(body.decode(errors="replace").strip())
        if value is None:
            raise SourceError("it is null")
        return value

    def _plain(self, text: str) -> float | None:
        try:
            return extracting.number(int(text) if self.value_type == "int64" else float(text), self.key)
        except ValueError:
            raise SourceError(f"it is no number of type {self.value_type}") from None


async def _data(cluster: Cluster, ref: Ref) -> dict[str, str] | None:
    """Returns the entries of a ConfigMap or Secret, None if it does not exist. Raises SourceError, ClusterError."""
    try:
        body: Any = await cluster.get(ref)
        return body.get("data") or {}
    except NotFound:
        return None
    except AttributeError:
        raise SourceError(f"the API server: what it answers for {ref} is no object") from None
