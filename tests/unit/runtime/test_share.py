from __future__ import annotations

import asyncio

from flamectl_operator.runtime.slots import ACTIVE_SECONDS, BESIDE_OTHERS, Shares


async def test_key_that_works_alone_has_the_whole() -> None:
    shares = Shares[str]()
    shares.note_work("large")
    assert shares.share("large", 64) == 64


async def test_key_has_little_while_another_one_works() -> None:
    shares = Shares[str]()
    shares.note_work("large")
    shares.note_work("small")
    assert shares.share("large", 64) == BESIDE_OTHERS

    shares.note_work("large")
    assert shares.share("large", 64) == BESIDE_OTHERS


async def test_key_has_the_whole_again_when_the_others_have_ended() -> None:
    shares = Shares[str]()
    shares.note_work("small")
    shares.note_work("large")
    await asyncio.sleep(ACTIVE_SECONDS)
    assert shares.share("large", 64) == 64


async def test_share_is_never_more_than_the_whole() -> None:
    shares = Shares[str]()
    shares.note_work("small")
    assert shares.share("large", 1) == 1
