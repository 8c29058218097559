"""What is there: the stores' views of a FlameCluster's children, read as Flame's components. Pure, no I/O."""
