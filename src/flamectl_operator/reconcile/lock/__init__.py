"""The deletion lock of one FlameCluster."""
