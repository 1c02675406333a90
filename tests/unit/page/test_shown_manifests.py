"""Manifests: secrets are masked, everything else is as it is in the object."""

import yaml

from deploy.page.answers import shown_manifests
from tests.support.tables import cases
from workers.api.kinds import JOB, SECRET, Object

MASK = shown_manifests.MASK


def variables(**env: str) -> Object:
    return {"env": [{"name": name, "value": value} for name, value in env.items()]}


@cases(
    ("a password", variables(DB_PASSWORD="hunter2"), variables(DB_PASSWORD=MASK)),
    ("only the secret", variables(API_TOKEN="t", DAY="x"), variables(API_TOKEN=MASK, DAY="x")),
    ("an access key", variables(AWS_SECRET_ACCESS_KEY="t"), variables(AWS_SECRET_ACCESS_KEY=MASK)),
    ("nothing to mask", variables(EMPTY_TOKEN=""), variables(EMPTY_TOKEN="")),
    (
        "a password in an address",
        variables(BROKER="redis://user:hunter2@host:6379/0"),
        variables(BROKER=f"redis://user:{MASK}@host:6379/0"),
    ),
    ("in an argument", {"args": ["amqp://a:b@c/"]}, {"args": [f"amqp://a:{MASK}@c/"]}),
    ("a field of a trigger", {"metadata": {"password": "x"}}, {"metadata": {"password": MASK}}),
    ("the name of a variable", {"passwordFromEnv": "X"}, {"passwordFromEnv": "X"}),
    (
        "a reference to a Secret",
        {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        {"valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
    ),
    ("the name of a Secret", {"secretName": "tls"}, {"secretName": "tls"}),
    ("ordinary words", {"tokens": 3, "key": "orders"}, {"tokens": 3, "key": "orders"}),
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
