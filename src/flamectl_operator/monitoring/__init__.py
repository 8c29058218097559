"""What the kubelet and Prometheus learn of the operator, and the server where they ask (`http`).

That is its health (`checks`), what was counted while it happened (`metrics`), and what can be read off it (`collector`).

The operator does not know that it is looked at. What happens in it, it tells an observer (`runtime.observer`).
"""

from flamectl_operator.monitoring.monitor import Monitor

__all__ = ["Monitor"]
