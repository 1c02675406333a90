"""Writes deploy/broker.acl, the user of the broker with the least rights: ``python -m deploy.broker_acl``."""

from pathlib import Path

from scheduler.broker import permissions

FILE = Path(__file__).parent / "broker.acl"


def render() -> str:
    """Returns the file, one line as the server's `aclfile` has it. The password is to be replaced."""
    return " ".join(("user penstock on >CHANGE-ME", *permissions.rules())) + "\n"


if __name__ == "__main__":
    FILE.write_text(render())
