"""Writes of one FlameCluster's status, and how often there is one."""
