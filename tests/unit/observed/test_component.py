"""The end of a Pod."""

import pytest

from flamectl_operator.observed.component import Component, terminal_since
from tests.unit.builders import ago, executor, later


@pytest.mark.parametrize(
    ("component", "since"),
    [
        pytest.param(executor(0, "failed", since=ago(40)), ago(40), id="its container's end"),
        pytest.param(executor(0, "failed", since=ago(40), written=ago(7)), ago(40), id="not what was written later"),
        pytest.param(executor(0, "failed", since=later(600), written=ago(7)), ago(7), id="its node's clock is ahead"),
        pytest.param(executor(0, "failed", containers=[], written=ago(7)), ago(7), id="the last write to it"),
        pytest.param(executor(0, "failed", containers=[]), ago(3600), id="its creation"),
    ],
)
def test_terminal_pod_ended_with_its_last_container_or_the_last_write_to_it(
    component: Component, since: object
) -> None:
    assert terminal_since(component) == since
