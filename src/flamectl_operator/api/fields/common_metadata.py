"""`commonLabels` and `commonAnnotations`, and the keys that they must not have."""

from typing import Annotated

from pydantic import Field

from flamectl_operator.api.constants import DELETION_COST_ANNOTATION, OWN_PREFIX, SOURCE_RANGES_ANNOTATION
from flamectl_operator.api.fields.pod_template_rules import NO_OWN_LABELS, QUALIFIED_KEYS, LabelValue, is_own_key
from flamectl_operator.api.rules import Rule

#: The most entries of each. Together with the longest keys and values they stay far below what a store keeps of an object.
MAX_ENTRIES = 16
#: The most characters of an annotation.
MAX_ANNOTATION = 256

_DECISIVE = (DELETION_COST_ANNOTATION, SOURCE_RANGES_ANNOTATION)
_NO_DECISIVE_ANNOTATIONS = Rule(
    f"self.all(key, !(key in {list(_DECISIVE)}) && !key.startsWith('{OWN_PREFIX}'))",
    lambda annotations: not any(is_own_key(key) or key in _DECISIVE for key in annotations),
    f"must not have {', '.join(_DECISIVE)} or {OWN_PREFIX}*: the operator decides by them",
)

_AnnotationValue = Annotated[str, Field(max_length=MAX_ANNOTATION)]

CommonLabels = Annotated[dict[str, LabelValue], Field(max_length=MAX_ENTRIES), NO_OWN_LABELS, QUALIFIED_KEYS]
CommonAnnotations = Annotated[
    dict[str, _AnnotationValue], Field(max_length=MAX_ENTRIES), _NO_DECISIVE_ANNOTATIONS, QUALIFIED_KEYS
]
