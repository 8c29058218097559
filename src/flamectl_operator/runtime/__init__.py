"""Parts that any controller needs, independent of Kubernetes: time, queues, backoff, the workflow algebra, logging.

Nothing here reads the wall clock or draws a random number by itself: the caller passes in both, so that a simulation can run the
whole operator under virtual time. asyncio's timers are the exception, because they follow the event loop's clock.
"""
