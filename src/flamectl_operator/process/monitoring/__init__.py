"""Health (`checks`), metrics (`metrics`, `collector`) and their HTTP server (`http`). The operator does not know them."""

from flamectl_operator.process.monitoring.monitor import Monitor

__all__ = ["Monitor"]
