"""The limits of the process."""

from __future__ import annotations

import resource

import pytest
from pytest_mock import MockerFixture

from flamectl_operator.process.memory import MAX_DESCRIPTORS, raise_descriptor_limit

INFINITE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 4096, 4096),
        (1024, INFINITE, MAX_DESCRIPTORS),
        (1024, 10**6, MAX_DESCRIPTORS),
        (4096, 4096, None),
        (INFINITE, INFINITE, None),
    ],
)
def test_the_soft_limit_is_raised_to_the_hard_one(
    mocker: MockerFixture, soft: int, hard: int, raised: int | None
) -> None:
    mocker.patch("resource.getrlimit", return_value=(soft, hard))
    setting = mocker.patch("resource.setrlimit")
    raise_descriptor_limit()
    assert [call.args[1] for call in setting.call_args_list] == ([] if raised is None else [(raised, hard)])


def test_refused_limit_does_not_stop_the_operator(mocker: MockerFixture) -> None:
    mocker.patch("resource.getrlimit", return_value=(1024, 4096))
    mocker.patch("resource.setrlimit", side_effect=PermissionError)
    raise_descriptor_limit()
