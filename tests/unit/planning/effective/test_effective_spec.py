"""The effective spec, and the generation of flame-cluster.yaml."""

import pytest

from flamectl_operator.planning.effective.effective_spec import config_generation
from tests.unit.builders import NOW, cluster_plan, config_map_view, effective, observed


@pytest.mark.parametrize(
    ("wanted", "status", "config_map", "number"),
    [
        pytest.param("a", (0, ""), (0, ""), 1, id="the first"),
        pytest.param("a", (3, "a"), (3, "a"), 3, id="nothing changed"),
        pytest.param("b", (3, "a"), (3, "a"), 4, id="the content changed"),
        pytest.param("a", (2, "x"), (3, "a"), 3, id="a crash between the two writes"),
        pytest.param("b", (2, "x"), (3, "a"), 4, id="a crash between the two writes, and it changed again"),
        pytest.param("x", (2, "x"), (3, "a"), 4, id="a crash between the two writes, and it changed back"),
        pytest.param("a", (3, "a"), (0, ""), 3, id="the ConfigMap is lost"),
        pytest.param("b", (3, "a"), (0, ""), 4, id="the ConfigMap is lost, and it changed"),
        pytest.param("a", (0, ""), (3, "a"), 3, id="the status is lost"),
        pytest.param("a", (4, "a"), (3, "z"), 4, id="an old ConfigMap was put back"),
        pytest.param("a", (0, "a"), (0, ""), 1, id="a hash without a number"),
        pytest.param("a", (3, "a"), (3, "z"), 3, id="somebody edited the ConfigMap's hash"),
        pytest.param("a", (3, "a"), (3, "0"), 3, id="somebody edited the ConfigMap's hash, the other way"),
        pytest.param("b", (3, "a"), (3, "z"), 4, id="somebody edited the ConfigMap's hash, and it changed"),
    ],
)
def test_config_generation_changes_with_the_content(
    wanted: str, status: tuple[int, str], config_map: tuple[int, str], number: int
) -> None:
    assert config_generation(wanted, status, config_map) == number


def test_config_generation_never_decreases_and_is_stable_once_written() -> None:
    for status in ((0, ""), (1, "a"), (2, "b"), (7, "c")):
        for config_map in ((0, ""), (1, "a"), (3, "b"), (7, "c")):
            for wanted in "abc":
                number = config_generation(wanted, status, config_map)
                assert number >= max(status[0], config_map[0])
                assert config_generation(wanted, (number, wanted), config_map) == number
                assert config_generation(wanted, status, (number, wanted)) == number


def test_config_map_is_current_when_owned_and_with_the_desired_content() -> None:
    wanted = effective(config_generation=2)

    for current in (config_map_view(wanted), config_map_view(effective(config_generation=1))):
        assert cluster_plan(observed(config_map=current), wanted).config_map_current
    for other in (
        None,
        config_map_view(wanted, ownerReferences=[]),
        config_map_view(wanted, deletionTimestamp=NOW),
        config_map_view(effective({"objectCache": {"storage": "/data/x"}}, config_generation=2)),
    ):
        assert not cluster_plan(observed(config_map=other), wanted).config_map_current
