"""The errors of PyYAML about a text that is not YAML."""

from __future__ import annotations

import yaml

#: Beside its own errors PyYAML raises those of Python: for an invalid date, a tag (`!!int`) that does not fit, or deep nesting.
YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
