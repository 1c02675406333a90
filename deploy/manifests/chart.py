"""The generator of what chart and kustomization contain of other files: rights, CRDs, alerting rules, dashboards.

``python -m deploy.manifests.chart``. A chart can contain only files of its own folder, so these are copies; a test
keeps them in step. The schema of the chart's values is written by hand but for the settings, which are those of
`workers.settings`.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from deploy.grafana import boards, dashboard
from deploy.manifests import process_rules, rbac, volcano
from deploy.manifests.roles import ProcessRules, Rules, role, text
from workers.api import crds
from workers.api.kinds import Object
from workers.settings import Settings

DEPLOY = Path(__file__).parents[1]
CHART, KUSTOMIZE = Path("helm/penstock"), Path("kustomize")
HEADER = "# Made by `python -m deploy.manifests.chart`; a test keeps it in step.\n"

#: Settings that values of the chart have under other names, or that only `penstock up` and other commands read.
ELSEWHERE = frozenset(
    (
        *("broker", "kubeconfig", "context", "own_namespace", "namespaces", "volcano", "health", "metrics_port"),
        *("gateway", "gateway_drain", "tls_cert", "tls_key", "webhook_listen", "webhook_service", "webhook_drain"),
        *("external_listen", "external_triggers", "external_cert", "external_key", "external_clients"),
        *("home", "pods", "images", "isolation", "nodes", "cpus", "memory", "gpus", "node_labels", "pod_addresses"),
    )
)
#: The placements that the kustomization has, by the folder of their rights.
PLACEMENTS: Mapping[str, rbac.Placement] = {
    "all-namespaces": rbac.DEFAULT,
    "namespaces": rbac.Placement(namespaces=("team-a", "team-b")),
    "standalone": rbac.Placement(processes=rbac.STANDALONE),
}


def files() -> dict[Path, str]:
    """Returns the text of each file by its path in deploy/."""
    made = {CHART / "files" / "rights.yaml": HEADER + _yaml(_rights())}
    made |= {CHART / "files" / "crds" / name: text for name, text in crds.files().items()}
    made[CHART / "files" / "prometheus-rules.yaml"] = HEADER + _yaml({"groups": _groups()})
    made[KUSTOMIZE / "components" / "monitoring" / "rules.yaml"] = HEADER + _yaml(_prometheus_rule())
    for board in boards.BOARDS:
        made[CHART / "files" / "dashboards" / f"{board.uid}.json"] = dashboard.render(board)
    for name, placement in PLACEMENTS.items():
        found = [each for each in rbac.documents(placement=placement) if each["kind"] != "Namespace"]
        made[KUSTOMIZE / "rights" / name / "rights.yaml"] = HEADER + text(found)
    accounts = [each for each in rbac.documents() if each["kind"] == "ServiceAccount"]
    made[KUSTOMIZE / "rights" / "none" / "accounts.yaml"] = HEADER + text(accounts)
    # Its Service is written by hand beside the webhook's Deployment.
    of_volcano = [each for each in volcano.documents() if each["kind"] != "Service"]
    made[KUSTOMIZE / "components" / "volcano" / "rights.yaml"] = HEADER + text(of_volcano)
    made[CHART / "values.schema.json"] = _schema(DEPLOY / CHART / "values.schema.json")
    return made


def _rights() -> Object:
    """Returns the rules as the chart's templates read them."""
    return {
        "processes": {each: _parts(process_rules.rules_of(each)) for each in process_rules.PROCESSES},
        "volcano": {
            each: parts for each in process_rules.PROCESSES if (parts := _parts(process_rules.volcano_rules_of(each)))
        },
        "secrets": _rules(process_rules.secrets().everywhere),
        "tokens": _rules(process_rules.tokens().everywhere),
        "ssh": _rules(process_rules.key_pairs().everywhere),
        "people": {each["metadata"]["name"].removeprefix("penstock-"): each["rules"] for each in rbac.people()},
    }


def _parts(rules: ProcessRules) -> dict[str, list[Object]]:
    parts = {"namespaced": rules.namespaced, "cluster": rules.cluster, "own": rules.own}
    return {name: _rules(each) for name, each in parts.items() if each}


def _rules(rules: Rules) -> list[Object]:
    listed: list[Object] = role("Role", {}, rules)["rules"]
    return listed


def _groups() -> list[Object]:
    files = sorted((DEPLOY / "prometheus").glob("*.yaml"))
    return [group for file in files for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]]


def _prometheus_rule() -> Object:
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "penstock"},
        "spec": {"groups": _groups()},
    }


def _schema(file: Path) -> str:
    """Returns the schema in the file with the settings of today."""
    schema = json.loads(file.read_text(encoding="utf-8"))
    schema["properties"]["settings"]["properties"] = dict(_settings())
    return json.dumps(schema, indent=2) + "\n"


def _settings() -> Iterator[tuple[str, Object]]:
    properties = Settings.model_json_schema()["properties"]
    for name in sorted(set(properties) - ELSEWHERE):
        kept = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "description")
        found: dict[str, Any] = {key: properties[name][key] for key in kept if key in properties[name]}
        if found.get("type") == "array":
            found["type"] = ["array", "string"]
        elif "type" not in found:
            # A path or nothing.
            found["type"] = "string"
        yield name, found


def _yaml(content: Object) -> str:
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=120)


def main() -> None:
    """Writes the files into deploy/, or into the folder that the command line names."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEPLOY
    for path, content in files().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
