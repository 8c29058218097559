"""Shared by tests of several layers: the order of tests, and the image of the Dockerfile."""

import fcntl
import gc
import os
import shutil
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from flamectl_operator.process.memory import COLLECTION_THRESHOLDS
from tests.image import dockerfile, replay, sandbox
from tests.image.replay import Image
from tests.order import dealt

ROOT = Path(__file__).resolve().parent.parent

# On a loaded machine an example takes as long as it takes, and so does finding one.
settings.register_profile("any machine", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for what runs in the background, and the processes of tests would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the collector of garbage away from modules and tests, and let it run as rarely as in the operator.

    Collecting tests takes a third less time without it, and simulated worlds, whose objects live for long, a tenth.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*COLLECTION_THRESHOLDS)
        gc.enable()


@pytest.hookimpl(trylast=True)  # after all has been shuffled
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let each worker begin with the tests that take long."""
    items[:] = dealt(items, getattr(config, "workerinput", {}).get("workercount", 1))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Remove the image: it is large, and say nothing about what failed."""
    if not hasattr(session.config, "workerinput"):  # other workers may still need it
        scratch: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        shutil.rmtree(scratch.getbasetemp() / "image", ignore_errors=True)


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, built once in a test run, by whichever worker needs it first."""
    reason = sandbox.why_not()
    if reason is not None:
        pytest.skip(reason)
    scratch = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        scratch = scratch.parent
    done = scratch / "image" / "done"
    with (scratch / "image.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            stages = dockerfile.read((ROOT / "Dockerfile").read_text(encoding="utf-8"), replay.BASE_PATH)
            return replay.Image(Path(done.read_text(encoding="utf-8")), stages[-1])
        shutil.rmtree(scratch / "image", ignore_errors=True)  # of a worker that failed
        image = replay.build(ROOT, scratch / "image")
        done.write_text(str(image.root), encoding="utf-8")
    return image
