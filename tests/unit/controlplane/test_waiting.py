"""A wait continues after temporary errors of the API server, and ends with permanent ones."""

import subprocess

import pytest

from tools.controlplane.errors import ControlPlaneError, KubectlError, UnavailableError, WaitTimeoutError
from tools.controlplane.waiting import wait_until


def kubectl_error(said: str) -> KubectlError:
    return KubectlError(subprocess.CompletedProcess(["kubectl", "get", "pods"], 1, stdout="", stderr=said))


TRANSIENT = [
    UnavailableError("GET /api: the API server answers 500: oops"),
    kubectl_error("The connection to the server 127.0.0.1:6443 was refused - did you specify the right host or port?"),
    kubectl_error("Unable to connect to the server: read tcp 127.0.0.1:1->127.0.0.1:2: read: connection reset by peer"),
    kubectl_error("Error from server (TooManyRequests): the server has received too many requests"),
    kubectl_error("Error from server: etcdserver: request timed out"),
    kubectl_error(
        "Error from server (InternalError): an error on the server has prevented the request from succeeding"
    ),
]
LASTING = [
    ControlPlaneError("GET /api: the API server answers 403: no"),
    kubectl_error('Error from server (NotFound): pods "EOFS" not found'),
    kubectl_error("error: error parsing STDIN: unexpected EOF"),
    kubectl_error('Error from server (InternalError): Internal error occurred: failed calling webhook "a": refused'),
    kubectl_error("Error from server: Get https://10.128.0.1:10250/logs: dial tcp: connect: connection refused"),
    kubectl_error('Error from server (Forbidden): pods "a" is forbidden: violates PodSecurity "restricted:latest"'),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=str)
def test_temporary_error_is_retried(error: Exception) -> None:
    asked = 0

    def condition() -> bool:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise error
        return True

    assert wait_until(condition, "an answer", interval=0)
    assert asked == 3


def test_timeout_has_the_last_error_in_its_message() -> None:
    error = TRANSIENT[0]

    def condition() -> bool:
        raise error

    with pytest.raises(WaitTimeoutError) as raised:
        wait_until(condition, "an answer", timeout=0, interval=0)
    assert str(raised.value) == f"timed out after 0 s waiting for an answer; the last time: {error}"


@pytest.mark.parametrize("error", [*LASTING, ValueError("a bug")], ids=str)
def test_permanent_error_ends_the_wait(error: Exception) -> None:
    answers = iter([error])

    def condition() -> bool:
        raise next(answers)

    with pytest.raises(type(error)) as raised:
        wait_until(condition, "an answer")
    assert raised.value is error
