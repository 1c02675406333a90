"""Manifests: secrets are masked, everything else is as it is in the object."""

import pytest
import yaml

from deploy.page.answers import shown_manifests
from workers.api.kinds import JOB, SECRET, Object

MASK = shown_manifests.MASK


def variables(**env: str) -> Object:
    return {"env": [{"name": name, "value": value} for name, value in env.items()]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(variables(DB_PASSWORD="hunter2"), variables(DB_PASSWORD=MASK), id="a password"),
        pytest.param(variables(API_TOKEN="t", DAY="x"), variables(API_TOKEN=MASK, DAY="x"), id="only the secret"),
        pytest.param(variables(AWS_SECRET_ACCESS_KEY="t"), variables(AWS_SECRET_ACCESS_KEY=MASK), id="an access key"),
        pytest.param(variables(EMPTY_TOKEN=""), variables(EMPTY_TOKEN=""), id="nothing to mask"),
        pytest.param(
            variables(BROKER="redis://user:hunter2@host:6379/0"),
            variables(BROKER=f"redis://user:{MASK}@host:6379/0"),
            id="a password in an address",
        ),
        pytest.param({"args": ["amqp://a:b@c/"]}, {"args": [f"amqp://a:{MASK}@c/"]}, id="in an argument"),
        pytest.param({"metadata": {"password": "x"}}, {"metadata": {"password": MASK}}, id="a field of a trigger"),
        pytest.param({"passwordFromEnv": "X"}, {"passwordFromEnv": "X"}, id="the name of a variable"),
        pytest.param(
            {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
            id="a reference to a Secret",
        ),
        pytest.param({"secretName": "tls"}, {"secretName": "tls"}, id="the name of a Secret"),
        pytest.param({"tokens": 3, "key": "orders"}, {"tokens": 3, "key": "orders"}, id="ordinary words"),
    ],
)
def test_values_of_secretive_names_are_masked(value: Object, expected: Object) -> None:
    assert shown_manifests.masked(value) == expected


def test_bookkeeping_and_data_of_secrets_are_left_out() -> None:
    metadata = {
        "name": "it",
        "managedFields": [{}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
    }
    text = shown_manifests.text(JOB, {"kind": "Job", "metadata": metadata, "spec": {"parallelism": 2}})
    assert yaml.safe_load(text) == {
        "kind": "Job",
        "metadata": {"name": "it", "annotations": {"note": "kept"}},
        "spec": {"parallelism": 2},
    }
    secret = {
        "kind": "Secret",
        "metadata": {"name": "it"},
        "data": {"a": "aHVudGVyMg=="},
        "stringData": {"b": "hunter2"},
    }
    assert yaml.safe_load(shown_manifests.text(SECRET, secret)) == {"kind": "Secret", "metadata": {"name": "it"}}
