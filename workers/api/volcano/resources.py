"""Lists of resources in manifests: by name, how much of it."""

from typing import Annotated

from pydantic import WithJsonSchema

#: A Kubernetes quantity: ``2``, ``"500m"``, ``"1Gi"``. What a schema cannot say is checked in workers/admission.
Quantity = Annotated[int | str, WithJsonSchema({"x-kubernetes-int-or-string": True})]
Resources = dict[str, Quantity]
