"""An operator that starts before everything is there, and one that is stopped in the middle of everything."""

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.early import early, wait_for_word, warnings
from tests.e2e.namespace import E2ENamespace, annotated, flame_cluster, operator_with, uids
from tests.e2e.proxy import Proxy, in_files, kubeconfig_through, put_in_place
from tests.e2e.scraping import scrape, value
from tools.controlplane.waiting import PATIENCE
from tools.installation import SERVICE_ACCOUNT, OperatorProcess, allow_in

#: Seconds that the kubelet gives a Pod to end.
GRACE = 30


# --- Starting ----------------------------------------------------------------------------------------------------------


def test_operator_waits_for_an_unreachable_api_server(world: E2ENamespace, proxy: Proxy, tmp_path: Path) -> None:
    proxy.refuse()
    kubeconfig = kubeconfig_through(allow_in(world.plane, world.namespace), proxy.port, tmp_path)
    with early(world, kubeconfig, tmp_path) as operator:
        wait_for_word(world, operator, "cannot talk to the API server")
        proxy.accept()

    assert len(warnings(operator, "no connection")) == 1


def test_operator_reports_an_untrusted_api_server(world: E2ENamespace, tmp_path: Path) -> None:
    kubeconfig = kubeconfig_through(allow_in(world.plane, world.namespace), world.plane.ports.apiserver, tmp_path)
    authority = in_files(kubeconfig, world.plane).authority
    shutil.copy(world.plane.state_dir / "pki" / "kube-scheduler.crt", authority)
    with early(world, kubeconfig, tmp_path) as operator:
        wait_for_word(world, operator, "the kubeconfig or the Pod does not trust the certificate of the API server")
        put_in_place(authority, (world.plane.state_dir / "pki" / "apiserver.crt").read_bytes())

    assert len(warnings(operator, "does not trust the certificate of the API server")) == 1


def test_operator_waits_for_rejected_credentials(world: E2ENamespace, tmp_path: Path) -> None:
    kubeconfig = kubeconfig_through(allow_in(world.plane, world.namespace), world.plane.ports.apiserver, tmp_path)
    token = in_files(kubeconfig, world.plane).token
    good = token.read_text(encoding="ascii")
    token.write_text("made-up", encoding="ascii")
    with early(world, kubeconfig, tmp_path) as operator:
        wait_for_word(world, operator, "the API server does not accept the credentials")
        put_in_place(token, good.encode())

    assert len(warnings(operator, "does not accept the credentials")) == 1


def test_operator_waits_for_missing_permissions(world: E2ENamespace, tmp_path: Path) -> None:
    world.kubectl("create", "serviceaccount", SERVICE_ACCOUNT)
    kubeconfig = world.plane.kubeconfig_for_service_account(world.namespace, SERVICE_ACCOUNT)
    with early(world, kubeconfig, tmp_path) as operator:
        wait_for_word(world, operator, "the permissions in config/rbac are missing: flameclusters")
        allow_in(world.plane, world.namespace)

    missing = warnings(operator, "the permissions in config/rbac are missing")[0]
    assert f"system:serviceaccount:{world.namespace}:{SERVICE_ACCOUNT}" in missing
    assert 'cannot list resource "flameclusters"' in missing


# --- Stopping ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def elected() -> bool:
    return False


@pytest.fixture
def operator(world: E2ENamespace, proxy: Proxy, tmp_path: Path, *, elected: bool) -> Iterator[OperatorProcess]:
    kubeconfig = kubeconfig_through(allow_in(world.plane, world.namespace), proxy.port, tmp_path)
    with operator_with(world, tmp_path, kubeconfig=kubeconfig, elected=elected, serving=True) as process:
        yield process


def end(operator: OperatorProcess) -> int:
    """Tell an operator to stop, and wait until it has."""
    operator.process.terminate()
    return operator.process.wait(PATIENCE)


def end_in_time(operator: OperatorProcess) -> None:
    told = datetime.now(UTC)
    assert end(operator) == 0
    last = json.loads(logged(operator).splitlines()[-1])
    assert last["event"] == "stopped"
    assert (datetime.fromisoformat(last["timestamp"]) - told).total_seconds() < GRACE


@contextmanager
def half_way(world: E2ENamespace, operator: OperatorProcess) -> Iterator[None]:
    """In the middle of a rollout, which waits for an executor until the test lets that one start.

    Whoever is there in the end must finish it, and have deleted what was due alone.
    """
    world.apply(flame_cluster(replicas=8, executorManager={"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}))
    world.wait_running(executors=8)
    before = uids(world.executors())
    with world.record("pod") as recording:
        world.change(executorManager={"maxExecutors": 20, "podTemplate": annotated(never_ready="true")})
        world.wait("an executor that is held back", world.held_back)
        world.wait_at_rest()
        yield
        operator.start()
        world.let_finish(executors=8, timeout=2 * PATIENCE)
        assert recording.deleted() == set(before.values())
        assert len(recording.created()) == len(dict(recording.created()))


def test_operator_stops_cleanly_during_a_rollout(world: E2ENamespace, operator: OperatorProcess) -> None:
    with half_way(world, operator):
        world.let_start()
        end_in_time(operator)


#: The log line of a leader that could not renew its Lease for too long.
LOST = "leadership lost"


def hang(world: E2ENamespace, proxy: Proxy, operator: OperatorProcess) -> int:
    """From now on no request is answered, and a pass has made one.

    A leader may have ended its term by then, because its Lease cannot be renewed either.

    Returns:
        Where the log was before.
    """
    before = len(logged(operator))

    def hanging() -> bool:
        # A pass that waits here waits for an answer.
        return value(scrape(operator), "controller_runtime_active_workers") > 0 or LOST in logged(operator, before)

    proxy.hold_requests()
    world.let_start()  # that brings about a pass
    world.wait("a request of a pass to be under way", hanging)
    return before


def logged(operator: OperatorProcess, since: int = 0) -> str:
    return operator.log.read_text(encoding="utf-8")[since:]


@pytest.mark.parametrize("elected", [True], ids=[""])
def test_leader_stops_in_time_without_answers(world: E2ENamespace, proxy: Proxy, operator: OperatorProcess) -> None:
    with half_way(world, operator):
        before = hang(world, proxy, operator)
        end_in_time(operator)
        # A leader that cannot renew its Lease has to end sooner.
        assert LOST in logged(operator, before)
        proxy.thaw()  # what was under way arrives after all


def test_second_signal_stops_the_operator_at_once_without_answers(
    world: E2ENamespace, proxy: Proxy, operator: OperatorProcess
) -> None:
    with half_way(world, operator):
        before = hang(world, proxy, operator)
        process = operator.process
        process.terminate()
        world.wait("it to be told", lambda: '"stopping"' in logged(operator, before))
        assert process.poll() is None
        assert end(operator) == 128 + signal.SIGTERM
        proxy.thaw()


def test_operator_stops_cleanly_with_a_full_queue(world: E2ENamespace, proxy: Proxy, operator: OperatorProcess) -> None:
    names = [f"one-of-many-{number}" for number in range(48)]
    workers = value(scrape(operator), "controller_runtime_max_concurrent_reconciles")
    proxy.hold_requests()
    world.apply(*(flame_cluster(name, replicas=1) for name in names))
    waiting = len(names) - workers
    world.wait("a full queue", lambda: value(scrape(operator), "workqueue_depth") >= waiting > 0)
    operator.process.terminate()
    world.wait("it to be told", lambda: '"stopping"' in logged(operator))
    proxy.thaw()
    assert operator.process.wait(PATIENCE) == 0
    # Work that had not begun did not begin any more.
    assert len([name for name in names if world.status(name)["reason"] == "NotObserved"]) >= waiting

    operator.start()

    for name in names:
        world.wait_running(name, executors=1, timeout=2 * PATIENCE)
        assert world.has_executors(1, name)
