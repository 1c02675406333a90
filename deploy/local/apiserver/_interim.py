# mypy: ignore-errors
import copy


class Schema:
    def decode(self, body, *, strict):
        return copy.deepcopy(body), []

    def default(self, body):
        return body

    def validate(self, body):
        return []


class Strategy:
    generation = True

    def __init__(self, kind):
        self.kind = kind

    def prepare_create(self, body, now):
        body.pop("status", None)
        if self.kind.kind == "Namespace":
            body["spec"] = {"finalizers": ["kubernetes"]}
            body["status"] = {"phase": "Active"}
        if self.kind.kind == "Pod":
            body["status"] = {"phase": "Pending"}
        if "spec" in body:
            body["metadata"]["generation"] = 1
        return body

    def validate_create(self, body):
        return []

    def prepare_update(self, new, old):
        new = {**new}
        if "status" in old:
            new["status"] = old["status"]
        if new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return new

    def validate_update(self, new, old):
        return []

    def prepare_status(self, new, old):
        return {**old, "status": new.get("status", {})}

    def validate_status(self, new, old):
        return []

    def warnings(self, body):
        return []


class strategies:
    Strategy = Strategy

    @staticmethod
    def strategy(kind, crd=None):
        return Strategy(kind)


class schema:
    Schema = Schema

    @staticmethod
    def builtin(kind):
        return Schema()

    @staticmethod
    def custom(version):
        return Schema()


class tables:
    @staticmethod
    def table(kind, objects, *, now, columns, resource_version, include):
        return {
            "kind": "Table",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": {"resourceVersion": resource_version},
            "columnDefinitions": [
                {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}
            ],
            "rows": [
                {
                    "cells": [o["metadata"]["name"]],
                    "object": {
                        "kind": "PartialObjectMetadata",
                        "apiVersion": "meta.k8s.io/v1",
                        "metadata": o["metadata"],
                    },
                }
                for o in objects
            ],
        }
