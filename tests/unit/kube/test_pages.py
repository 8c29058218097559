"""Pages of a list have as many objects as fit."""

import pytest

from flamectl_operator.kube.client import PAGE_LENGTH, Page, list_pages
from flamectl_operator.kube.errors import AnswerTooLargeError
from flamectl_operator.kube.pod_views import PodView
from flamectl_operator.kube.resources import PODS
from flamectl_operator.kube.views import ObjectMeta


class Lists:
    """A list of objects of given sizes, on pages of limited size."""

    def __init__(self, sizes: list[int], most: int = 4 * 2**20) -> None:
        self.sizes = sizes
        self.most = most
        self.limits: list[int] = []
        self.refused = 0

    async def list_page(
        self, _resource: object, _namespace: str | None, *, label_selector: str, limit: int, continue_token: str
    ) -> Page[PodView]:
        assert label_selector == "app=x"
        self.limits.append(limit)
        begin = int(continue_token or 0)
        sizes = self.sizes[begin : begin + limit]
        if sum(sizes) > self.most and (limit > 1 or sizes[0] > 4 * self.most):
            self.refused += 1
            raise AnswerTooLargeError("too large")
        rest = str(begin + limit) if begin + limit < len(self.sizes) else ""
        items = [PodView(ObjectMeta(name=str(begin + number))) for number in range(len(sizes))]
        return Page(items, "7", rest, sum(sizes))

    async def read(self) -> list[str]:
        pages = list_pages(self, PODS, "ns", label_selector="app=x")  # type: ignore[arg-type]  # a part of a client
        return [item.name async for page in pages for item in page.items]


@pytest.mark.parametrize("size", [100, 10_000, 100_000, 1_000_000, 3_000_000, 9_000_000])
async def test_every_object_is_read_once_and_few_pages_are_refused(size: int) -> None:
    lists = Lists([size] * 600)
    assert await lists.read() == [str(number) for number in range(600)]
    assert lists.refused <= 4


async def test_pages_stay_short_after_one_that_was_too_large() -> None:
    lists = Lists([1_000_000] * 40)
    await lists.read()
    assert max(lists.limits[lists.refused :]) <= 2


async def test_pages_are_long_again_after_the_large_objects() -> None:
    lists = Lists([1_000_000] * 10 + [1_000] * 5_000)
    await lists.read()
    assert lists.limits[-1] == PAGE_LENGTH
    assert len(lists.limits) < 40


async def test_large_objects_after_small_ones_are_read() -> None:
    lists = Lists([1_000] * 1_000 + [1_500_000] * 20 + [10] * 100)
    assert len(await lists.read()) == 1_120


async def test_single_object_over_the_size_limit_is_an_error() -> None:
    with pytest.raises(AnswerTooLargeError):
        await Lists([100 * 2**20]).read()


async def test_pages_of_unknown_size_keep_their_length() -> None:
    lists = Lists([0] * 1_200)
    assert len(await lists.read()) == 1_200
    assert lists.limits == [PAGE_LENGTH] * 3
