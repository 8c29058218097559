"""What the kubelet and Prometheus learn of the operator: its health (`checks`), and what can be read off it (`collector`).

The operator does not know that it is looked at. What happens in it, it tells an observer (`runtime.observer`).
"""

from flamectl_operator.monitoring.monitor import Monitor

__all__ = ["Monitor"]
