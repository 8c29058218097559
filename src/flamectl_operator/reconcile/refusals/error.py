"""The error of a write that the API server refuses: its reason, the cause in the author's words, and the advice."""

import re

from flamectl_operator.desired.field_paths import as_manifested, authored_metadata
from flamectl_operator.desired.pod_template import ComponentTemplate
from flamectl_operator.kube.errors import (
    ApiError,
    BadRequestError,
    ForbiddenError,
    InvalidError,
)
from flamectl_operator.reconcile.refusals.remedies import (
    ADMISSION_DENIED,
    MISSING,
    NO_QUOTA,
    PERMISSION_DENIED,
    POD_SECURITY,
    POLICY,
    QUOTA_EXCEEDED,
    REJECTED,
    remedy,
)
from flamectl_operator.runtime.outcome import Outcome, blocked
from flamectl_operator.runtime.text import MAX_MESSAGE_LENGTH, one_line, shortened

#: Errors that do not go away by themselves.
REFUSALS = (ForbiddenError, InvalidError, BadRequestError)

#: The words before the cause, which the component in front of the message tells already.
_PREAMBLE = re.compile(r"^pods \"[^\"]*\" is forbidden: ")
_ANY_PREAMBLE = re.compile(r"^[\w.]+ \"[^\"]*\" is forbidden: ")
#: The binding of a policy, which says nothing more.
_BINDING = re.compile(r"(AdmissionPolicy '[^']*') with binding '[^']*'")
#: The words of Kyverno and GKE before the cause, which would take its room.
_BEFORE_CAUSE = re.compile(
    r"resource \S+ was blocked due to the following policies:?\s*|(?<=')validation (?:error|failure): "
    r"|GKE Warden rejected the request because it violates one or more constraints\.\s*Violations details: "
)
#: A field of an object as Kyverno names it: `/spec/containers/0/resources/`.
_POINTER = re.compile(r"(?<=at path )/(spec|metadata)/([\w./~-]+?)/?(?=['\s]|$)")
_INDEX, _BRACKETS = re.compile(r"(?<=/)\d+(?=/|$)"), r"[\g<0>]"
#: Several complaints about one object, and the begin of each but the first. Kubernetes tells those about resources in any order.
_COMPLAINTS = re.compile(r"(?:forbidden|invalid): \[")
_NEXT_COMPLAINT = re.compile(r", (?=(?:spec|metadata)\.|(?:maximum|minimum) |[\w./-]+ max limit to request )")
#: A peer of the second rule of a NetworkPolicy, which has the clients of the FlameCluster.
_CLIENT = re.compile(r"\bspec\.ingress\[1\]\.from(\[\d+\])")
#: The most characters of an advice, so that a message has room for the cause.
LONGEST_ADVICE = 240
_PERMISSION = re.compile(r"\bUser \"[^\"]*\" cannot |can't set finalizers on|\(RBAC\)|attempting to grant RBAC")


class RefusedError(Exception):
    """The API server refuses a write until a person changes something: the reason for `Degraded`, its words, and the remedy."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @classmethod
    def of(cls, error: ApiError, template: ComponentTemplate | None = None) -> "RefusedError":
        """Return the refusal for an error of the API server; the template is that of a refused Pod, None for another object."""
        words = str(error) if template is None else as_manifested(str(error), template.manifest["spec"])
        reason = _reason(error, words)
        # The advice stays whole if it can, because it says what to do. It may name each of many containers and resources.
        advice = one_line(remedy(reason, words, template), LONGEST_ADVICE)
        room = MAX_MESSAGE_LENGTH - len(advice) - len(" ()")
        words = _POINTER.sub(_dotted, _BEFORE_CAUSE.sub("", words)) if reason == ADMISSION_DENIED else words
        cause = _CLIENT.sub(r"spec.networkPolicy.clients\1", _BINDING.sub(r"\1", _sorted(words)))
        # Among the metadata of another object only the common ones come from an author.
        cause = template.explain(_PREAMBLE.sub("", cause)) if template is not None else authored_metadata(cause)
        return cls(reason, f"{one_line(cause, room)} ({advice})")

    @classmethod
    def of_change(cls, error: ApiError, what: str, *, deletion: bool = False) -> "RefusedError":
        """Return the refusal to change or delete an object; the message names it where a webhook or a policy does not."""
        refusal = cls.of(error)
        if refusal.reason != ADMISSION_DENIED:
            return refusal
        words = (
            f"the {'deletion' if deletion else 'change'} of {what} is refused: {_ANY_PREAMBLE.sub('', str(refusal))}"
        )
        if deletion:
            words = f"{words.rpartition(' (')[0]} (let the operator delete it there)"
        return cls(ADMISSION_DENIED, shortened(words))

    @property
    def outcome(self) -> Outcome:
        """The outcome that reports the refusal to users."""
        return blocked(self.reason, str(self))


def _dotted(pointer: re.Match[str]) -> str:
    """Return the path of a field as the API server writes it."""
    part, rest = pointer.groups()
    kind, _, key = rest.partition("/")
    if part == "metadata" and key:
        return f"metadata.{kind}[{key}]"
    return f"{part}.{_INDEX.sub(_BRACKETS, rest).replace('/[', '[').replace('/', '.')}"


def _sorted(words: str) -> str:
    """Return a text with its complaints in an order that does not change."""
    begin = _COMPLAINTS.search(words)
    if begin is None or not words.endswith("]"):
        return words
    return f"{words[: begin.end()]}{', '.join(sorted(_NEXT_COMPLAINT.split(words[begin.end() : -1])))}]"


def _reason(error: ApiError, words: str) -> str:
    if isinstance(error, ForbiddenError) and (error.quota or MISSING.search(words) or NO_QUOTA.search(words)):
        return QUOTA_EXCEEDED
    if "violates PodSecurity" in words:
        return POD_SECURITY
    if POLICY.search(words):
        return ADMISSION_DENIED
    if isinstance(error, ForbiddenError):
        return PERMISSION_DENIED if _PERMISSION.search(words) else ADMISSION_DENIED
    return REJECTED
