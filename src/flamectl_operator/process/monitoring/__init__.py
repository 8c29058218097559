"""Health and metrics of the operator for the kubelet and Prometheus, and their HTTP server (`http`).

`checks` has the health, `metrics` the counters and histograms, and `collector` the values that are read at each scrape.

The operator does not depend on this package. It reports to a telemetry object (`runtime.telemetry`).
"""

from flamectl_operator.process.monitoring.monitor import Monitor

__all__ = ["Monitor"]
