import pytest

from flamectl_operator.kube.resources import PODS


def test_names_cannot_leave_their_place_in_the_path() -> None:
    assert PODS.path("a/b", "../c") == "/api/v1/namespaces/a%2Fb/pods/..%2Fc"


@pytest.mark.parametrize("parts", [(None, "a", None), ("ns", None, "status"), ("ns", "", None), ("", None, None)])
def test_path_to_another_object_is_refused(parts: tuple[str | None, str | None, str | None]) -> None:
    with pytest.raises(ValueError, match="name"):
        PODS.path(*parts)
