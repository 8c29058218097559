"""The two Services."""

from __future__ import annotations

from flamectl_operator.desired.services import services
from tests.unit.builders import OWNER, desired


def test_services_select_their_pods() -> None:
    wanted = desired()
    pods = [wanted.session_manager.pod("a"), wanted.executor.pod("b")]

    for service, pod in zip(services(OWNER, wanted.spec), pods, strict=True):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_services_select_no_pod_of_the_other_component() -> None:
    wanted = desired()
    pods = [wanted.executor.pod("b"), wanted.session_manager.pod("a")]

    for service, pod in zip(services(OWNER, wanted.spec), pods, strict=True):
        assert not service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
