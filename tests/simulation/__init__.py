"""The whole operator under a virtual clock, against a model of a Kubernetes cluster and seeded faults.

`python -m tests.simulation --help` says how to run worlds; `world.py` is where to begin reading.
"""
