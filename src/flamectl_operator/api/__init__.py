"""FlameCluster v1alpha1: what users write and read, and the CRD generated from it. Imports nothing else of ours.

Where to look: `flamecluster` (spec), `status`, `validation` (from JSON to a spec or a list of problems), `crd`. A rule
stands at the field it is about, once, for the API server and for the operator (`rules`).
"""
