"""Observed objects: the stores' views of a FlameCluster's children, read as Flame's components. No I/O."""
