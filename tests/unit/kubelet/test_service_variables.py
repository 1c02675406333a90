"""The variables of API server and Services."""

from deploy.local.kubelet.containers import service_variables
from tests.support.tables import cases
from workers.api.kinds import Object


def service(name: str = "my-web", **spec: object) -> Object:
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


def test_the_api_server_has_the_variables_of_the_service_kubernetes() -> None:
    found = service_variables.of_api_server("https://127.0.0.1:6443")
    assert found == {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "6443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "6443",
        "KUBERNETES_PORT": "tcp://127.0.0.1:6443",
        "KUBERNETES_PORT_443_TCP": "tcp://127.0.0.1:6443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "6443",
        "KUBERNETES_PORT_443_TCP_ADDR": "127.0.0.1",
    }


def test_an_ipv6_address_is_bracketed_in_urls_alone() -> None:
    found = service_variables.of_api_server("https://[::1]:6443")
    assert (found["KUBERNETES_SERVICE_HOST"], found["KUBERNETES_PORT"]) == ("::1", "tcp://[::1]:6443")


@cases(
    ("the same", {"port": 80}, "80", "tcp://127.0.0.1:80"),
    ("another port of the pods", {"port": 80, "targetPort": 8080}, "8080", "tcp://127.0.0.1:8080"),
    ("a name", {"port": 80, "targetPort": "http"}, "80", "tcp://127.0.0.1:80"),
    ("udp", {"port": 80, "targetPort": 0, "protocol": "UDP"}, "80", "udp://127.0.0.1:80"),
)
def test_a_service_leads_to_the_port_of_its_pods(port: Object, number: str, url: str) -> None:
    found = service_variables.of_services([service(ports=[port])])
    protocol = port.get("protocol", "TCP")
    assert (found["MY_WEB_SERVICE_HOST"], found["MY_WEB_SERVICE_PORT"]) == ("127.0.0.1", number)
    assert (found["MY_WEB_PORT"], found[f"MY_WEB_PORT_80_{protocol}"]) == (url, url)


def test_the_first_of_several_ports_is_that_of_the_service() -> None:
    ports = [{"name": "web", "port": 80}, {"name": "admin-page", "port": 81}]
    found = service_variables.of_services([service(ports=ports)])
    wanted = {"": "80", "_WEB": "80", "_ADMIN_PAGE": "81"}
    assert {name: found[f"MY_WEB_SERVICE_PORT{name}"] for name in wanted} == wanted


@cases(
    ("headless", {"clusterIP": "None"}),
    ("external", {"type": "ExternalName"}),
    ("without ports", {"ports": None}),
)
def test_a_service_without_an_address_has_no_variables(spec: Object) -> None:
    assert service_variables.of_services([service(**spec)]) == {}
