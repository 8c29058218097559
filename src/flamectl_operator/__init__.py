"""A Kubernetes operator that runs Flame clusters from one FlameCluster resource."""

from importlib.metadata import version

__version__ = version("flamectl-operator")
#: Shells add this to the number of the signal that ended a process.
SIGNALLED = 128
