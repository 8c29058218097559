"""What any controller needs and that knows no Kubernetes: time, queues, backoff, the workflow algebra, logging.

Nothing here reads the wall clock or draws a random number by itself: both are handed in, so that a simulation can run the
whole operator under virtual time. asyncio's own timers are used freely, for their clock is the event loop's.
"""
