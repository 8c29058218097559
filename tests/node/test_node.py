"""The node itself: what the other scenarios rely on."""

from tests.node.namespace import NodeNamespace

_ASK_API_SERVER = (
    "import ssl, urllib.request as r; d='/var/run/secrets/kubernetes.io/serviceaccount/';"
    "c=ssl.create_default_context(cafile=d+'ca.crt');"
    "print(r.urlopen('https://kubernetes.default.svc/version', context=c, timeout=20).status)"
)


def test_pod_reaches_api_server_by_its_name_in_dns(empty_world: NodeNamespace) -> None:
    assert empty_world.run_pod("asks", "python3", "-c", _ASK_API_SERVER) == "200\n"
