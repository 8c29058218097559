"""FlameCluster v1alpha1: its models, and the CRD generated from them. Imports only `runtime`.

Modules: `flamecluster` (spec), `status`, `validation` (from JSON to a spec or a list of problems), `crd`. A rule is declared once
at its field, for the API server and for the operator (`rules`).
"""
