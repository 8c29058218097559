"""Objects with invalid times can be read."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from flamectl_operator.kube.http import wire
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.views import LeaseView, parse_time
from flamectl_operator.observed import pods

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
ODD = ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "10000-01-01T00:00:00Z", "soon", ""]


def _pod(time: str | None, written: str | None = None) -> PodView:
    ended = {"name": "other", "state": {"terminated": {"exitCode": 1, "finishedAt": time}}}
    pod = {
        "metadata": {
            "name": "a",
            "creationTimestamp": "2026-01-02T12:00:00Z",
            "managedFields": [{"time": written}, {"time": time}],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": time}],
            "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": time}}}],
        },
    }
    view = wire.decode(PodView, msgspec.json.encode(pod))
    pod["status"]["containerStatuses"] = [ended]
    assert pods.finished_at(wire.decode(PodView, msgspec.json.encode(pod))) == pods.running_since(view, "main")
    return view


def test_times_are_read_where_they_are_used() -> None:
    pod = _pod("2026-01-02T12:00:05Z", "2026-01-02T12:00:03Z")
    assert pods.ready_since(pod) == pods.running_since(pod, "main") == NOON + timedelta(seconds=5)
    assert pod.metadata.last_written == NOON + timedelta(seconds=5)


@pytest.mark.parametrize("odd", [*ODD, None])
def test_invalid_time_is_unknown_and_the_object_is_decoded(odd: str | None) -> None:
    pod = _pod(odd, "2026-01-02T12:00:03Z")
    assert pod.name == "a"
    assert pods.is_ready(pod)
    assert pods.ready_since(pod) is None
    assert pods.running_since(pod, "main") is None
    assert pod.metadata.last_written == NOON + timedelta(seconds=3)
    assert _pod(odd, odd).metadata.last_written == NOON


@pytest.mark.parametrize("odd", ODD)
def test_lease_with_invalid_times_is_decoded(odd: str) -> None:
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "x", "acquireTime": odd, "renewTime": odd}}
    assert wire.decode(LeaseView, msgspec.json.encode(lease)).spec.holder_identity == "x"


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-02T12:00:00Z", NOON),
        ("2026-01-02T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
        ("2026-01-02T14:00:00+02:00", NOON),
        ("2026-01-02T12:00:00", None),
        ("2026-01-02", None),
        (None, None),
    ],
)
def test_valid_formats_of_times(text: str | None, time: datetime | None) -> None:
    assert parse_time(text) == time
