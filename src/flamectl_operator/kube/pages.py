"""Reads a list page by page; pages have as many objects as fit.

Users decide how large objects are. A page of five hundred of the largest ones would take more memory than the process may use.
So the size of a page is limited, and a page that is too large is asked for again with fewer objects. The pages that follow have
as many objects as would fit if they were like those before.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TypeVar

from flamectl_operator.kube.client import PAGE_LENGTH, Client, Page
from flamectl_operator.kube.errors import AnswerTooLargeError
from flamectl_operator.kube.resources import Resource
from flamectl_operator.kube.views import KubernetesObject

T = TypeVar("T", bound=KubernetesObject)

#: The divisor for the length of a page that is too large: from 500 objects to 1 in four steps.
SHORTER_PAGE = 8
#: Bytes that the next page should have, by the size of the objects before: half of what a page may have.
USUAL_SIZE = 2 * 1024 * 1024


async def list_pages(
    client: Client, resource: Resource[T], namespace: str | None, *, label_selector: str = ""
) -> AsyncGenerator[Page[T], None]:
    """Iterate over the pages of a list, of one namespace or of all with None.

    Raises:
        KubernetesError: The list cannot be read.
    """
    limit, token = PAGE_LENGTH, ""
    while True:
        try:
            page = await client.list_page(
                resource, namespace, label_selector=label_selector, limit=limit, continue_token=token
            )
        except AnswerTooLargeError:
            if limit == 1:
                raise
            limit = max(1, limit // SHORTER_PAGE)
            continue
        yield page
        token = page.continue_token
        if not token:
            return
        if page.size:
            limit = min(PAGE_LENGTH, max(1, USUAL_SIZE * len(page.items) // page.size))
