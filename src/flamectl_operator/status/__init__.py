"""The status of a FlameCluster, computed by pure functions from the effective spec and the observed objects."""
