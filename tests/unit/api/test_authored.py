"""The input of a revision hash: only the fields that the author set."""

import json
from typing import Any

from flamectl_operator.api.checks.validation import parse_spec
from tests.unit.api.rejections import MINIMAL, changed


def _authored(**change: Any) -> dict[str, Any]:
    authored = parse_spec(changed(MINIMAL, {"spec": change})["spec"], "my-flame").authored()
    # Whatever comes out must be fit for a hash.
    json.dumps(authored)
    return authored


def _limits(cpu: Any) -> dict[str, Any]:
    return {"resources": {"limits": {"cpu": cpu}}}


def test_authored_part_of_a_minimal_spec_is_its_images() -> None:
    assert _authored() == MINIMAL["spec"]


def test_values_that_differ_from_the_default_are_included() -> None:
    authored = _authored(
        executorManager={"replicas": 0, "updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
        objectCache={"networkInterface": "ens1"},
        suspend=True,
        configOverrides={"cluster": {"limits": None}},
    )

    assert authored == {
        "sessionManager": MINIMAL["spec"]["sessionManager"],
        "executorManager": {
            **MINIMAL["spec"]["executorManager"],
            "replicas": 0,
            "updateStrategy": {"rollingUpdate": {"maxSurge": 1}},
        },
        "objectCache": {"networkInterface": "ens1"},
        "suspend": True,
        "configOverrides": {"cluster": {"limits": None}},
    }


def test_equal_quantities_are_the_same() -> None:
    assert _authored(executorManager=_limits(1)) == _authored(executorManager=_limits("1000m"))
    assert _authored(executorManager=_limits("1")) != _authored(executorManager=_limits("2"))


def test_the_environment_keeps_its_order_and_loses_its_defaults() -> None:
    authored = _authored(
        executorManager={
            "env": [
                {"name": "B", "value": ""},
                {"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": False}}},
                {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1000m"}}},
            ]
        }
    )

    assert authored["executorManager"]["env"] == [
        {"name": "B"},
        {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
        {"name": "D", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1"}}},
    ]


def test_empty_parts_within_a_pod_template_are_kept() -> None:
    template = {"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}

    assert _authored(executorManager={"podTemplate": template})["executorManager"]["podTemplate"] == template
