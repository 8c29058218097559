"""A bad network, and a busy or restarted API server, delay the operator and do nothing else."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from flamectl_operator.kube.cache.reflector import READ_TIMEOUT
from tests.e2e.namespace import E2ENamespace, Recording, annotated, executor_id, flame_cluster, operator_with, uids
from tests.e2e.proxy import Proxy, in_files, kubeconfig_through, put_in_place
from tests.e2e.proxy_http import HttpProxy
from tools.installation import SERVICE_ACCOUNT, OperatorProcess, allow_in

#: Seconds for what has to wait for pauses that have grown.
LONG = 300.0
#: Log lines about refused connections after which pauses between attempts have grown.
REFUSED = 6


@pytest.fixture
def http_proxy(world: E2ENamespace) -> Iterator[HttpProxy]:
    with HttpProxy(world.plane) as proxy:
        yield proxy


def kubeconfig(world: E2ENamespace, proxy: Proxy | HttpProxy, folder: Path) -> Path:
    return kubeconfig_through(allow_in(world.plane, world.namespace), proxy.port, folder)


@pytest.fixture
def operator(world: E2ENamespace, proxy: Proxy, tmp_path: Path) -> Iterator[OperatorProcess]:
    with operator_with(world, tmp_path, kubeconfig=kubeconfig(world, proxy, tmp_path)) as process:
        yield process


@pytest.fixture
def observed_operator(world: E2ENamespace, http_proxy: HttpProxy, tmp_path: Path) -> Iterator[OperatorProcess]:
    with operator_with(world, tmp_path, kubeconfig=kubeconfig(world, http_proxy, tmp_path)) as process:
        yield process


@dataclass(frozen=True)
class Rollout:
    """A change that replaces all executors, one by one."""

    world: E2ENamespace
    recording: Recording
    replicas: int

    def ask(self) -> None:
        """Change the spec."""
        self.world.change(executorManager={"maxExecutors": 20})

    def begin(self) -> None:
        """Change the spec, and wait until the first new executor is there."""
        self.ask()
        self.wait_replaced(1)

    def wait_replaced(self, count: int) -> None:
        """Wait until so many new executors are there."""
        there = self.replicas + 1
        self.world.wait(f"{count} new executors", lambda: len(self.recording.created()) >= there + count, LONG)


@contextmanager
def rollout(world: E2ENamespace, replicas: int) -> Iterator[Rollout]:
    """Prepare a rollout. In the end it must have replaced each executor once, and deleted none of the new ones."""
    one_by_one = {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}
    # So that it is still under way when something happens to it.
    slowly = {"podTemplate": annotated(ready_after="2s")}
    world.apply(flame_cluster(replicas=replicas, executorManager=one_by_one | slowly))
    world.wait_running(executors=replicas)
    before = uids(world.executors())
    with world.record("pod") as recording:
        yield Rollout(world, recording, replicas)
        world.wait_running(executors=replicas, timeout=LONG)
        assert recording.deleted() == set(before.values())


# --- Connections -------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_half_open_connections_are_detected_by_silence(
    world: E2ENamespace, proxy: Proxy, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=3))
    world.wait_running(executors=3)
    assert proxy.freeze()
    world.kubectl("scale", "flamecluster/my-flame", "--replicas=6")

    world.wait_running(executors=6, timeout=READ_TIMEOUT + LONG)

    # By nothing else: nobody has ended the connections, and they are frozen still.
    assert complains(operator, "watch was silent")
    assert [executor_id(pod) for pod in world.executors()] == [0, 1, 2, 3, 4, 5]


def test_rollout_is_safe_after_a_network_stall_with_late_delivery(
    world: E2ENamespace, proxy: Proxy, operator: OperatorProcess
) -> None:
    with rollout(world, replicas=6) as replacing:
        replacing.begin()
        assert proxy.freeze(also_new=True)
        # A request that waits on a frozen connection fails first, and its repetition then fails to make a new one.
        world.wait("a connection to be given up", lambda: complains(operator, "no connection: timed out"), LONG)
        proxy.thaw()


def test_operator_recovers_after_an_unreachable_api_server(
    world: E2ENamespace, proxy: Proxy, operator: OperatorProcess
) -> None:
    with rollout(world, replicas=6) as replacing:
        replacing.begin()
        proxy.refuse()
        proxy.cut()
        world.wait(
            "connections to be refused",
            lambda: operator.log.read_text(encoding="utf-8").count("no connection") >= REFUSED,
            LONG,
        )
        proxy.accept()


# --- Answers -----------------------------------------------------------------------------------------------------------


def test_creates_with_lost_answers_create_no_second_pod(
    world: E2ENamespace, http_proxy: HttpProxy, observed_operator: OperatorProcess
) -> None:
    lost = http_proxy.lose_answers(r"^POST .*/pods")
    world.apply(flame_cluster(replicas=20))
    with world.record("pod") as recording:
        world.wait_running(executors=20)
        assert not recording.deleted()

    assert lost.hits == 21
    assert [executor_id(pod) for pod in world.executors()] == list(range(20))


def test_rollout_with_lost_answers_to_writes_keeps_its_budget(
    world: E2ENamespace, http_proxy: HttpProxy, observed_operator: OperatorProcess
) -> None:
    with rollout(world, replicas=6) as replacing:
        lost = http_proxy.lose_answers(r"^(POST|PUT|PATCH|DELETE) .*/(pods|configmaps|flameclusters)", times=12)
        replacing.ask()
        world.wait("answers to be lost", lambda: lost.hits == lost.times, LONG)


def test_rollout_with_late_answers_keeps_its_budget(
    world: E2ENamespace, http_proxy: HttpProxy, observed_operator: OperatorProcess
) -> None:
    http_proxy.delay_answers(r"^(GET|POST|PUT|PATCH|DELETE) [^?]*(\?(?!.*watch)|$)", 0.6)
    with rollout(world, replicas=3) as replacing:
        replacing.ask()


def test_operator_makes_progress_when_most_requests_get_429(
    world: E2ENamespace, proxy: Proxy, operator: OperatorProcess
) -> None:
    world.apply(flame_cluster(replicas=1))
    world.wait_running(executors=1)
    with one_at_a_time(world), world.record("pod") as recording:
        world.kubectl("scale", "flamecluster/my-flame", "--replicas=40")
        world.wait_running(executors=40, timeout=LONG)
        assert not recording.deleted()

    assert sum(each.code == 429 for each in world.operator_writes()) > 0
    # Of a request that was turned away it is certain that nothing was done: its name is used all the same.
    assert [executor_id(pod) for pod in world.executors()] == list(range(40))


@contextmanager
def one_at_a_time(world: E2ENamespace) -> Iterator[None]:
    """API Priority and Fairness gives the operator of the namespace one seat, and a 429 to each request beyond that."""
    limits = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": world.namespace},
        "spec": {"type": "Limited", "limited": {**limits, "limitResponse": {"type": "Reject"}}},
    }
    account = {"namespace": world.namespace, "name": SERVICE_ACCOUNT}
    rule = {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": account}],
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}],
    }
    schema = {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": world.namespace},
        "spec": {
            "priorityLevelConfiguration": {"name": world.namespace},
            "matchingPrecedence": 100,
            "rules": [rule],
        },
    }
    world.apply(level, schema)
    try:
        metric = f'apiserver_flowcontrol_nominal_limit_seats{{priority_level="{world.namespace}"}} 0'
        world.wait("the limit to be in force", lambda: metric in world.kubectl("get", "--raw=/metrics"))
        # Each answer names what it was judged by; at this level kubectl shows that.
        uid = world.kubectl("get", "flowschema", world.namespace, "-o", "jsonpath={.metadata.uid}")
        user = f"--as=system:serviceaccount:{world.namespace}:{SERVICE_ACCOUNT}"
        ask = partial(world.plane.kubectl, "get", "pods", "-n", world.namespace, user, "-v=8", check=False)
        world.wait("the operator to be subject to it", lambda: uid in ask().stderr)
        yield
    finally:
        world.kubectl("delete", "flowschema,prioritylevelconfiguration", world.namespace)


# --- Credentials -------------------------------------------------------------------------------------------------------


def scale(world: E2ENamespace, replicas: int) -> None:
    world.kubectl("scale", "flamecluster/my-flame", f"--replicas={replicas}")


def complains(operator: OperatorProcess, words: str) -> bool:
    return words in operator.log.read_text(encoding="utf-8")


def test_replaced_certificate_authorities_are_loaded_at_run_time(
    world: E2ENamespace, http_proxy: HttpProxy, tmp_path: Path
) -> None:
    way = kubeconfig(world, http_proxy, tmp_path)
    files = in_files(way, world.plane)
    with operator_with(world, tmp_path, kubeconfig=way) as operator:
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)

        authority = http_proxy.show("kube-scheduler")
        refused = "its certificate is not trusted"
        world.wait("it to be refused", partial(complains_after_cut, operator, http_proxy, refused))
        scale(world, 3)
        put_in_place(files.authority, authority.read_bytes())

        world.wait_running(executors=3, timeout=LONG)


def test_replaced_token_is_loaded_at_run_time(world: E2ENamespace, http_proxy: HttpProxy, tmp_path: Path) -> None:
    way = kubeconfig(world, http_proxy, tmp_path)
    files = in_files(way, world.plane)
    with operator_with(world, tmp_path, kubeconfig=way) as operator:
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)

        # The old token is no longer worth anything: that ServiceAccount is gone, for all its name.
        world.kubectl("delete", "serviceaccount", SERVICE_ACCOUNT)
        world.kubectl("create", "serviceaccount", SERVICE_ACCOUNT)
        # The API server remembers for ten seconds that a token was good.
        world.wait("it to be refused", partial(complains_after_cut, operator, http_proxy, "Unauthorized"))
        scale(world, 3)
        put_in_place(files.token, world.kubectl("create", "token", SERVICE_ACCOUNT).encode())

        world.wait_running(executors=3, timeout=LONG)
    assert complains(operator, "credentials renewed")


def complains_after_cut(operator: OperatorProcess, proxy: Proxy | HttpProxy, words: str) -> bool:
    """Cut the connections and return whether the operator's log has this complaint."""
    proxy.cut()
    return complains(operator, words)


# --- Names -------------------------------------------------------------------------------------------------------------

#: Runs a command with files of its own in place of those that say how names are found; in a mount namespace, so that it
#: concerns nobody else.
_WITH_OWN_NAMES = 'mount --bind "$1" /etc/hosts && mount --bind "$2" /etc/resolv.conf && shift 2 && exec "$@"'


def with_own_names(folder: Path) -> list[str]:
    """The beginning of such a command line; it finds names in `hosts` and nowhere else."""
    hosts, servers = folder / "hosts", folder / "resolv.conf"
    hosts.write_text("127.0.0.1 kubernetes.default.svc\n", encoding="ascii")
    servers.write_text("nameserver 127.0.0.1\n", encoding="ascii")  # where nobody answers
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", _WITH_OWN_NAMES, "sh", str(hosts), str(servers)]


def test_operator_recovers_after_the_name_cannot_be_resolved(world: E2ENamespace, proxy: Proxy, tmp_path: Path) -> None:
    wrapper = with_own_names(tmp_path)
    if subprocess.run([*wrapper, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine allows no mount namespaces")
    way = kubeconfig(world, proxy, tmp_path)
    way.write_text(way.read_text(encoding="utf-8").replace("https://127.0.0.1:", "https://kubernetes.default.svc:"))
    with operator_with(world, tmp_path, kubeconfig=way, wrapper=wrapper) as operator:
        world.apply(flame_cluster(replicas=2))
        world.wait_running(executors=2)

        (tmp_path / "hosts").write_text("", encoding="ascii")
        # The operator remembers an address for ten seconds.
        missed = "no connection: kubernetes.default.svc:"
        world.wait("the name to be missed", partial(complains_after_cut, operator, proxy, missed))
        scale(world, 3)
        (tmp_path / "hosts").write_text("127.0.0.1 kubernetes.default.svc\n", encoding="ascii")

        world.wait_running(executors=3, timeout=LONG)
