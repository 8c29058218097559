"""The images that the node gets, without building any."""

from pathlib import Path

import pytest

from tools.node import images
from tools.node.files import ImageError

_BINARIES = ("flame-session-manager", "flame-executor-manager", "flmping-service")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory like that of Flame, which the environment names."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "migrations" / "sqlite").mkdir(parents=True)
    (home / "migrations" / "sqlite" / "1_init.sql").touch()
    for name in _BINARIES:
        (home / "bin" / name).write_text(name)
    monkeypatch.setenv("FLAME_HOME", str(home))
    return home


class _Buildah:
    """Notes what buildah is told, and pushes empty archives."""

    def __init__(self) -> None:
        self.told: list[list[str]] = []

    def run(self, command: list[str], _environment: dict[str, str] | None = None) -> str:
        words = command[5:]  # after the program and its storage
        self.told.append(words)
        if words[0] == "push":
            archive, _, _ = words[-1].removeprefix("docker-archive:").partition(":")
            Path(archive).touch()
        return "container"

    def commands(self, image: str) -> list[list[str]]:
        """The steps to an image, from its `from` to its `commit`."""
        [end] = (number for number, words in enumerate(self.told) if words[0] == "commit" and words[-1].endswith(image))
        begin = max(number for number, words in enumerate(self.told[:end]) if words[0] == "from")
        return self.told[begin : end + 1]


@pytest.fixture
def buildah(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Buildah:
    buildah = _Buildah()
    monkeypatch.setattr(images, "_run", buildah.run)
    monkeypatch.setattr(images._Workshop, "_ensure_base", lambda _workshop: None)
    monkeypatch.setattr(images, "cache_directory", lambda: tmp_path / "cache")
    return buildah


def _ensure() -> set[str]:
    return {archive.name.rpartition("-")[0] for archive in images.ensure_images(lambda _line: None).flame}


def test_standins_are_all_there_is_where_the_environment_names_no_flame(
    buildah: _Buildah, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLAME_HOME", raising=False)

    standins = {f"flame-{part}-v0.6.0" for part in ("session-manager", "executor-manager", "object-cache")}
    assert _ensure() == standins
    assert set(images.disrupted_images().values()) < set(images.FLAME.values())
    assert not any("real" in word for words in buildah.told for word in words)


@pytest.mark.parametrize("part", ["session-manager", "executor-manager"])
def test_flames_own_binaries_take_the_place_of_standins_in_images_beside_them(
    home: Path, buildah: _Buildah, part: str
) -> None:
    assert _ensure() > {f"flame-{part}-v0.6.0", f"flame-{part}-v0.6.0-real"}

    assert images.disrupted_images()[part] == f"xflops/flame-{part}:v0.6.0-real"
    real, standin = (buildah.commands(image[part]) for image in (images.FLAME_REAL, images.FLAME))
    copied = ["copy", "container", str(home / "bin" / f"flame-{part}"), f"/usr/local/flame/bin/flame-{part}"]
    assert copied in real
    assert [words[:3] for words in real].index(copied[:3]) > [words[2] for words in real].index(str(images.STANDINS))
    assert not any(str(home) in word for words in standin for word in words)


def test_image_is_built_again_when_a_binary_changes(home: Path, buildah: _Buildah) -> None:
    _ensure()
    buildah.told.clear()
    _ensure()
    assert not any(words[0] == "commit" for words in buildah.told)

    (home / "bin" / "flmping-service").write_text("another")
    _ensure()

    built = {words[-1] for words in buildah.told if words[0] == "commit"}
    assert built == {f"localhost/{image}" for image in images.FLAME_REAL.values()}


def test_directory_without_the_binaries_is_refused_before_anything_is_built(home: Path, buildah: _Buildah) -> None:
    (home / "bin" / "flame-executor-manager").unlink()

    with pytest.raises(ImageError, match="lacks bin/flame-executor-manager"):
        _ensure()
    assert buildah.told == []
