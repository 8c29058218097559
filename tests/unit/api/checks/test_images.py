"""The version of Flame in an image's tag."""

import pytest

from flamectl_operator.api.checks.images import tagged_version


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("xflops/flame-session-manager:v0.6.0", (0, 6, 0)),
        ("xflops/flame-session-manager:0.7", (0, 7, 0)),
        ("flame:v0.6.1-rc2", (0, 6, 1)),
        ("flame:0.6.0-debian-12", (0, 6, 0)),
        ("registry.example:5000/team/flame:v1.20.3", (1, 20, 3)),
        ("registry.example:5000/flame:v0.5.0@sha256:0123", (0, 5, 0)),
        ("flame", None),
        ("registry.example:5000/flame", None),
        ("flame@sha256:0123", None),
        ("flame:latest", None),
        ("flame:20260801", None),
        ("flame:main-0.6", None),
        ("flame:0.6rc1", None),
        ("flame:00.6.0", None),
        ("", None),
    ],
)
def test_a_tag_names_a_version_only_in_the_form_of_a_release(image: str, version: tuple[int, int, int] | None) -> None:
    assert tagged_version(image) == version


def test_the_minor_version_decides_the_form_of_the_configuration() -> None:
    version = tagged_version("flame:v0.6.3")

    assert version is not None
    assert version.flame_version == "0.6"
