"""The common part of the stand-ins for Flame's binaries: they refuse the configurations that Flame 0.6 refuses.

They run on the operator's image, whose packages speak gRPC, and serve the model of `tests/flame`.
"""

import os
import re
import ssl
import sys
from pathlib import Path
from typing import Any, NoReturn

import yaml

#: Where the model is, in the image.
sys.path.insert(0, "/usr/local/flame/lib")

_PANIC = 101  # the exit code of a panic in Rust
_MEMORY = re.compile(r"[0-9]+([kmgKMG]i?)?")


def log(message: str) -> None:
    """Write a line to the container's log."""
    sys.stdout.write(f"{message}\n")
    sys.stdout.flush()


def panic(message: str) -> NoReturn:
    log(f"panicked: {message}")
    sys.exit(_PANIC)


def configuration() -> dict[str, Any]:
    """Return the configuration. The file is found by the flag `--config` alone, whatever the environment says."""
    arguments = sys.argv[1:]
    if len(arguments) != 2 or arguments[0] != "--config":
        log(f"error: unexpected arguments {arguments}; usage: --config <FILE>")
        sys.exit(2)
    try:
        config = yaml.safe_load(Path(arguments[1]).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        panic(f"failed to read the configuration: {error}")
    if not isinstance(config, dict) or not isinstance(config.get("cluster"), dict):
        panic("missing field `cluster`")
    cluster = config["cluster"]
    for field in ("name", "endpoint"):
        if not isinstance(cluster.get(field), str):
            panic(f"cluster: missing field `{field}`")
    _check_resources(cluster.get("resreq"))
    return config


def _check_resources(resreq: object) -> None:
    if resreq is None:
        return
    for part in str(resreq).split(","):
        key, _, value = part.partition("=")
        right = _MEMORY.fullmatch(value) if key == "mem" else value.isdigit()
        if key not in {"cpu", "mem", "gpu"} or not right:
            panic(f"invalid resource requirement {resreq!r}")


def address(endpoint: str) -> tuple[str, int]:
    """Return host and port of an endpoint as http://host:port."""
    host, _, port = endpoint.partition("://")[2].partition(":")
    return host, int(port.rstrip("/"))


def server_tls(section: dict[str, Any]) -> ssl.SSLContext | None:
    """Return what a server with `tls` serves with; end with 0, as Flame after fatal errors, where a file cannot be used."""
    tls = section.get("tls")
    if tls is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls["cert_file"], tls["key_file"])
    except (KeyError, OSError) as error:  # of which SSLError is one
        log(f"fatal: failed to use the certificate: {error}")
        sys.exit(0)
    context.set_alpn_protocols(["h2"])
    return context


def client_tls(section: dict[str, Any]) -> ssl.SSLContext | None:
    """Return what a client of an endpoint with TLS trusts."""
    if section["endpoint"].partition("://")[0] not in {"https", "grpcs"}:
        return None
    try:
        context = ssl.create_default_context(cafile=section["tls"]["ca_file"])
    except (KeyError, TypeError, OSError) as error:
        panic(f"failed to use the authority: {error}")
    context.set_alpn_protocols(["h2"])
    return context


def require_writable(*directories: str) -> None:
    """Panic unless each directory can be written to: Flame's belong to root."""
    for name in directories:
        try:
            Path(name).mkdir(parents=True, exist_ok=True)
            probe = Path(name) / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            panic(f"failed to write to {name}: {error}")
