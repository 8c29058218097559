"""`tls`: the Secret with the certificate of a service and with its certificate authority."""

from typing import Annotated

from pydantic import Field

from flamectl_operator.api.model import Model
from flamectl_operator.api.rules import Rule, matching

#: Characters of a bundle of certificate authorities: some ten certificates.
MAX_BUNDLE = 32 * 1024

SecretName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    matching(
        r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
        "must be the name of a Secret: lower-case letters, digits, - and .",
    ),
]
SecretKey = Annotated[
    str,
    Field(min_length=1, max_length=253),
    matching(r"^[-._a-zA-Z0-9]+$", "must be a key of a Secret: letters, digits, -, _ and ."),
]


class TlsSpec(Model):
    """A certificate in a Secret, which the operator mounts and never reads."""

    secret_name: SecretName = Field(description="Name of the Secret, in the namespace of the cluster.")
    cert_key: SecretKey = Field("tls.crt", description="Key of the certificate chain, in PEM.")
    key_key: SecretKey = Field("tls.key", description="Key of the certificate's private key, in PEM.")
    ca_key: SecretKey = Field("ca.crt", description="Key of the certificate authority, in PEM.")


class ClusterTlsSpec(TlsSpec):
    """The certificate of the session manager; with Flame 0.7, of all services."""

    trust_domain: (
        Annotated[
            str,
            Field(min_length=1, max_length=255),
            matching(r"^[^/: \t\r\n]*$", "must be the name of a SPIFFE trust domain, such as flame.example"),
        ]
        | None
    ) = Field(
        None,
        description="SPIFFE trust domain of the certificates of nodes and users. Flame 0.7 requires it, earlier releases do "
        "not support it.",
    )
    ca_bundle: (
        Annotated[
            str,
            Field(min_length=1, max_length=MAX_BUNDLE),
            Rule(
                "self.contains('-----BEGIN CERTIFICATE-----')",
                lambda text: "-----BEGIN CERTIFICATE-----" in text,
                "must hold certificates in PEM",
            ),
        ]
        | None
    ) = Field(
        None,
        description="Certificate authorities, in PEM, by which the operator verifies the session manager, because it reads no "
        "Secret. Without them it does not ask a session manager of Flame 0.6 that serves TLS. No Pod reads them.",
    )

    @property
    def authorities(self) -> str:
        """The bundle in ASCII, as OpenSSL reads it; empty without one. Its comments may have other characters."""
        return (self.ca_bundle or "").encode("ascii", "replace").decode("ascii")
