"""What a server's configuration means for wake-ups."""

import pytest

from scalers.wakeups.redis_listener import judge

WISH = "with Klszhtg pushes would be seen at once"


@pytest.mark.parametrize(
    ("flags", "verdict", "detail"),
    [
        pytest.param("AK", "on", None, id="all"),
        pytest.param("AKE", "on", None, id="all and the other channel"),
        pytest.param("Klszhtg", "on", None, id="what we wish"),
        pytest.param("Klszht", "on", None, id="without generic commands"),
        pytest.param("Kl", "on", "'Kl'; with Klszhtg pushes to every kind of key would be seen", id="lists only"),
        pytest.param("Kt", "on", "'Kt'; with Klszhtg pushes to every kind of key would be seen", id="streams only"),
        pytest.param("", "off", f"''; {WISH}", id="none"),
        pytest.param("AE", "off", f"'AE'; {WISH}", id="the other channel only"),
        pytest.param("Kg", "off", f"'Kg'; {WISH}", id="generic commands only"),
    ],
)
def test_flags_are_judged(flags: str, verdict: str, detail: str | None) -> None:
    assert judge(flags) == (verdict, detail and f"notify-keyspace-events is {detail}")
