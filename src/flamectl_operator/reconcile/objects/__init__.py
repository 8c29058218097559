"""Reads and writes of one FlameCluster's objects, and the rules that hold for each of them."""
