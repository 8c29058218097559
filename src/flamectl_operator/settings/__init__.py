"""The operator's settings and their layers. Nothing here reads a file or sends a request.

- `model`: the settings.
- `names`: their names in Kubernetes.
- `catalogue`: all settings by their paths, and which of them a running operator may take over.
- `layers`: merges file, environment and command line, and records the origin of each setting.
- `document`: YAML.
"""
