"""A Kubernetes operator that runs Flame clusters from one FlameCluster resource."""

from importlib.metadata import version

__version__ = version("flamectl-operator")
