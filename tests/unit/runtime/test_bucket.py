from flamectl_operator.runtime.bucket import Bucket


def test_full_bucket_gives_its_size_and_then_its_rate() -> None:
    bucket = Bucket(rate=2, size=3, now=0)

    assert [bucket.try_take(0) for _ in range(4)] == [True, True, True, False]
    assert bucket.delay(0) == 0.5
    assert bucket.try_take(0.5)
    assert not bucket.try_take(0.5)


def test_caller_that_leaves_a_reserve_is_refused_before_the_bucket_is_empty() -> None:
    bucket = Bucket(rate=1, size=3, now=0)

    assert [bucket.try_take(0, keep=2) for _ in range(2)] == [True, False]
    assert bucket.try_take(0)
