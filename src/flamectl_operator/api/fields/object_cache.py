"""The object cache: keeps what tasks of a session share. With an image it is a component of its own."""

import re
import warnings
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from flamectl_operator.api.fields.checked_template import CheckedAgainst
from flamectl_operator.api.fields.container import Environment, Image, ImagePullPolicy, ResourceRequirements
from flamectl_operator.api.fields.persistence import SEGMENT, Persistence
from flamectl_operator.api.fields.pod_template import ObjectCachePodTemplate
from flamectl_operator.api.fields.tls import TlsSpec
from flamectl_operator.api.model import Int32, Model, Text
from flamectl_operator.api.rules import Rule, matching

EvictionPolicy = Literal["lru", "none"]

#: Each pass looks at each Pod by its number, so the number is bounded; Flame spreads one cluster over a few caches.
MAX_REPLICAS = 100

# Errors of Python's `re` that Rust's regex, which Flame uses, reports as well. Python rejects other patterns that Rust accepts
# (`\pL`, `^*`): the API server checks those, because its RE2 is a sibling of Rust's regex.
_SURELY_WRONG = (
    "unterminated character set",
    "missing )",
    "unbalanced parenthesis",
    "bad character range",
    "bad escape (end of pattern)",
)
_NOTHING_TO_REPEAT = "nothing to repeat"
#: Python takes a second to compile case-insensitive ranges up to code point 65535, as in `(?i)[ -\\uffff]`. Names of interfaces
#: are ASCII, and the API server's RE2 rejects these escapes as well.
_WIDE_ESCAPE = re.compile(r"\\[uUN]")


def _may_compile(expression: str) -> bool:
    if _WIDE_ESCAPE.search(expression.replace(r"\\", "")):
        return False
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):
            re.compile(expression)
    except re.error as error:
        # Rust can repeat an anchor, as in `^*`, but has nothing to repeat at the start of a branch.
        at_start = error.msg == _NOTHING_TO_REPEAT and (error.pos == 0 or expression[(error.pos or 0) - 1] in "(|")
        return not at_start and not error.msg.startswith(_SURELY_WRONG)
    except OverflowError:  # a number of repetitions that does not fit an integer
        return False
    return True


class Eviction(Model):
    """Eviction of objects from memory."""

    policy: EvictionPolicy | None = Field(
        None, description="lru drops the least recently used objects, none drops no objects; lru when left out."
    )
    max_memory: (
        Annotated[
            str,
            Field(max_length=32),
            matching(
                r"^[1-9][0-9]*([kKmMgGtT][iI]?[bB]?)?$", "must be a size such as 512M or 2Gi; units are powers of 1024"
            ),
        ]
        | None
    ) = Field(
        None, description="Memory for cached objects, such as 512M or 2Gi; 1G when left out. Units are powers of 1024."
    )
    max_objects: Annotated[Int32, Field(ge=1)] | None = Field(
        None, description="The most objects in memory; no limit when left out."
    )


#: Directories that a claim can take over without hiding files of the image.
_MOUNTABLE = re.compile(rf"^((fs|file)://)?/((data|mnt|srv|cache|tmp)|var/{SEGMENT})(/{SEGMENT})+/?$", re.ASCII)


class ObjectCacheSpec(Model):
    """The object cache. Without an image the operator runs none, and its Service selects the executors' Pods."""

    rules: ClassVar = (
        Rule(
            "!has(self.persistence) || has(self.image)",
            lambda cache: cache.persistence is None or cache.image is not None,
            "must not be set without image: only an object cache that the operator runs can use a claim",
            ".persistence",
        ),
        Rule(
            f"!has(self.persistence) || self.storage.matches(r'{_MOUNTABLE.pattern}')",
            lambda cache: cache.persistence is None or _MOUNTABLE.fullmatch(cache.storage),
            "must be a directory for the claim, below /data, /mnt, /srv, /cache, /tmp or a directory of /var, such as "
            "/var/lib/flame/cache",
            ".storage",
        ),
        Rule(
            "!has(self.persistence) || !has(self.persistence.existingClaim) || self.replicas <= 1",
            lambda cache: cache.persistence is None or cache.persistence.existing_claim is None or cache.replicas <= 1,
            "must be at most 1 with persistence.existingClaim, because each replica needs a claim of its own",
            ".replicas",
        ),
    )

    image: Image | None = Field(
        None,
        description="Image of the object cache, from Flame 0.6 on. Use an explicit version tag. Without it the operator "
        "runs no object cache.",
    )
    image_pull_policy: ImagePullPolicy = None
    replicas: Annotated[Int32, Field(ge=0, le=MAX_REPLICAS)] = Field(
        1, description="Number of wanted object caches. Each cache holds its own objects. Ignored without image."
    )
    resources: ResourceRequirements = Field(ResourceRequirements(), description="Compute resources of each container.")
    env: Environment = Field((), description="Environment variables to add to the containers.")
    network_interface: Annotated[
        Text,
        Field(max_length=128),
        matching("^[ -~]*$", "must consist of printable ASCII characters"),
        Rule(
            "''.matches(self) || !''.matches(self)",
            _may_compile,
            "must be a regular expression that compiles, such as eth0 or eth.*",
        ),
    ] = Field("eth0", description="Network interface that the cache listens on, as a regular expression for its name.")
    storage: Annotated[
        Text,
        matching(
            r"^(none|((fs|file)://)?/[^\n]*)$",
            "must be an absolute path such as /var/lib/flame/cache, or none, because Flame resolves a relative path in its "
            "working directory",
        ),
    ] = Field("/var/lib/flame/cache", description="Directory in which the cache keeps objects, or none.")
    tls: TlsSpec | None = Field(
        None, description="Certificate of the object cache. Flame 0.7 uses the certificate in spec.tls."
    )
    eviction: Eviction = Field(Eviction(), description="Eviction of objects from memory.")
    persistence: Persistence | None = Field(
        None,
        description="Claims for storage, one for each replica. Without it the objects of a replica are lost with its Pod.",
    )
    pod_template: Annotated[dict[str, Any], CheckedAgainst(ObjectCachePodTemplate)] | None = Field(
        None,
        description="Additions to the Pods: a partial Pod template. Fields that the operator must set take precedence.",
    )
