"""Names of children, and the ids in names of executors."""

import pytest

from flamectl_operator.desired import names


def test_names_equal_the_documented_ones() -> None:
    assert names.config_map("my-flame") == "my-flame-config"
    assert names.session_manager("my-flame") == "my-flame-session-manager"
    assert names.object_cache("my-flame") == "my-flame-object-cache"
    assert names.executor("my-flame", 7) == "my-flame-executor-manager-7"


@pytest.mark.parametrize("number", [0, 1, 10, 9_999_999_999])
def test_an_executors_name_gives_its_id_back(number: int) -> None:
    assert names.executor_id("my-flame", names.executor("my-flame", number)) == number


@pytest.mark.parametrize(
    ("cluster", "pod"),
    [
        pytest.param("a", "a-executor-manager-", id="no number"),
        pytest.param("a", "a-executor-manager-01", id="leading zero"),
        pytest.param("a", "a-executor-manager-00", id="two zeros"),
        pytest.param("a", "a-executor-manager--1", id="negative"),
        pytest.param("a", "a-executor-manager-+1", id="sign"),
        pytest.param("a", "a-executor-manager-1_0", id="underscore, which Python's int takes"),
        pytest.param("a", "a-executor-manager- 1", id="space, which Python's int takes"),
        pytest.param("a", "a-executor-manager-٣", id="digit of another script"),
        pytest.param("a", "a-executor-manager-²", id="superscript"),
        pytest.param("a", "a-executor-manager-1a", id="letters after the number"),
        pytest.param("a", "a-executor-manager-1-executor-manager-2", id="executor of a cluster named like an executor"),
        pytest.param("a-executor-manager-1", "a-executor-manager-1", id="the cluster's own name"),
        pytest.param("a-executor-manager-1", "a-executor-manager-12", id="executor of the shorter name"),
        pytest.param("a", "b-executor-manager-1", id="other cluster"),
        pytest.param("a", "aa-executor-manager-1", id="longer cluster name"),
        pytest.param("a", "a-session-manager", id="session manager"),
        pytest.param("a", "a-session-manager-1", id="session manager with a number"),
        pytest.param("a", "x-a-executor-manager-1", id="in the middle"),
    ],
)
def test_other_names_are_not_executors(cluster: str, pod: str) -> None:
    assert names.executor_id(cluster, pod) is None


def test_a_cluster_named_like_an_executor_has_executors_of_its_own() -> None:
    pod = "a-executor-manager-1-executor-manager-2"

    assert names.executor_id("a-executor-manager-1", pod) == 2
