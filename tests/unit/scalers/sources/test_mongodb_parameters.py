"""What the `mongodb` trigger accepts and refuses."""

from penstock.parameters import Trigger
from scalers.sources.databases.mongodb import MongoDB
from tests.support.tables import cases

METADATA = {"collection": "jobs", "query": "{}", "queryValue": "5", "dbName": "shop"}
GOOD = Trigger(1, "mongodb", metadata=METADATA, authentication={"connectionString": "mongodb://u:hush-hush@a:1/x"})
PARTS = {"host": "a", "port": "1", "username": "u"}


def of(authentication: dict[str, str], **metadata: str) -> Trigger:
    return Trigger(1, "mongodb", metadata={**METADATA, **metadata}, authentication=authentication)


@cases(
    ("a connection string", GOOD, "a:1", "mongodb://u:hush-hush@a:1/x"),
    ("parts", of({"password": "p/@:"}, **PARTS), "a:1", "mongodb://u:p%2F%40%3A@a:1/shop"),
    (
        "parts of a name that is looked up",
        of({"password": "p"}, scheme="mongodb+srv", host="a.b.c", username="u"),
        "a.b.c",
        "mongodb+srv://u:p@a.b.c/shop",
    ),
)
def test_where_it_is(trigger: Trigger, name: str, uri: str) -> None:
    parsed = MongoDB.parse(trigger)
    assert (parsed.server.name, parsed.server.uri) == (name, uri)
    assert (parsed.metric, parsed.target, parsed.activation) == ("mongodb-jobs", 5, 0)
    assert "hush" not in f"{parsed!r} {parsed.server} {parsed.server!r}"
