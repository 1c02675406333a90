"""The pods that the manifests ask for: their settings, commands, ports, probes, and the restrictions they keep to."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.cli.main import LISTED
from tests.support import rendered
from tests.support.helm import Helm, HelmError
from tests.support.paths import ROOT
from tests.support.tables import cases
from workers.controllers import registry
from workers.decision.followed_kinds import followed
from workers.settings import Settings

#: Choices of the chart that no overlay has.
MORE: dict[str, dict[str, Any]] = {
    "every setting of values": {
        **rendered.EXTERNAL,
        "settings": {"polling": 1_000_000, "keda_quirks": ["missing-secrets", "bare-user-names"]},
        "gateway": {"tls": {"existingSecret": "tls"}},
        "namespaces": ["team"],
    },
    "beside, with a context": {
        **rendered.EXTERNAL,
        "kubeconfig": {"existingSecret": "other", "context": "prod", "namespace": "system"},
    },
    "standalone with Volcano": {
        **rendered.EXTERNAL,
        "mode": "standalone",
        "volcano": {"enabled": True},
        "settings": {"policies": True},
    },
}


@pytest.fixture(scope="module", params=[*rendered.OVERLAYS, *MORE])
def objects(request: pytest.FixtureRequest, chart: Helm) -> list[dict[str, Any]]:
    """The objects of each choice in turn."""
    return chart.template({**rendered.OVERLAYS, **MORE}[request.param])


def variables(objects: list[dict[str, Any]]) -> dict[str, str]:
    """The variables of all pods; those from elsewhere without their values."""
    found: dict[str, str] = {}
    for each in objects:
        if each["kind"] == "ConfigMap" and each["metadata"]["name"].startswith("penstock-settings"):
            found |= each["data"]
    for template in rendered.pods(objects).values():
        for container in template["spec"]["containers"]:
            found |= {each["name"]: each.get("value", "") for each in container.get("env", ())}
    return found


def settings(objects: list[dict[str, Any]]) -> Settings:
    """The settings of the processes."""
    given = {name.removeprefix("PENSTOCK_").lower(): value for name, value in variables(objects).items()}
    # The setting comes with the processes' health.
    assert not set(given) - set(Settings.model_fields) - {"health"}
    return Settings(**{name: value for name, value in given.items() if value and name in Settings.model_fields})


def test_every_variable_is_a_setting_with_a_value_that_it_takes(objects) -> None:
    assert settings(objects)


def test_the_informers_may_list_every_kind_that_their_settings_have_them_follow(objects) -> None:
    kinds = followed(registry.configured(settings(objects)))
    listed = {
        (each["kind"], group, resource)
        for each in objects
        if each["metadata"]["name"].startswith(("penstock-watch", "penstock-standalone")) and "rules" in each
        for rule in each["rules"]
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    if not any("rules" in each for each in objects):
        return  # They are those of another cluster.
    everywhere = {(group, resource) for role, group, resource in listed if role == "ClusterRole"}
    somewhere = {(group, resource) for _, group, resource in listed}
    names = {kind: (kind.group, kind.plural) for kind in kinds}
    assert {name for kind, name in names.items() if name not in (somewhere if kind.namespaced else everywhere)} == set()


def test_every_container_starts_a_command_of_penstock(objects) -> None:
    for name, template in rendered.pods(objects).items():
        container = template["spec"]["containers"][0]
        if container["name"] != "penstock":
            continue
        # The command comes with the process itself.
        process = container["args"][0]
        assert process in LISTED
        assert name == f"penstock-{process}"
        assert template["spec"]["serviceAccountName"] == name


def test_ports_are_those_that_the_settings_name(objects) -> None:
    given = variables(objects)
    for name, template in rendered.pods(objects).items():
        ports = {each["name"]: each["containerPort"] for each in template["spec"]["containers"][0]["ports"]}
        wanted = {
            "health": int(given["PENSTOCK_HEALTH"].rpartition(":")[2]),
            "metrics": int(given["PENSTOCK_METRICS_PORT"]),
            "http": int(given["PENSTOCK_GATEWAY"].rpartition(":")[2]),
            "https": int(given.get("PENSTOCK_WEBHOOK_LISTEN", ":0").rpartition(":")[2]),
            "redis": 6379,
        }
        assert ports.items() <= wanted.items(), name
        assert ("metrics" in ports) == (name not in ("penstock-beat", "penstock-redis"))


def test_probes_ask_what_the_processes_serve(objects) -> None:
    for name, template in rendered.pods(objects).items():
        container = template["spec"]["containers"][0]
        if container["name"] != "penstock":
            continue
        probes = {each: container[each]["httpGet"] for each in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert {each: probe["path"] for each, probe in probes.items()} == {
            "startupProbe": "/healthz",
            "livenessProbe": "/healthz",
            "readinessProbe": "/readyz",
        }
        gateway = name == "penstock-gateway"
        # One with all the connections that it takes is to get no more of them, and not to be restarted.
        assert {each: probe["port"] for each, probe in probes.items()} == {
            "startupProbe": "health",
            "livenessProbe": "health",
            "readinessProbe": "http" if gateway else "health",
        }
        tls = gateway and variables(objects).get("PENSTOCK_TLS_CERT")
        schemes = {each: probe["scheme"] for each, probe in probes.items() if "scheme" in probe}
        assert schemes == ({"readinessProbe": "HTTPS"} if tls else {})


def test_names_that_objects_use_are_objects_of_the_same_installation(objects) -> None:
    """Services reach pods, budgets and policies select them, and ports that are named exist."""
    pods = rendered.pods(objects)
    labels = [template["metadata"]["labels"] for template in pods.values()]
    accounts = {each["metadata"]["name"] for each in objects if each["kind"] == "ServiceAccount"}
    assert {each["spec"].get("serviceAccountName") for each in pods.values()} - accounts <= {None}
    for each in objects:
        spec = each.get("spec", {})
        if each["kind"] == "Service":
            selected = spec["selector"]
            (template,) = (pod for pod in pods.values() if selected.items() <= pod["metadata"]["labels"].items())
            ports = {port["name"] for port in template["spec"]["containers"][0]["ports"]}
            assert {port["targetPort"] for port in spec["ports"]} <= ports
        elif each["kind"] in ("PodDisruptionBudget", "NetworkPolicy", "PodMonitor"):
            selected = spec.get("selector", spec.get("podSelector"))["matchLabels"]
            assert any(selected.items() <= have.items() for have in labels), each["metadata"]["name"]
        elif each["kind"] == "ScaledObject":
            (target,) = (
                other
                for other in objects
                if other["kind"] == "Deployment" and other["metadata"]["name"] == spec["scaleTargetRef"]["name"]
            )
            # Helm would set it back with every upgrade.
            assert "replicas" not in target["spec"]


#: Pod Security Standards, profile restricted (which includes baseline), as a table: the field, and what it may be.
_ABSENT = None
POD_RULES = {
    "hostNetwork": (_ABSENT, False),
    "hostPID": (_ABSENT, False),
    "hostIPC": (_ABSENT, False),
    "securityContext.windowsOptions.hostProcess": (_ABSENT, False),
    "securityContext.sysctls": (_ABSENT, []),
}
CONTAINER_RULES = {
    "securityContext.privileged": (_ABSENT, False),
    "securityContext.allowPrivilegeEscalation": (False,),
    "securityContext.capabilities.drop": (["ALL"],),
    "securityContext.capabilities.add": (_ABSENT, [], ["NET_BIND_SERVICE"]),
    "securityContext.procMount": (_ABSENT, "Default"),
    "securityContext.seLinuxOptions": (_ABSENT,),
}
#: These may stand in the pod, or in each container.
EITHER_RULES = {
    "securityContext.runAsNonRoot": (True,),
    "securityContext.seccompProfile.type": ("RuntimeDefault", "Localhost"),
}
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}


def field(body: Any, path: str) -> Any:
    for name in path.split("."):
        body = (body or {}).get(name)
    return body


def violations(template: dict[str, Any]) -> list[str]:
    """The fields of a pod template that the profile restricted forbids."""
    spec = template["spec"]
    found = [path for path, allowed in POD_RULES.items() if field(spec, path) not in allowed]
    found += [f"volume {each['name']}" for each in spec.get("volumes", ()) if set(each) - {"name"} - VOLUMES]
    for container in [*spec["containers"], *spec.get("initContainers", ())]:
        found += [path for path, allowed in CONTAINER_RULES.items() if field(container, path) not in allowed]
        for path, allowed in EITHER_RULES.items():
            own = field(container, path)
            if (field(spec, path) if own is None else own) not in allowed:
                found.append(path)
        if any(port.get("hostPort") for port in container.get("ports", ())):
            found.append("hostPort")
        users = [field(each, "securityContext.runAsUser") for each in (spec, container)]
        if 0 in users:
            found.append("runAsUser")
    return found


def test_pods_keep_to_the_profile_restricted_and_write_nowhere_but_in_volumes(objects) -> None:
    for name, template in rendered.pods(objects).items():
        assert not violations(template), name
        for container in template["spec"]["containers"]:
            assert field(container, "securityContext.readOnlyRootFilesystem") is True
            # A cluster can tell a number that is not root, and no name.
            assert field(template["spec"], "securityContext.runAsUser") > 0
            assert {"memory", "cpu"} <= set(container["resources"]["requests"])
            assert "memory" in container["resources"]["limits"]


@cases(
    ("privileged", {"securityContext": {"privileged": True}}, "securityContext.privileged"),
    ("root", {"podSecurityContext": {"runAsUser": 0}}, "runAsUser"),
    ("a capability", {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, "securityContext.capabilities.add"),
    ("a folder of the node", {"extraVolumes": [{"name": "x", "hostPath": {"path": "/"}}]}, "volume x"),
    (
        "no profile",
        {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
        "securityContext.seccompProfile.type",
    ),
)
def test_the_table_finds_what_the_profile_forbids(values, field, chart: Helm) -> None:
    template = rendered.pods(chart.template({**rendered.EXTERNAL, "watch": values}))["penstock-watch"]
    assert violations(template) == [field]


@cases(
    ("no broker", {}, "broker: Penstock needs a Redis or Valkey server"),
    ("two brokers", {"redis": {"enabled": True}, "broker": {"url": "redis://x"}}, "only one of broker.url"),
    ("a broker of another kind", {"broker": {"url": "amqp://x"}}, "/broker/url"),
    ("a setting that does not exist", {"settings": {"pollng": 3}}, "'/settings': additional properties 'pollng'"),
    ("a setting of another type", {"settings": {"polling": "often"}}, "'/settings/polling': got string"),
    ("a setting that is a value elsewhere", {"settings": {"volcano": True}}, "additional properties 'volcano'"),
    ("a process that does not exist", {"wacth": {}}, "additional properties 'wacth' not allowed"),
    ("a field that does not exist", {"worker": {"replica": 1}}, "'/worker': additional properties 'replica'"),
    ("no workers", {"autoscaling": {"enabled": True, "worker": {"minReplicas": 0}}}, "/autoscaling/worker/minReplicas"),
    (
        "more workers for one process",
        {"mode": "standalone", "autoscaling": {"enabled": True}},
        "mode standalone has no workers to add",
    ),
    (
        "autoscaling from outside",
        {"kubeconfig": {"existingSecret": "x"}, "autoscaling": {"enabled": True}},
        "the pods run in another cluster",
    ),
    (
        "a webhook that is not reached",
        {"kubeconfig": {"existingSecret": "x"}, "volcano": {"enabled": True}},
        "settings.webhook_url",
    ),
    (
        "Volcano in some namespaces",
        {"namespaces": ["team"], "volcano": {"enabled": True}},
        "Queues of Volcano belong to no namespace",
    ),
    (
        "policies in some namespaces",
        {"namespaces": ["team"], "settings": {"policies": True}},
        "ScalePolicies belong to no namespace",
    ),
    ("a namespace of an impossible name", {"namespaces": ["Team"]}, "/namespaces/0"),
)
def test_values_that_cannot_work_are_refused_and_named(values, message, chart: Helm) -> None:
    base = {} if message.startswith(("broker", "only one", "/broker")) else rendered.EXTERNAL
    with pytest.raises(HelmError, match=message.replace("(", r"\(")):
        chart.template({**base, **values})


def policy(chart: Helm, process: str, **values: Any) -> dict[str, Any]:
    """The rules of the NetworkPolicy of a process that is scaled by its own queue."""
    network = {"networkPolicy": {"enabled": True, **values}, "autoscaling": {"enabled": True}}
    found = chart.template({**rendered.EXTERNAL, **network})
    (rules,) = (
        each["spec"]
        for each in found
        if (each["kind"], each["metadata"]["name"]) == ("NetworkPolicy", f"penstock-{process}")
    )
    return rules


def test_scalers_that_may_go_to_some_sources_alone_still_read_the_depth_of_their_own_lanes(chart: Helm) -> None:
    sources = [{"ipBlock": {"cidr": "10.1.0.0/16"}}]
    rules = policy(chart, "scaler", sources=sources)["egress"]
    labels = {"app.kubernetes.io/name": "penstock", "app.kubernetes.io/component": "worker"}
    measured = [
        peer["podSelector"]["matchLabels"]
        for rule in rules
        if {"protocol": "TCP", "port": 9090} in rule.get("ports", ())
        for peer in rule["to"]
    ]
    assert measured == [labels, {**labels, "app.kubernetes.io/component": "scaler"}]
    assert {"to": sources} in rules


def test_metrics_without_named_readers_are_open_to_all_also_where_scalers_read_them(chart: Helm) -> None:
    for process in ("worker", "scaler", "watch"):
        assert policy(chart, process, monitoring=[])["ingress"] == [{"ports": [{"protocol": "TCP", "port": 9090}]}]


def test_the_page_asks_for_a_token_unless_a_setting_says_otherwise(chart: Helm) -> None:
    """Every pod of the cluster reaches its Service, and the gateway may read the logs of all pods."""
    assert variables(chart.template(rendered.EXTERNAL))["PENSTOCK_PAGE"] == "token"
    assert variables(rendered.overlay("in-cluster"))["PENSTOCK_PAGE"] == "token"
    assert variables(chart.template({**rendered.EXTERNAL, "settings": {"page": "read"}}))["PENSTOCK_PAGE"] == "read"


@cases(
    ("all paths", [{"host": "penstock.example.com"}], {}, "penstock.example.com"),
    ("two names", [{"host": "a.example"}, {"host": "b.example", "paths": ["/", "/x"]}], {}, "a.example,b.example"),
    ("pushes alone", [{"host": "penstock.example.com", "paths": ["/events"]}], {}, None),
    ("others by a setting", [{"host": "a.example"}], {"page_hosts": ["b.example"]}, "b.example"),
)
def test_the_page_knows_the_names_by_which_an_ingress_leads_to_it(hosts, settings, named, chart: Helm) -> None:
    gateway = {"ingress": {"enabled": True, "hosts": hosts}}
    found = chart.template({**rendered.EXTERNAL, "gateway": gateway, "settings": settings})
    assert variables(found).get("PENSTOCK_PAGE_HOSTS") == named


def test_the_redis_of_a_trial_refuses_writes_before_its_container_is_killed(chart: Helm) -> None:
    """It would begin again with the same data, and be killed again; a rewrite of its file may copy what changes."""
    for objects in (chart.template(rendered.OVERLAYS["try"]), rendered.overlay("try")):
        container = rendered.pods(objects)["penstock-redis"]["spec"]["containers"][0]
        given = dict(zip(container["args"][1::2], container["args"][2::2], strict=True))
        assert given["--maxmemory-policy"] == "noeviction"
        assert (given["--maxmemory"], container["resources"]["limits"]["memory"]) == ("256mb", "512Mi")
    more = chart.template({"redis": {"enabled": True, "maxmemory": "2gb"}})
    assert "2gb" in rendered.pods(more)["penstock-redis"]["spec"]["containers"][0]["args"]


def test_names_follow_the_release_and_the_namespace(chart: Helm) -> None:
    values = {**rendered.EXTERNAL, "autoscaling": {"enabled": True}}
    found = chart.template(values, name="blue", namespace="jobs")
    assert all(each["metadata"]["name"].startswith("blue-penstock") for each in found)
    assert {each["metadata"].get("namespace", "jobs") for each in found} == {"jobs"}
    urls = [t["metadata"]["url"] for each in found if each["kind"] == "ScaledObject" for t in each["spec"]["triggers"]]
    assert set(urls) == {f"http://blue-penstock-{each}.jobs.svc:9090/metrics" for each in ("worker", "scaler")}


def test_a_changed_setting_starts_pods_anew(chart: Helm) -> None:
    def noted(**settings: object) -> object:
        pods = rendered.pods(chart.template({**rendered.EXTERNAL, "settings": settings}))
        return pods["penstock-worker"]["metadata"]["annotations"]["checksum/settings"]

    assert noted(polling=5) == noted(polling=5) != noted(polling=6)


def test_a_process_that_is_recreated_has_no_rolling_update_which_an_api_server_would_refuse(chart: Helm) -> None:
    for values in ({"worker": {"strategy": {"type": "Recreate"}}}, {"defaults": {"strategy": {"type": "Recreate"}}}):
        found = chart.template({**rendered.EXTERNAL, **values})
        (worker,) = (each for each in found if each["kind"] == "Deployment" and "worker" in each["metadata"]["name"])
        assert worker["spec"]["strategy"] == {"type": "Recreate"}


def test_arguments_may_have_equal_values(chart: Helm) -> None:
    extra = ["--in-flight", "4", "--prefetch", "4"]
    pods = rendered.pods(chart.template({**rendered.EXTERNAL, "worker": {"extraArgs": extra}}))
    assert pods["penstock-worker"]["spec"]["containers"][0]["args"] == ["worker", *extra]


def test_crds_of_the_chart_are_ours_and_stay(chart: Helm) -> None:
    files = {path.name: yaml.safe_load(path.read_text()) for path in (ROOT / "deploy" / "crds").iterdir()}
    values = {**rendered.EXTERNAL, "crds": {"install": True}, "volcano": {"enabled": True}}
    found = [each for each in chart.template(values) if each["kind"] == "CustomResourceDefinition"]
    assert {each["metadata"]["name"] for each in found} == {each["metadata"]["name"] for each in files.values()}
    wanted = {each["metadata"]["name"]: each["spec"] for each in files.values()}
    for each in found:
        assert each["spec"] == wanted[each["metadata"]["name"]]
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_everything_in_values_is_in_the_schema_and_helm_finds_no_fault(chart: Helm) -> None:
    report = chart.ask(do="lint", chart=str(ROOT / "deploy/helm/penstock"), values=dict(rendered.EXTERNAL))
    assert [each["error"] for each in report["messages"] if each["severity"] > 1] == []
    values = yaml.safe_load((ROOT / "deploy/helm/penstock/values.yaml").read_text())
    schema = json.loads((ROOT / "deploy/helm/penstock/values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}


def test_notes_name_the_processes_that_run(chart: Helm) -> None:
    for values, said in (({}, "penstock-worker"), ({"mode": "standalone"}, "penstock-standalone")):
        notes = chart.files({**rendered.EXTERNAL, **values})["penstock/templates/NOTES.txt"]
        assert said in notes
        assert "service/penstock-gateway 8080:80" in notes
        assert "installed no CRDs" in notes


@cases(
    ("with a page", {}, "then the page is at http://127.0.0.1:8080", "events are taken"),
    (
        "over TLS",
        {"gateway": {"tls": {"existingSecret": "tls"}}},
        "then the page is at https://127.0.0.1:8080",
        "http:",
    ),
    ("without a page", {"settings": {"page": "off"}}, "then events are taken at http://127.0.0.1:8080/events", "page"),
)
def test_notes_say_what_the_gateway_serves_and_where(values, said, unsaid, chart: Helm) -> None:
    notes = chart.files({**rendered.EXTERNAL, **values})["penstock/templates/NOTES.txt"]
    assert said in notes
    assert unsaid not in notes


def test_the_charts_version_is_penstocks() -> None:
    from penstock import __version__

    chart = yaml.safe_load(Path(ROOT / "deploy/helm/penstock/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    overlays = (rendered.KUSTOMIZE / "overlays").glob("*/kustomization.yaml")
    tags = {image["newTag"] for each in overlays for image in yaml.safe_load(each.read_text()).get("images", ())}
    assert tags == {__version__}
