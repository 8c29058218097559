"""python -m tools.demo [--keep] [--plain] [--pace SECONDS]."""

import argparse
import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import yaml
from rich.console import Console

from tools.controlplane import ControlPlaneError
from tools.controlplane.errors import tail
from tools.demo.lines import Lines, timed
from tools.demo.model import Audience
from tools.demo.player import ChapterFailedError, Player
from tools.demo.stage import Stage, stage
from tools.demo.story import Chapter, chapters, to_try
from tools.demo.view import Screen
from tools.installation import ROOT

_FAILURE = 1
_SIGNALLED = 128  # what shells add to the number of the signal that ended a command
#: Ctrl-C, the end asked for by a supervisor, a terminal that was closed.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds that a person needs to read a command, and again to look at what came of it.
_PACE = 2.0
_LOG_LINES = 25
#: The errors of writing to a pipe that nobody reads any more, and to a terminal that was closed.
_NOBODY_READS = (errno.EPIPE, errno.EIO)


class _EndedError(BaseException):
    """A signal has come. Not an Exception, as KeyboardInterrupt: nobody may take it for a failure."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit code."""
    options = _parser().parse_args(arguments)
    for number in _SIGNALS:
        # A signal that nohup ignores stays ignored. A script's background processes ignore Ctrl-C, but this one hears it.
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        # The commands that are shown are the ones that are run, and they name files from the root.
        with contextlib.chdir(ROOT), foreground():
            return _Demo(options).run()
    except ControlPlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return _FAILURE
    except OSError as error:
        if error.errno not in _NOBODY_READS:
            raise
        # Python writes out its buffers at its end, and must not meet the same error there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _SIGNALLED + signal.SIGPIPE
    except _EndedError as end:
        return _SIGNALLED + end.number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.demo", description="Shows a FlameCluster live, on a local control plane of its own."
    )
    parser.add_argument("--keep", action="store_true", help="do not delete the cluster; stay up until Ctrl-C")
    parser.add_argument("--plain", action="store_true", help="print lines, as is done where there is no terminal")
    parser.add_argument(
        "--pace",
        type=float,
        metavar="SECONDS",
        help=f"time to read a command and its outcome (default: {_PACE:.0f}; 0 for plain lines)",
    )
    return parser


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    # Once only: what follows is the way out, and nothing may stay half-way on it.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise _EndedError(number)


class _Demo:
    """A run of the demo."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._console = Console()
        self._keep: bool = options.keep
        # FORCE_COLOR makes rich take everything for a terminal: ask the file itself.
        self._plain: bool = options.plain or not sys.stdout.isatty() or self._console.is_dumb_terminal
        default = 0.0 if self._plain else _PACE
        self._pace: float = default if options.pace is None else options.pace
        self._start = time.monotonic()
        #: Whether the operator ended by itself while the cluster was kept.
        self._operator_ended = False

    def run(self) -> int:
        """Play everything, and return the exit code."""
        with stage(self._tell) as built:
            return self._play_on(built) or self._stop_operator(built)

    def _play_on(self, built: Stage) -> int:
        story = chapters(keep=self._keep)
        try:
            with self._audience() as audience:
                player = Player(built, audience, self._pace, self._clock, time.sleep)
                took = player.play(story)
                if self._keep:
                    self._stay(player, built)
        except ChapterFailedError as failure:
            self._explain(failure, built)
            return _FAILURE
        if not self._plain:
            # The screen with all of it is gone.
            self._sum_up(story, took)
        return 0

    def _audience(self) -> contextlib.AbstractContextManager[Audience]:
        if self._plain:
            return contextlib.nullcontext(Lines(_print))
        return Screen(self._console)

    def _stay(self, player: Player, built: Stage) -> None:
        title = "The cluster stays up until Ctrl-C. In another terminal:"
        notes = (title, *built.environment(), *to_try(), *built.places())
        # The demo told the user to end it this way, so it is no failure.
        with contextlib.suppress(_EndedError):
            player.stay(notes)
            self._operator_ended = True

    def _stop_operator(self, built: Stage) -> int:
        """Whether the operator ends as it should; it has heard of a Ctrl-C as well."""
        trouble = built.trouble()
        code = built.operator.stop()
        if code == 0 and not self._operator_ended:
            return 0
        print(f"{trouble or f'the operator ended with {code}'}; the end of its log:", file=sys.stderr)
        print(tail(built.operator.log, _LOG_LINES), file=sys.stderr)
        return _FAILURE

    def _sum_up(self, story: Sequence[Chapter], took: Sequence[float]) -> None:
        for number, (chapter, seconds) in enumerate(zip(story, took, strict=True), start=1):
            _print(f"{number:3}  {seconds:4.1f} s  {chapter.title}")

    def _explain(self, failure: ChapterFailedError, built: Stage) -> None:
        """Print what somebody needs who wants to know why."""
        cluster = failure.last.cluster
        status = "(there is no FlameCluster)" if cluster is None else yaml.safe_dump(cluster.status)
        pods = [f"{pod.name}: {pod.phase}{', ready' if pod.ready else ''}" for pod in failure.last.pods]
        parts = (
            ("Failed", failure.chapter.title),
            ("Expected", failure.chapter.expected),
            ("But", failure.reason),
            ("Last status", status),
            ("Last Pods", "\n".join(pods) or "(none)"),
            ("Other objects", "\n".join(failure.last.others) or "(none)"),
            ("End of the operator's log", tail(built.operator.log, _LOG_LINES)),
        )
        for heading, text in parts:
            print(f"{heading}:\n{_indented(text)}", file=sys.stderr, flush=True)

    def _tell(self, text: str) -> None:
        _print(timed(self._clock(), text))

    def _clock(self) -> float:
        return time.monotonic() - self._start


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip().splitlines())


def _print(line: str) -> None:
    # A pipe has a buffer, and whoever reads from it wants to see what happens now.
    print(line, flush=True)


@contextmanager
def foreground() -> Iterator[None]:
    """Be the terminal's foreground process group, as a shell's command is, and give the terminal back in the end.

    A terminal sends Ctrl-C to all processes of its foreground group. `make` is in the group that this process was started
    in, and would end with an error although the demo ends well. Without a terminal this changes nothing.
    """
    terminal = _terminal()
    if terminal is None:
        yield
        return
    before = os.getpgrp()
    # A process of the background that moves the foreground gets TTOU. Ctrl-Z would stop the demo and leave nobody to go on.
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTTOU, signal.SIGTSTP)}
    os.setpgid(0, 0)
    os.tcsetpgrp(terminal, os.getpgrp())
    try:
        yield
    finally:
        os.tcsetpgrp(terminal, before)
        os.setpgid(0, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _terminal() -> int | None:
    """Return the terminal whose foreground group this process is in and may leave, if there is one."""
    try:
        number = sys.stdin.fileno()
        if os.tcgetpgrp(number) != os.getpgrp() or os.getsid(0) == os.getpid():
            return None
    except (OSError, ValueError):
        # No file, or none that is the terminal of this session.
        return None
    return number


if __name__ == "__main__":
    sys.exit(main())
