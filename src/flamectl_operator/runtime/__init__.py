"""Parts that any controller needs: time, queues, backoff, the workflow algebra, logging. Nothing of Kubernetes is imported here.

Nothing here reads the wall clock or draws a random number by itself: the caller passes in both, so that a simulation can run the
whole operator under virtual time. asyncio's timers are the exception, because they follow the event loop's clock.
"""
