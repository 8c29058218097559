"""The state directory of one control plane: what is where, and the credentials in it."""

import base64
import csv
import secrets
import shutil
from pathlib import Path

import yaml

ADMIN = "admin"
CONTROLLER_MANAGER = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
KWOK = "system:kwok"

# All in system:masters: what is tested here is the operator's RBAC, not theirs. The names matter to audit-policy.yaml.
_USERS = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, KWOK)

# Order of the curve P-256, FIPS 186-4 D.1.2.3.
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


class StateFiles:
    """Paths in a state directory."""

    def __init__(self, root: Path) -> None:
        #: The directory, absolute.
        self.root = root
        #: Data of etcd.
        self.etcd = root / "etcd"
        #: One log a component.
        self.logs = root / "logs"
        #: One file a running component, for people; programs go through `Plane`.
        self.pids = root / "pids"
        #: Keys and the certificates that the components make for themselves.
        self.pki = root / "pki"
        #: Kubeconfig files other than the administrator's.
        self.kubeconfigs = root / "kubeconfigs"
        #: The administrator's kubeconfig file.
        self.kubeconfig = root / "admin.kubeconfig"
        #: The API server's audit log, a JSON object a line.
        self.audit_log = root / "audit.log"
        #: The file that another process needs to attach; it exists while the control plane is up.
        self.plane = root / "plane.json"
        #: Private key that signs the tokens of service accounts.
        self.service_account_key = self.pki / "service-account.key"
        #: Static tokens of the administrator and of the components.
        self.tokens = self.pki / "tokens.csv"
        #: Certificate of the API server with that of the authority that it made for it.
        self.ca = self.pki / "apiserver.crt"

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.logs / f"{component}.log"

    def component_kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig file of a component."""
        return self.kubeconfigs / f"{user.removeprefix('system:')}.kubeconfig"


def prepare(files: StateFiles) -> dict[str, str]:
    """Remove the files of an earlier control plane from a state directory and prepare it; return the tokens by user."""
    for directory in (files.etcd, files.logs, files.pids, files.pki, files.kubeconfigs):
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True, mode=0o700)
    for file in (files.kubeconfig, files.audit_log, files.plane):
        file.unlink(missing_ok=True)
    tokens = {user: secrets.token_hex(16) for user in _USERS}
    with _private(files.tokens).open("w", encoding="utf-8", newline="") as output:
        csv.writer(output).writerows([token, user, user, "system:masters"] for user, token in tokens.items())
    _private(files.service_account_key).write_text(new_private_key(), encoding="ascii")
    return tokens


def write_kubeconfig(path: Path, *, port: int, ca: Path, user: str, token: str) -> None:
    """Write a kubeconfig file for one user of the control plane."""
    name = "local"
    authority = base64.b64encode(ca.read_bytes()).decode("ascii")
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user, "namespace": "default"}}],
        "current-context": name,
    }
    _private(path).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def new_private_key() -> str:
    """Return a new ECDSA key on P-256 in PEM (RFC 5915).

    The standard library can't make RSA keys. An elliptic curve key is any number below the order of the curve, and
    the public half may be left out of the file, for its reader can compute it.
    """
    scalar = (1 + secrets.randbelow(_P256_ORDER - 1)).to_bytes(32, "big")
    version = bytes.fromhex("020101")
    key = bytes.fromhex("0420") + scalar
    curve = bytes.fromhex("a00a06082a8648ce3d030107")  # prime256v1
    body = version + key + curve
    encoded = base64.b64encode(b"\x30" + bytes([len(body)]) + body).decode("ascii")
    lines = [encoded[start : start + 64] for start in range(0, len(encoded), 64)]
    return "\n".join(["-----BEGIN EC PRIVATE KEY-----", *lines, "-----END EC PRIVATE KEY-----", ""])


def _private(path: Path) -> Path:
    """Create a file that only its owner may read, before there is a secret in it."""
    path.touch(mode=0o600)
    return path
