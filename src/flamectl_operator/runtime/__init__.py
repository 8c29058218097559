"""Parts that any controller needs; nothing of Kubernetes is imported here: time, queues, backoff, the workflow algebra, logging.

Nothing here reads the wall clock or draws a random number by itself: the caller passes in both, so that a simulation can run the
whole operator under virtual time. asyncio's timers are the exception, because they follow the event loop's clock.
"""
