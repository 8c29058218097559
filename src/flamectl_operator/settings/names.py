"""Settings that become names in Kubernetes. Names of other forms would fail later, or lead a request to another path."""

import re
from typing import Annotated

from pydantic import AfterValidator

_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*"
#: The most characters of a lock identity, as in `spec.lockOptions.denyList`: a namespace, a slash and the name of a Lease.
_LONGEST_IDENTITY = 63 + 1 + 253


def is_namespace(text: str) -> bool:
    """Return whether a text can be the name of a namespace, a DNS label."""
    return re.fullmatch(_LABEL, text) is not None


def is_subdomain(text: str) -> bool:
    """Return whether a text can be the name of most objects, a DNS subdomain."""
    return re.fullmatch(_SUBDOMAIN, text) is not None


def _matching(pattern: str, message: str) -> AfterValidator:

    def check(value: str) -> str:
        if re.fullmatch(pattern, value) is None:
            raise ValueError(message)
        return value

    return AfterValidator(check)


Namespace = Annotated[
    str, _matching(_LABEL, "must be the name of a namespace: lower-case letters, digits and -, at most 63 characters")
]
OwnNamespace = Annotated[
    str, _matching(f"({_LABEL})?", "must be empty or the name of a namespace: lower-case letters, digits and -")
]
Subdomain = Annotated[
    str, _matching(_SUBDOMAIN, "must be a DNS subdomain: lower-case letters, digits, - and ., at most 253 characters")
]
Identity = Annotated[
    str,
    _matching(
        f"[ -~]{{0,{_LONGEST_IDENTITY}}}", f"must be one line of at most {_LONGEST_IDENTITY} printable ASCII characters"
    ),
]
