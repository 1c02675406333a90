"""The alerting and recording rules in deploy/prometheus."""

from typing import Any

import yaml

from tests.support.paths import ROOT

FILES = sorted((ROOT / "deploy" / "prometheus").glob("*.yaml"))
RULES: list[dict[str, Any]] = [
    rule for file in FILES for group in yaml.safe_load(file.read_text())["groups"] for rule in group["rules"]
]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
