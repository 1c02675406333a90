"""What a server's configuration means for wake-ups."""

from scalers.wakeups.redis_listener import judge
from tests.support.tables import cases

WISH = "with Klszhtg pushes would be seen at once"


@cases(
    ("all", "AK", "on", None),
    ("all and the other channel", "AKE", "on", None),
    ("what we wish", "Klszhtg", "on", None),
    ("without generic commands", "Klszht", "on", None),
    ("lists only", "Kl", "on", "'Kl'; with Klszhtg pushes to every kind of key would be seen"),
    ("streams only", "Kt", "on", "'Kt'; with Klszhtg pushes to every kind of key would be seen"),
    ("none", "", "off", f"''; {WISH}"),
    ("the other channel only", "AE", "off", f"'AE'; {WISH}"),
    ("generic commands only", "Kg", "off", f"'Kg'; {WISH}"),
)
def test_flags_are_judged(flags: str, verdict: str, detail: str | None) -> None:
    assert judge(flags) == (verdict, detail and f"notify-keyspace-events is {detail}")
