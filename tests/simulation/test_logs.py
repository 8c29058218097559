"""The log of a process in which worlds ran."""

import logging

from structlog.testing import capture_logs

from flamectl_operator.reconcile.lock import lock_wait
from tests.simulation.conftest import kept_logs
from tests.simulation.world import listen_to_logs


def test_module_that_wrote_its_first_line_in_a_world_logs_again_after_it() -> None:
    with kept_logs():
        listen_to_logs(logging.ERROR)
        lock_wait._LOG.error("in a world")

    with capture_logs() as lines:
        lock_wait._LOG.error("after it")

    assert [line["event"] for line in lines] == ["after it"]
