"""The common base of all objects of the API."""

from flamectl_operator.api.component_status import SessionManagerStatus, TlsStatus
from flamectl_operator.api.model import OpenModel


def test_objects_are_equal_when_their_fields_are() -> None:
    ready = SessionManagerStatus(ready=1)
    assert ready == SessionManagerStatus(ready=1)
    assert hash(ready) == hash(SessionManagerStatus(ready=1))
    assert ready != SessionManagerStatus(ready=0)


def test_objects_of_different_kinds_differ() -> None:
    class Other(SessionManagerStatus):
        """The same fields under another name."""

    assert SessionManagerStatus() != Other()
    assert SessionManagerStatus() != TlsStatus()
    assert SessionManagerStatus() != {}


def test_fields_that_an_open_object_passes_through_count() -> None:
    one, other = (OpenModel.model_validate({"hostNetwork": value}) for value in (True, False))
    assert one == OpenModel.model_validate({"hostNetwork": True})
    assert one != other
