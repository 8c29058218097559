"""Reads the version of Flame from an image's tag."""

import re
from typing import NamedTuple

#: `v0.6.0`, `0.6.1-rc2`, `0.6`, `v0.6.0-debian`; nothing is read from `latest`, `main` or `20260801`.
_VERSION = re.compile(
    r"v?(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})(?:\.(0|[1-9][0-9]{0,3}))?(?:[-._+][-._+A-Za-z0-9]*)?"
)


class Version(NamedTuple):
    """A version of Flame. Its first two numbers decide the format of flame-cluster.yaml; a tag may leave out the third, 0."""

    major: int
    minor: int
    patch: int

    @property
    def flame_version(self) -> str:
        """The version in the notation of `spec.flameVersion`."""
        return f"{self.major}.{self.minor}"


def tagged_version(image: str) -> Version | None:
    """Return the version in the tag of an image such as `registry:5000/xflops/flame:v0.6.0@sha256:...`; None without one."""
    _, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
    match = _VERSION.fullmatch(tag)
    if match is None:
        return None
    major, minor, patch = (int(number or 0) for number in match.groups())
    return Version(major, minor, patch)
