"""`make demo`: a FlameCluster comes up, is scaled, healed, reconfigured, suspended and deleted, live in a terminal.

Everything is real but the containers: a control plane of its own, the manifests of `config/`, and the operator under
its own ServiceAccount. Start reading at `story`, which says what happens; `player` makes it happen on a `stage`,
`model` is what is seen of it, and `view` (a terminal) or `lines` (anything else) shows it.
"""
