"""The cause of a container's failure in few, stable words."""

import pytest

from flamectl_operator.api.constants import EXECUTOR_MANAGER
from flamectl_operator.kube.pod_views import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from flamectl_operator.observed.executor import Executor
from flamectl_operator.observed.pod_problem import MAX_CAUSE_LENGTH, PodProblem, ended_problem, waiting_problem
from flamectl_operator.status.remedies import explained
from tests.unit.builders import executor_pod

IMAGE = "example.com/flame/executor:v1"
CRASHED = PodProblem("CrashLoopBackOff", "it ended with exit code 1", 'container "main"')
NOT_FOUND = "not found"
DENIED = "access denied, or no such repository"
OF_RUNC = "failed to create containerd task: container init was OOM-killed (memory limit too low?): unknown"
OF_CRUN = "OOM: the memory limit could be too low: read from the init process"
OUT_OF_MEMORY = PodProblem("OOMKilled", "it was killed at its memory limit", 'container "main"')


def _waiting(reason: str, message: str = "", last: ContainerStateTerminated | None = None) -> ContainerStatus:
    state = ContainerState(waiting=ContainerStateWaiting(reason, message))
    return ContainerStatus("main", 3, state, ContainerState(terminated=last), IMAGE)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (f'failed to pull and unpack image "{IMAGE}": failed to resolve reference "{IMAGE}": {IMAGE}: not found', NOT_FOUND),
        (f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: code = NotFound desc = {IMAGE}: not found', NOT_FOUND),
        (f'Back-off pulling image "{IMAGE}"', ""),
        ("pull access denied, repository does not exist or may require authorization", DENIED),
        ("unexpected status from HEAD request: 401 Unauthorized", DENIED),
        ("dial tcp: lookup example.com on 10.96.0.10:53: no such host", "the name of the registry cannot be resolved"),
        ("dial tcp 10.0.0.7:5000: connect: connection refused", "the registry cannot be reached"),
        ("dial tcp 10.0.0.7:5000: i/o timeout", "the registry did not answer in time"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority",
         "the certificate of the registry is not trusted"),
        ("toomanyrequests: You have reached your pull rate limit", "the registry limits the number of pulls"),
        ("no match for platform in manifest: not found", "it has no variant for the platform of the node"),
        ("rpc error: write /var/lib/layer: no space left on device", "no space is left on the node"),
        ("rpc error: code = Unknown desc = short name mode is enforcing, but image name xflops/x:1 returns ambiguous list",
         "the image name has no registry"),
        ('short-name "x:1" did not resolve to an alias and no unqualified-search registries are defined',
         "the image name has no registry"),
        ("failed to copy: context canceled", "the registry did not answer in time"),
        ("proxyconnect tcp: Proxy Authentication Required", "the proxy of the node refuses the connection"),
        ("pull QPS exceeded", "the node limits the number of pulls"),
        ("rpc error: code = Unknown desc = something else", "something else"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "ImageInspectError"])
def test_failed_image_pull_has_one_reason_and_a_short_cause(reason: str, message: str, cause: str) -> None:
    assert waiting_problem(_waiting(reason, message)) == PodProblem("ImagePullFailed", cause, f'image "{IMAGE}"')


PULLED = "registry.example.com/team/flame:v9"
_FAILED = f'failed to pull and unpack image "{PULLED}": failed to resolve reference "{PULLED}": '
_MANIFEST = "https://registry.example.com/v2/team/flame/manifests/v9"
#: The words of kubelets, by the cause in the words of the status; first a part of the remedy.
REFUSALS: dict[str, tuple[str, ...]] = {
    "access denied, or no such repository": (
        "{template}.imagePullSecrets",
        (
            f"rpc error: code = Unknown desc = {_FAILED}pull access denied, repository does not exist or may require "
            "authorization: server message: insufficient_scope: authorization failed"
        ),
        (
            f"{_FAILED}failed to authorize: failed to fetch oauth token: unexpected status from GET request to "
            "https://registry.example.com/token: 401 Unauthorized"
        ),
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 403 Forbidden",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 401 Unauthorized: no basic auth credentials",
        "unable to retrieve auth token: invalid username/password",
        f"initializing source docker://{PULLED}: Requesting bearer token: invalid status code from registry 403",
    ),
    "the name of the registry cannot be resolved": (
        "the DNS of the nodes",
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp: lookup registry.example.com on 10.96.0.10:53: '
            "no such host"
        ),
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp: lookup registry.example.com on 10.0.0.2:53: '
            "read udp 10.1.1.1:43210->10.0.0.2:53: i/o timeout"
        ),
        (
            f'pinging container registry registry.example.com: Get "{_MANIFEST}": dial tcp: lookup registry.example.com: '
            "Temporary failure in name resolution"
        ),
    ),
    "the certificate of the registry is not trusted": (
        "an administrator lets the nodes trust it",
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: failed to verify certificate: x509: certificate '
            "signed by unknown authority"
        ),
        (
            f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: failed to verify certificate: x509: certificate has '
            "expired or is not yet valid: current time 2026-01-01T00:00:00Z is after 2025-01-01T00:00:00Z"
        ),
    ),
    "the node expects TLS from the registry, and gets none or another version": (
        "an administrator corrects the registry or the runtime of the nodes",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": http: server gave HTTP response to HTTPS client',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": remote error: tls: handshake failure',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": tls: first record does not look like a TLS handshake',
    ),
    "the registry did not answer in time": (
        "the network between the nodes and the registry",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: i/o timeout',
        f"{_FAILED}context deadline exceeded",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": net/http: TLS handshake timeout',
        (
            f"{_FAILED}failed to authorize: failed to fetch anonymous token: net/http: request canceled while waiting for "
            "connection (Client.Timeout exceeded while awaiting headers)"
        ),
    ),
    "the registry cannot be reached": (
        "the network between the nodes and the registry",
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: connect: connection refused',
        f'{_FAILED}failed to do request: Head "{_MANIFEST}": dial tcp 10.0.0.9:443: connect: no route to host',
    ),
    "the registry limits the number of pulls": (
        "{template}.imagePullSecrets",
        (
            f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 429 Too Many Requests - Server message: "
            "toomanyrequests: You have reached your pull rate limit."
        ),
    ),
    "the registry answers with an error of its own": (
        "wait, or take another registry in {image}",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 503 Service Unavailable",
        f"{_FAILED}unexpected status from HEAD request to {_MANIFEST}: 500 Internal Server Error",
    ),
}


@pytest.mark.parametrize(
    ("cause", "message"), [(cause, message) for cause, (_, *said) in REFUSALS.items() for message in said]
)
def test_words_of_a_kubelet_get_a_cause_and_its_remedy(cause: str, message: str) -> None:
    status = ContainerStatus(EXECUTOR_MANAGER, state=_waiting("ErrImagePull", message).state, image=PULLED)
    problem = waiting_problem(status)

    assert problem is not None
    assert problem.cause == cause
    names = {"image": "spec.executorManager.image", "template": "spec.executorManager.podTemplate.spec"}
    assert REFUSALS[cause][0].format_map(names) in explained(Executor(executor_pod()), problem)


REACHED = "the registry cannot be reached"


@pytest.mark.parametrize(
    ("image", "message", "cause"),
    [
        ("example.com/denied:1", "example.com/denied:1: not found", "not found"),
        ("x/authentication:v9", ("unexpected status from HEAD request to https://example.com/v2/x/authentication/manifests/v9: "
         "503 Service Unavailable"), "the registry answers with an error of its own"),
        ("x/certificates:1", 'Head "https://example.com/v2/x/certificates/manifests/1": dial tcp 10.0.0.9:443: i/o timeout',
         "the registry did not answer in time"),
        ("x/flame:1.429", 'Head "https://example.com/v2/x/flame/manifests/1.429": dial tcp 10.0.0.9:443: connection refused',
         REACHED),
        ("example.com:404/x:1", 'Get "http://example.com:404/v2/": dial tcp 10.0.0.9:404: connect: no route to host', REACHED),
        ("example.com:429/x:1", "pinging example.com:429: dial tcp [fd00::9]:429: connect: connection refused", REACHED),
    ],
)  # fmt: skip
def test_words_in_the_name_of_an_image_and_in_addresses_are_not_the_cause(image: str, message: str, cause: str) -> None:
    status = ContainerStatus("main", state=_waiting("ErrImagePull", message).state, image=image)
    assert str(waiting_problem(status)) == f'ImagePullFailed: image "{image}": {cause}'


@pytest.mark.parametrize(
    ("last", "problem"),
    [
        (ContainerStateTerminated(1, "Error"), CRASHED),
        (ContainerStateTerminated(137, "OOMKilled"), OUT_OF_MEMORY),
        (ContainerStateTerminated(128, "StartError", OF_RUNC), OUT_OF_MEMORY),
        (ContainerStateTerminated(128, "StartError", OF_CRUN), OUT_OF_MEMORY),
        (None, PodProblem("CrashLoopBackOff", "", 'container "main"')),
    ],
    ids=["ended", "out of memory", "out of memory at the start", "out of memory under crun", "not known"],
)
@pytest.mark.parametrize("delay", ["10s", "5m0s"])
def test_crash_loop_reports_the_exit_and_not_the_kubelets_delay(
    delay: str, last: ContainerStateTerminated | None, problem: PodProblem
) -> None:
    assert waiting_problem(_waiting("CrashLoopBackOff", f"back-off {delay} restarting", last)) == problem


@pytest.mark.parametrize(
    ("ended", "problem"),
    [(ContainerStateTerminated(1, "Error"), CRASHED), (ContainerStateTerminated(137, "OOMKilled"), OUT_OF_MEMORY)],
    ids=["ended", "out of memory"],
)
def test_repeated_exit_keeps_the_reason_crash_loop(ended: ContainerStateTerminated, problem: PodProblem) -> None:
    again = ContainerStatus("main", 3, ContainerState(terminated=ended))

    assert ended_problem(again, "Terminated") == problem == waiting_problem(_waiting("CrashLoopBackOff", "", ended))


@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(ContainerStateTerminated(255, "Unknown"), id="containerd after a restart of the node"),
        pytest.param(ContainerStateTerminated(137, "ContainerStatusUnknown", "The container could not be located when the Pod "
            "was terminated"), id="the kubelet cannot find it"),
    ],
)  # fmt: skip
def test_container_that_its_node_lost_is_told_as_such(ended: ContainerStateTerminated) -> None:
    at_once = ended_problem(ContainerStatus("main", state=ContainerState(terminated=ended)), "-")
    again = waiting_problem(_waiting("CrashLoopBackOff", "", ended))
    lost = PodProblem("ContainerStatusUnknown", "its node lost it, as by a restart of the node", 'container "main"')

    assert [at_once, again] == [lost, lost]
    assert {each and each.remedy for each in (at_once, again)} == {"see kubectl describe node {node}"}


def test_exit_code_255_alone_is_that_of_the_program() -> None:
    ended = ContainerStatus("main", state=ContainerState(terminated=ContainerStateTerminated(255, "Error")))

    assert ended_problem(ended, "-") == PodProblem("Error", 'container "main" ended with exit code 255')


def test_a_long_cause_is_cut() -> None:
    problem = waiting_problem(_waiting("CreateContainerError", "x" * 5000))

    assert problem is not None
    assert len(problem.cause) == MAX_CAUSE_LENGTH


NO_FILE = 'exec: "/usr/bin/nope": stat /usr/bin/nope: no such file or directory'
OF_CONTAINERD = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    f"unable to start container process: error during container init: {NO_FILE}"
)


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (OF_CONTAINERD, NO_FILE),
        (f"{OF_CONTAINERD}: unknown", NO_FILE),
        ("container create failed: executable file `/nope` not found: No such file or directory",
         "executable file `/nope` not found: No such file or directory"),
        (("Error response from daemon: OCI runtime create failed: container_linux.go:380: starting container process caused: "
         'exec: "nope": executable file not found in $PATH: unknown'), 'exec: "nope": executable file not found in $PATH'),
        ('exec "keys" not found', 'exec "keys" not found'),
    ],
    ids=["containerd", "containerd, unknown", "CRI-O", "Docker", "no account of a runtime"],
)  # fmt: skip
def test_container_that_cannot_start_tells_the_cause_without_the_account_of_the_runtime(
    message: str, cause: str
) -> None:
    at_once = ended_problem(
        ContainerStatus("main", state=ContainerState(terminated=ContainerStateTerminated(128, "StartError", message))),
        "-",
    )
    again = waiting_problem(_waiting("CrashLoopBackOff", "", ContainerStateTerminated(128, "StartError", message)))
    found = [at_once, again, waiting_problem(_waiting("RunContainerError", message))]

    assert [each and each.message for each in found] == [f'container "main": {cause}'] * 3
    assert {each and each.remedy for each in found} == {"correct {image} or {command}"}


_WAIT = "wait, because the kubelet tries again; else see kubectl describe pod {pod}"
_DEVICES = "ask an administrator to check the devices of node {node}"
_MOUNTS = "correct volumes in {template}, and volumeMounts of the container there"
_OF_NODE = "ask an administrator to check node {node}, see kubectl describe node {node}"


@pytest.mark.parametrize("reason", ["CreateContainerError", "RunContainerError", "StartError"])
@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("context deadline exceeded", _WAIT),
        ('failed to reserve container name "main_x_1": name "main_x_1" is reserved for "0f6d8837bc"', _WAIT),
        ("Conflict. The container name /k8s_main is already in use by container 0f6d8837bc", _WAIT),
        ("unable to apply cgroup configuration: mkdir /sys/fs/cgroup/kubepods: no space left on device", _OF_NODE),
        ("write /var/lib/containerd/x: no space left on device", _OF_NODE),
        ("error running prestart hook #0: exit status 1: nvidia-container-cli: initialization error", _DEVICES),
        ("failed to inject CDI devices: unresolvable CDI devices example.com/gpu=0", _DEVICES),
        ('error gathering device information while adding custom device "/dev/fuse": no such file or directory', _DEVICES),
        ("exec /usr/bin/sh: argument list too long",
         "shorten {container}.env and the arguments, or mount long values as files"),
        ("failed to start shim: failed to set MOUNT_ATTR_IDMAP on /x: invalid argument",
         "take hostUsers out of {template}, or choose nodes whose file systems support it"),
        ('exec: "/usr/bin/flame": exec format error',
         "correct {image}, or choose nodes of its platform by {template}.nodeSelector"),
        ("unable to find user flame: no matching entries in passwd file",
         "correct {image}, or set {template}.securityContext.runAsUser"),
        ('cannot load seccomp profile "/var/lib/kubelet/seccomp/x.json": no such file or directory',
         "an administrator puts the profile on the nodes, or change seccompProfile in {template}"),
        ('chdir to cwd ("/work") set in config.json failed: permission denied',
         "correct workingDir of the container in {template}"),
        ('error mounting "/a" to rootfs at "/etc/x": not a directory: Are you trying to mount a directory onto a file', _MOUNTS),
        ('create mountpoint for /data mount: make mountpoint "/data": mkdirat /data: read-only file system', _MOUNTS),
        ('ImageVolumeMountFailed: failed to stat image path "models": no such file or directory', _MOUNTS),
        ("unable to apply caps: operation not permitted", "change {container}, or see kubectl describe pod {pod}"),
        ("no command specified", "correct {image} or {command}"),
        ('exec: "timeout": executable file not found in $PATH', "correct {image} or {command}"),
        ('exec: "/usr/bin/nvidia-smi": stat /usr/bin/nvidia-smi: no such file or directory', "correct {image} or {command}"),
    ],
)  # fmt: skip
def test_container_that_cannot_start_is_told_with_what_keeps_it_from_starting(
    reason: str, words: str, remedy: str
) -> None:
    if reason == "StartError":
        ended = ContainerStateTerminated(128, reason, words)
        found = [
            ended_problem(ContainerStatus("main", state=ContainerState(terminated=ended)), "-"),
            waiting_problem(_waiting("CrashLoopBackOff", "", ended)),
        ]
    else:
        found = [waiting_problem(_waiting(reason, words))]

    assert {each and each.remedy for each in found} == {remedy}


@pytest.mark.parametrize(
    ("reason", "message", "cause", "remedy"),
    [
        ("SignatureValidationFailed", "A signature was required, but no signature exists", "its signature is not valid",
         "correct {image}"),
        ("RegistryUnavailable", "pinging it: 503 Service Unavailable", "the registry cannot be reached",
         "correct {image}, or the network between the nodes and the registry"),
    ],
)  # fmt: skip
def test_kubelet_that_waits_is_told_with_the_cause_of_its_last_attempt(
    reason: str, message: str, cause: str, remedy: str
) -> None:
    """Each turn would be another status."""
    failed = "signature validation failed" if reason.startswith("Sig") else "registry is unavailable"
    at_first = f"image pull failed for {IMAGE} because the {failed}: {message}"
    then = f'Back-off pulling image "{IMAGE}": {reason}: {at_first}'

    for problem in (waiting_problem(_waiting(reason, at_first)), waiting_problem(_waiting("ImagePullBackOff", then))):
        assert problem == PodProblem("ImagePullFailed", cause, f'image "{IMAGE}"')
        assert problem.remedy == remedy


@pytest.mark.parametrize(
    ("message", "cause", "remedy"),
    [
        ('connection error: desc = "transport: Error while dialing: dial unix /run/x.sock: connect: connection refused"',
         "the container runtime of the node does not answer", "see kubectl describe node {node}"),
        ("failed to extract layer: lsetxattr: operation not permitted: unknown", "operation not permitted",
         "correct {image}; see kubectl describe pod {pod}"),
        ("failed commit on ref x: unexpected size 1, expected 2: failed precondition", "unexpected size 1, expected 2",
         "correct {image}; see kubectl describe pod {pod}"),
        ("unexpected media type text/html for sha256:0f6d: not found",
         "the registry does not answer with an image that the node can read", "correct {image}"),
        ("Source image rejected: Running image docker://x is rejected by policy.",
         "a policy of the node or of the registry refuses it",
         "correct {image}, or an administrator changes that policy"),
        ("unexpected status from GET request to https://x/v2/: 412 Precondition Failed",
         "a policy of the node or of the registry refuses it", "correct {image}, or an administrator changes that policy"),
        ('choosing an image from manifest list docker://x: no image found in image index for architecture arm64, variant "v8"',
         "it has no variant for the platform of the node",
         "correct {image}, or choose other nodes by {template}.nodeSelector"),
        ("current user has no permission to pull this image", "access denied, or no such repository",
         "correct {image}, or add a Secret to {template}.imagePullSecrets"),
        ("write /var/lib/x: no space left on device", "no space is left on the node",
         "an administrator frees disk space on node {node}"),
    ],
)  # fmt: skip
def test_image_that_cannot_be_pulled_for_another_reason_than_its_name_is_told_as_such(
    message: str, cause: str, remedy: str
) -> None:
    problem = waiting_problem(_waiting("ErrImagePull", message))

    assert problem == PodProblem("ImagePullFailed", cause, f'image "{IMAGE}"')
    assert problem.remedy == remedy


@pytest.mark.parametrize(
    ("exit_code", "more"),
    [
        (1, ""),
        (137, ", and kubectl describe pod {pod} for a probe that failed"),
        (143, ", and kubectl describe pod"),
        (132, "; its image may need a processor that node {node} does not have"),
        (135, "; it may need more shared memory, by an emptyDir with medium Memory at /dev/shm in {template}"),
    ],
)
def test_container_that_somebody_ended_is_told_with_the_events(exit_code: int, more: str) -> None:
    """The kubelet ends a container whose liveness probe fails, and only its events say so."""
    ended = ContainerStateTerminated(exit_code, "Error")
    at_once = ended_problem(ContainerStatus("main", state=ContainerState(terminated=ended)), "-")
    again = waiting_problem(_waiting("CrashLoopBackOff", "", ended))

    assert at_once is not None
    assert at_once.remedy.startswith(f"see kubectl logs {{pod}}{{of}}{more}")
    assert again is not None
    assert again.remedy.startswith(f"see kubectl logs {{pod}}{{of}} --previous{more}")


_OF_VOLUME = "example.com/models/llm:1"


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("failed to sync configmap cache: timed out waiting for the condition",
         "wait, because the kubelet tries again; else see"),
        ('Get "https://10.0.0.1:443/api/v1/namespaces/a/secrets/b": dial tcp 10.0.0.1:443: connect: connection refused',
         "wait, because the kubelet tries again; else see"),
        ('secret "b" not found', "create or correct it, or change"),
        ("couldn't find key c in Secret a/b", "create or correct it, or change"),
    ],
)  # fmt: skip
def test_kubelet_that_has_not_heard_of_a_secret_yet_is_told_as_such(message: str, remedy: str) -> None:
    problem = waiting_problem(_waiting("CreateContainerConfigError", message))

    assert problem is not None
    assert problem.remedy.startswith(remedy)


@pytest.mark.parametrize(("words", "told"), [(900, True), (1100, False)])
def test_beginning_of_what_a_registry_says_is_searched_for_causes(words: int, *, told: bool) -> None:
    """Its owner may let it say thousands of words, and hundreds of Pods tell them."""
    problem = waiting_problem(_waiting("ErrImagePull", f"{'a ' * (words // 2)}not found: said so"))

    assert problem is not None
    assert (problem.cause == NOT_FOUND) == told


@pytest.mark.parametrize(
    ("reason", "message", "cause", "remedy"),
    [
        ("ImagePullBackOff", f'Back-off pulling image "{_OF_VOLUME}"', "", ""),
        ("ImagePullBackOff",
            f'Back-off pulling image "{_OF_VOLUME}": ErrImagePull: rpc error: code = NotFound desc = {_OF_VOLUME}: not found',
            NOT_FOUND, "correct {template}.volumes"),
        ("ErrImagePull", f'failed to pull and unpack image "{_OF_VOLUME}": failed to resolve reference: pull access denied',
            DENIED, "correct {template}.volumes, or add a Secret to {template}.imagePullSecrets"),
        ("ErrImageNeverPull", f'Container image "{_OF_VOLUME}" is not present with pull policy of Never',
            "it is not on the node, or not for this Pod, and imagePullPolicy is Never",
            "load the image on the node, or change {template}.volumes"),
    ],
)  # fmt: skip
def test_image_of_a_volume_is_not_told_as_that_of_the_container(
    reason: str, message: str, cause: str, remedy: str
) -> None:
    problem = waiting_problem(_waiting(reason, message))

    assert problem == PodProblem("ImagePullFailed", cause, f'image "{_OF_VOLUME}" of a volume of container "main"')
    assert problem.remedy == remedy


@pytest.mark.parametrize(
    ("image", "named"),
    [
        ("busybox", "registry.example.com/library/busybox:latest"),
        ("docker.example.com/flame/executor:v1", "registry.example.com/flame/executor:v1"),
        ("localhost:5000/executor", "localhost:5000/executor:latest"),
        ("flame/executor:v1@sha256:0123", "registry.example.com/flame/executor@sha256:0123"),
    ],
)
def test_longer_name_of_an_image_is_still_that_of_the_container(image: str, named: str) -> None:
    state = ContainerState(
        waiting=ContainerStateWaiting("ErrImagePull", f'failed to pull and unpack image "{named}": not found')
    )

    assert waiting_problem(ContainerStatus("main", 0, state, image=image)) == PodProblem(
        "ImagePullFailed", NOT_FOUND, f'image "{image}"'
    )
