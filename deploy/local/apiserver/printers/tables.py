"""Tables: objects as rows, in the columns of their kind or of their CustomResourceDefinition."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from deploy.local.apiserver.printers import ages, jsonpath
from deploy.local.apiserver.printers import columns as layouts
from workers.api.kinds import Kind, Object


def table(
    kind: Kind,
    objects: Sequence[Object],
    *,
    now: datetime,
    columns: Iterable[Object] | None,
    resource_version: str,
    include: Literal["Metadata", "Object", "None"] | str,
) -> Object:
    """The meta.k8s.io/v1 Table of some objects of one kind.

    columns: the `additionalPrinterColumns` of a custom resource's version, None for built-in kinds and for custom
    resources that have none. include: what each row says of its object.
    """
    layout = _custom(list(columns)) if columns else layouts.of(kind)
    rows = []
    for body in objects:
        row: Object = {"cells": layout.cells(body, now)}
        if include == "Object":
            row["object"] = body
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": body["metadata"],
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": resource_version} if resource_version else {},
        "columnDefinitions": list(layout.definitions),
        "rows": rows,
    }


def _custom(columns: list[Object]) -> layouts.ColumnLayout:
    definitions = [
        layouts.column(
            item["name"],
            item["type"],
            item.get("description") or f"The value at {item['jsonPath']}.",
            form=item.get("format", ""),
            priority=item.get("priority", 0),
        )
        for item in columns
    ]

    def cells(body: Object, now: datetime) -> list[Any]:
        return [body["metadata"]["name"], *(_cell(item, body, now) for item in columns)]

    return layouts.ColumnLayout((layouts.PLAIN.definitions[0], *definitions), cells)


def _cell(column: Object, body: Object, now: datetime) -> Any:
    """The value of a custom column; null when there is none or it is not of the column's type."""
    values = jsonpath.find(column["jsonPath"], body)
    if not values:
        return None
    value = values[0]
    match column["type"]:
        case "date":
            return ages.age(value, now) if isinstance(value, str) else None
        case "integer":
            return value if isinstance(value, int) and not isinstance(value, bool) else None
        case "number":
            return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case _:
            text = ",".join(str(item) for item in values)
            return text.lower() if isinstance(value, bool) else text
