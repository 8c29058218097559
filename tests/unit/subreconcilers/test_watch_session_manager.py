"""Only the session manager's own Pod is asked, whatever a tenant makes of names that lead to session managers.

`docs/security.md` lists what a tenant can make.
"""

from typing import Any

import pytest

from tests.unit.builders import OWNER, POD_IP
from tests.unit.subreconcilers.flame_harness import FlameHarness, converged
from tests.unit.subreconcilers.harness import SM_NAME

VICTIM = "my-flame-session-manager.victim.svc.cluster.local"
VICTIMS_IP = "10.64.0.99"


def _ready(address: str) -> dict[str, Any]:
    return {"phase": "Running", "podIP": address, "conditions": [{"type": "Ready", "status": "True"}]}


#: Specs of a Service with the name of the session manager's.
BENT: dict[str, dict[str, Any]] = {
    "ExternalName": {"type": "ExternalName", "externalName": VICTIM},
    "selector": {"selector": {"app": "victim"}, "publishNotReadyAddresses": True},
    "EndpointSlice": {"clusterIP": "None"},
    "externalIPs": {"externalIPs": [VICTIMS_IP], "loadBalancerIP": VICTIMS_IP},
    "labelled Pod": {},
}


@pytest.mark.parametrize("service", BENT.values(), ids=BENT)
async def test_own_pod_is_asked_whatever_the_name_of_the_service_leads_to(service: dict[str, Any]) -> None:
    world = FlameHarness()
    if service:
        world.squat("services", SM_NAME)
        world.change("services", SM_NAME, {"spec": service})
    else:
        labels = OWNER.selector("session-manager") | {"flame.xflops.io/cluster": OWNER.name}
        world.squat("pods", "beside", labels=labels)
        world.change("pods", "beside", {"status": _ready(VICTIMS_IP)})
    await world.live(10)

    target = world.asked.target
    assert target is not None
    assert (target.host, target.port, target.server) == (POD_IP, 8080, world.uid(SM_NAME))
    assert target.certified_name == f"{SM_NAME}.{OWNER.namespace}.svc.cluster.local"


async def test_own_pod_is_asked_beside_a_flame_cluster_of_the_same_name_in_another_namespace() -> None:
    world = await converged()
    for plural, name in (("flameclusters", OWNER.name), ("pods", SM_NAME)):
        found = world.api.present(plural, name)
        metadata = {**found["metadata"], "namespace": "victim", "uid": f"victims-{plural}"}
        owners = [{**each, "uid": "victims-flameclusters"} for each in metadata.pop("ownerReferences", [])]
        status = found["status"] if plural == "flameclusters" else _ready(VICTIMS_IP)
        world.api.put(plural, {**found, "metadata": {**metadata, "ownerReferences": owners}, "status": status})
    pod = world.pod(SM_NAME)
    await world.live(10)

    assert world.asked.target is not None
    assert (world.asked.target.host, world.asked.target.server) == (POD_IP, pod["metadata"]["uid"])
    assert world.api.find("pods", SM_NAME, "victim") is not None


@pytest.mark.parametrize(
    "owner",
    [None, {"apiVersion": "flame.xflops.io/v1alpha1", "kind": "FlameCluster", "name": "my-flame", "uid": "other"}],
)
async def test_foreign_pod_with_the_session_managers_name_is_not_asked(owner: dict[str, Any] | None) -> None:
    world = FlameHarness()
    labels = OWNER.selector("session-manager") | {"flame.xflops.io/cluster": OWNER.name}
    world.squat("pods", SM_NAME, labels=labels, ownerReferences=[] if owner is None else [owner | {"controller": True}])
    world.change("pods", SM_NAME, {"status": _ready(VICTIMS_IP)})
    await world.run_pass()
    assert world.asked.target is None


async def test_session_manager_on_the_network_of_its_node_is_not_asked_and_the_status_says_so() -> None:
    world = await converged()
    world.change("pods", SM_NAME, {"spec": {"hostNetwork": True}})
    await world.tick()

    assert world.asked.target is None
    status, reason, message = world.condition("SessionManagerReachable")
    assert (status, reason) == ("False", "NoAddress")
    assert "no address of its own" in message


@pytest.mark.parametrize(
    "change", [{"podIP": ""}, {"phase": "Pending"}, {"conditions": []}, {"podIP": "victim.example"}]
)
async def test_session_manager_without_a_pod_that_answers_is_not_asked(change: dict[str, Any]) -> None:
    world = await converged()
    world.change("pods", SM_NAME, {"status": change})
    await world.run_pass()
    assert world.asked.target is None


async def test_session_manager_with_an_ipv6_address_is_asked_there() -> None:
    world = await converged()
    world.change("pods", SM_NAME, {"status": {"podIP": "fd00::7"}})
    await world.tick()
    assert world.asked.target is not None
    assert (world.asked.target.host, world.asked.target.port) == ("fd00::7", 8080)


async def test_name_in_the_setting_is_asked_in_place_of_the_address_and_verified_by_it() -> None:
    endpoint = "{name}-session-manager.{namespace}.svc.{clusterDomain}:9000"
    world = await converged(config={"flame": {"sessionManagerEndpoint": endpoint}})
    assert world.asked.target is not None
    host = f"{SM_NAME}.{OWNER.namespace}.svc.cluster.local"
    assert (world.asked.target.host, world.asked.target.port, world.asked.target.certified_name) == (host, 9000, "")
