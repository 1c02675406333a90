"""The rules as files that Prometheus loads, and that `PrometheusRule` objects take in `spec`."""

from typing import Any

import yaml

from deploy.prometheus import alerting_rules

#: The first line of each file.
MADE = "# Made by `python -m deploy.prometheus`; a test keeps it in step with deploy/prometheus/alerting_rules.py.\n"


def render() -> dict[str, str]:
    """Returns the text of each file by its name."""
    recorded = [{"record": each.name, "expr": each.expression} for each in alerting_rules.RECORDED]
    alerts = [_alert(each) for each in alerting_rules.ALERTS]
    return {
        "penstock-recording-rules.yaml": _text("penstock.recording", recorded),
        "penstock-alerts.yaml": _text("penstock.alerts", alerts),
    }


def _alert(alert: alerting_rules.AlertRule) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.lasting,
        "labels": {"severity": alert.severity},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "runbook": f"docs/runbooks/{alert.name}.md",
        },
    }


def _text(group: str, rules: list[dict[str, Any]]) -> str:
    content = {"groups": [{"name": group, "rules": rules}]}
    return MADE + yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=2**16)
