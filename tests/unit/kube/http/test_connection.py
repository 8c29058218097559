"""Loading of credentials, and the one-line error when it fails."""

import asyncio
import base64
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.config import incluster_config

from flamectl_operator.kube.errors import ConfigurationError
from flamectl_operator.kube.http import credentials
from flamectl_operator.kube.http.connection import connect
from flamectl_operator.kube.http.credentials import Credentials, load_credentials, own_namespace
from flamectl_operator.kube.http.request import Request
from tests.unit.kube.certificates import AUTHORITY, KEY, LOCALHOST

REAL_TIME = True  # exec plugins are processes

Config = dict[str, Any]


class Kubeconfig:
    """A kubeconfig that works, until a test changes it.

    Args:
        path: Where it is written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content: Config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [
                {"name": "here", "context": {"cluster": "c", "user": "u"}},
                {"name": "there", "context": {"cluster": "d", "user": "u"}},
            ],
            "clusters": [
                {"name": "c", "cluster": {"server": "https://here.test:6443/"}},
                {"name": "d", "cluster": {"server": "https://there.test:6443", "tls-server-name": "kubernetes"}},
            ],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        }
        self.cluster: Config = self.content["clusters"][0]["cluster"]

    def user(self, fields: Config) -> None:
        """Set the credentials of the user."""
        self.content["users"][0]["user"] = fields

    def write(self, content: str | None = None) -> Path:
        """Write this kubeconfig, or something else, and return the path."""
        self.path.write_text(yaml.safe_dump(self.content) if content is None else content)
        return self.path


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Kubeconfig:
    return Kubeconfig(tmp_path / "config")


async def load(path: Path, context: str | None = None) -> Credentials:
    loaded = await load_credentials(path, context, {})
    await loaded.api_client.close()  # type: ignore[no-untyped-call]
    return loaded


async def refusal(path: Path, context: str | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await load(path, context)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def token(loaded: Credentials) -> str:
    value: str = loaded.api_client.configuration.api_key["BearerToken"]
    return value


# Configurations that work


async def test_kubeconfig_gives_address_and_token(kubeconfig: Kubeconfig) -> None:
    loaded = await load(kubeconfig.write())
    assert loaded.api_client.configuration.host == "https://here.test:6443"
    assert token(loaded) == "Bearer secret"
    assert loaded.expires_at is None


async def test_server_without_tls_needs_no_credentials(kubeconfig: Kubeconfig) -> None:
    kubeconfig.cluster["server"] = "http://127.0.0.1:8001"
    kubeconfig.user({})
    assert (await load(kubeconfig.write())).api_client.configuration.api_key == {}


async def test_environment_names_the_default_kubeconfig(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    path = kubeconfig.write()
    one = await load_credentials(None, None, {"KUBECONFIG": f"{tmp_path / 'missing'}:{path}"})
    (tmp_path / ".kube").mkdir()
    path.rename(tmp_path / ".kube" / "config")
    two = await load_credentials(None, None, {"HOME": str(tmp_path)})
    for loaded in (one, two):
        assert token(loaded) == "Bearer secret"
        await loaded.api_client.close()  # type: ignore[no-untyped-call]


async def test_connecting_sends_nothing(kubeconfig: Kubeconfig) -> None:
    arrived: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        arrived.append(request.path)
        return web.Response()

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(application) as server:
        kubeconfig.cluster["server"] = str(server.make_url("/"))
        transport = await connect(kubeconfig.write())
        await transport.send(Request("GET", "/the-first-one"))
        await transport.close()
    assert arrived == ["/the-first-one"]


async def test_inline_certificates_and_keys_leave_no_files(
    kubeconfig: Kubeconfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    kubeconfig.cluster["certificate-authority-data"] = encoded(AUTHORITY)
    kubeconfig.user({"client-certificate-data": encoded(LOCALHOST), "client-key-data": encoded(KEY)})
    # Twice the same: nothing is left to be relied upon.
    fingerprints = {(await load(kubeconfig.write())).fingerprint for _ in range(2)}
    assert len(fingerprints) == 1
    assert list(temporary.iterdir()) == []

    kubeconfig.content["users"][0]["user"]["client-key-data"] = encoded("no key")
    assert "is not usable" in await refusal(kubeconfig.write())
    assert list(temporary.iterdir()) == []


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# Configurations that do not work


async def test_missing_file_is_named(tmp_path: Path) -> None:
    words = "there is no such file; name one by --kubeconfig or by KUBECONFIG"
    assert (await refusal(tmp_path / "missing")).endswith(words)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a" * 300, "cannot be read: File name too long"),
        ("x\0y", "there is no such file"),
        ("~nobody-of-this-name/config", "home directory"),
    ],
)
async def test_file_with_a_name_that_no_file_can_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in await refusal(Path(name))


@pytest.mark.parametrize("method", ["stat", "read_text"], ids=["its directory", "the file"])
async def test_file_that_must_not_be_read_is_named(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    path = kubeconfig.write()

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, method, denied)
    assert (await refusal(path)).endswith("cannot be read: Permission denied")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [1,\nb: }", "is not YAML"),
        ("", "is not a kubeconfig"),
        ("just a line", "is not a kubeconfig"),
        ("- a\n- b\n", "is not a kubeconfig"),
        ("a: 1\n", "it has no current-context; choose one by --context: none"),
        ("contexts: 5\n", "contexts is not a list of mappings"),
        ("contexts: [{}]\n", "an entry of contexts has no name"),
        ("current-context: [a]\n", "current-context is not a name"),
        ("current-context: {a: b}\n", "current-context is not a name"),
        ("a: !!int ''\n", "is not YAML"),
        ("a: !!bool x\n", "is not YAML"),
        ("a: !!timestamp x\n", "is not YAML"),
        ("a: " + "[" * 1_000, "is not YAML"),
    ],
)
async def test_file_without_a_kubeconfig_is_refused(content: str, words: str, kubeconfig: Kubeconfig) -> None:
    assert words in await refusal(kubeconfig.write(content))


async def test_unknown_context_is_named(kubeconfig: Kubeconfig) -> None:
    message = await refusal(kubeconfig.write(), "nowhere")
    assert message.endswith(": --context nowhere: there is no such context, only here, there")

    kubeconfig.content["current-context"] = "gone"
    assert (await refusal(kubeconfig.write())).endswith(
        ": current-context gone: there is no such context, only here, there"
    )
    del kubeconfig.content["current-context"]
    assert (await refusal(kubeconfig.write())).endswith(
        ": it has no current-context; choose one by --context: here, there"
    )


USER, CLUSTER, CONTEXT = ("users", "user"), ("clusters", "cluster"), ("contexts", "context")
NO_CERTIFICATE = base64.b64encode(b"no certificate").decode()


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        (CONTEXT, {"cluster": "nowhere", "user": "u"},
            "context here names the cluster nowhere, which is missing; the clusters are c, d"),
        (CONTEXT, {"cluster": "c", "user": "me"}, "context here names the user me, which is missing; the users are u"),
        (CONTEXT, {"cluster": "c"}, "context here names no user; the users are u"),
        (CONTEXT, {"cluster": ["c"], "user": "u"}, "context here: the name of its cluster is not a text"),
        (CONTEXT, {"cluster": "c", "user": {"a": "b"}}, "context here: the name of its user is not a text"),
        (CLUSTER, {"proxy-url": "http://p"}, "is not an http or https address"),
        (CLUSTER, {"server": ""}, "is not an http or https address"),
        (CLUSTER, {"server": "here.test:6443"}, "is not an http or https address"),
        (CLUSTER, {"server": "ftp://here.test"}, "is not an http or https address"),
        (CLUSTER, {"server": "https://"}, "is not an http or https address"),
        (CLUSTER, {"server": "https://a", "certificate-authority": "/missing/ca.crt"},
            "cluster c: certificate-authority: there is no such file: /missing/ca.crt"),
        (CLUSTER, {"server": "https://a", "certificate-authority-data": "%%%"}, "is not "),
        (CLUSTER, {"server": "https://a", "certificate-authority-data": NO_CERTIFICATE}, "is not usable"),
        (USER, {"token": ""}, "the user has no credentials"),
        (USER, {"username": "only"}, "the user has no credentials"),
        (USER, {"tokenFile": "empty"}, "the user has no credentials"),
        (USER, {"tokenFile": "missing"}, "/missing: No such file"),
        (USER, {"client-certificate": "/missing/tls.crt", "client-key": "/missing/tls.key"}, "/missing/tls.crt"),
        (USER, {"client-certificate": "empty"}, "no client key"),
        (USER, {"token": "t", "as": "viewer"}, "acts as another (as), and impersonation is not supported"),
        (USER, {"token": "t", "as": "viewer", "as-groups": ["viewers"]}, "(as, as-groups)"),
        (USER, {"token": "t", "as-uid": "1", "as-user-extra": {"scopes": ["x"]}}, "(as-uid, as-user-extra)"),
    ],
)  # fmt: skip
async def test_kubeconfig_that_cannot_work_is_refused(
    kubeconfig: Kubeconfig, tmp_path: Path, entry: tuple[str, str], value: Config, words: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    kubeconfig.content[entry[0]][0][entry[1]] = value
    assert words in await refusal(kubeconfig.write())


# Secrets

PASSWORD = "s3cr3t"  # what no message may contain


@pytest.mark.parametrize(
    ("user", "words"),
    [
        ({"auth-provider": {"name": "oidc", "config": {"client-id": "c", "refresh-token": PASSWORD}}},
            "Expected key client-secret"),
        ({"exec": {"apiVersion": "v1", "command": "x", "env": [{"name": "A"}]}, "password": PASSWORD}, "Expected key value"),
    ],
    ids=["an identity provider", "a plugin"],
)  # fmt: skip
async def test_incomplete_entry_is_not_quoted(kubeconfig: Kubeconfig, user: Config, words: str) -> None:
    kubeconfig.user(user)
    message = await refusal(kubeconfig.write())
    assert words in message
    assert PASSWORD not in message


@pytest.mark.parametrize(
    "line",
    [
        f"password: {PASSWORD}: x",
        f'password: "{PASSWORD}',
        f"password: *{PASSWORD}",
        f"password: !{PASSWORD} x",
        f"password: !{PASSWORD}!x y",
        f"password: @{PASSWORD}",
        f"password: 2001-99-99 # {PASSWORD}",
    ],
)
async def test_invalid_yaml_is_located_and_not_quoted(kubeconfig: Kubeconfig, line: str) -> None:
    message = await refusal(kubeconfig.write(f"users:\n- name: u\n  user:\n    {line}\n"))
    assert "is not YAML: " in message
    assert PASSWORD not in message
    assert "(line " in message or "date" in message


async def test_file_replaced_during_the_load_is_not_quoted(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kubeconfig.write()

    def replace(*_: object) -> None:
        kubeconfig.write(f"password: *{PASSWORD}")

    monkeypatch.setattr(credentials, "check_kubeconfig", replace)
    message = await refusal(path)
    assert "is not YAML: found undefined alias (line 1, column 11)" in message


async def test_invalid_server_address_is_named_without_its_password(kubeconfig: Kubeconfig) -> None:
    kubeconfig.cluster["server"] = f"https://user:{PASSWORD}@here.test:99999"
    message = await refusal(kubeconfig.write())
    assert "'here.test:99999' is not an http or https address" in message
    assert PASSWORD not in message


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_identity_provider_with_an_invalid_address_is_reported(kubeconfig: Kubeconfig) -> None:
    provider = {"client-id": "c", "client-secret": "s", "refresh-token": "r"}
    provider["idp-issuer-url"] = f"http://user:{PASSWORD}@here.test:99999"
    kubeconfig.user({"auth-provider": {"name": "oidc", "config": provider}})
    message = await refusal(kubeconfig.write())
    assert "cannot be reached: an address that is not valid" in message
    assert PASSWORD not in message


BAD_PROXIES = [
    (f"socks5://user:{PASSWORD}@proxy.test:1080", "does not begin with http"),
    (f"user:{PASSWORD}@proxy.test:3128", "does not begin with http"),
    (f"http://user:{PASSWORD}@proxy.test:99999", "is not valid"),
    (f"http://user:{PASSWORD}@", "is not valid"),
    (f"http://user:{PASSWORD}@proxy.test:0", "no valid port"),
    ("http://", "has no host"),
]


@pytest.mark.parametrize(("proxy", "words"), BAD_PROXIES)
async def test_unusable_proxy_of_the_kubeconfig_is_refused(kubeconfig: Kubeconfig, proxy: str, words: str) -> None:
    kubeconfig.cluster["proxy-url"] = proxy
    with pytest.raises(ConfigurationError, match=f"proxy-url of the kubeconfig .* cannot be used: .*{words}") as caught:
        await connect(kubeconfig.write())
    assert PASSWORD not in str(caught.value)


async def test_unusable_proxy_of_the_environment_is_refused(
    kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:{PASSWORD}@proxy.test:99999")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with pytest.raises(ConfigurationError, match=r"proxy of the environment .* cannot be used") as caught:
        await connect(kubeconfig.write())
    assert PASSWORD not in str(caught.value)

    # Where the kubeconfig names another, nobody goes through it.
    kubeconfig.cluster["proxy-url"] = "http://proxy.test:3128"
    transport = await connect(kubeconfig.write())
    await transport.close()


# Exec plugins


def plugin(tmp_path: Path, script: str) -> Config:
    """A user whose credentials come from a Python script."""
    path = tmp_path / "plugin.py"
    path.write_text(script)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(path)]}}


ANSWER = """
import json
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": %s}))
"""


async def test_plugin_gives_a_token_with_its_expiry(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    status = '{"token": "from-plugin", "expirationTimestamp": "2030-01-01T00:00:00Z"}'
    kubeconfig.user(plugin(tmp_path, ANSWER % status))
    loaded = await load(kubeconfig.write())
    assert token(loaded) == "Bearer from-plugin"
    assert loaded.expires_at == datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('please log in')", "please log in"),
        ("print('hello')", "failed to decode process output"),
        ("print('{}')", "missing key"),
        (ANSWER % "{}", "missing token"),
        (ANSWER % '{"token": ""}', "the user has no credentials"),
        (ANSWER % '{"token": "two\\nlines"}', "the token has more than one line"),
        (ANSWER % '{"token": "a", "expirationTimestamp": "soon"}', "soon"),
    ],
)
async def test_failed_plugin_is_quoted(
    kubeconfig: Kubeconfig,
    tmp_path: Path,
    script: str,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kubeconfig.user(plugin(tmp_path, script))
    assert words in await refusal(kubeconfig.write())
    assert caplog.messages == []


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59-12:00"])
async def test_expiry_at_the_limits_of_time_counts_as_unknown(
    kubeconfig: Kubeconfig, tmp_path: Path, time: str
) -> None:
    status = {"token": "a", "expirationTimestamp": time}
    kubeconfig.user(plugin(tmp_path, ANSWER % repr(status)))
    assert (await load(kubeconfig.write())).expires_at is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("listens", [True, False], ids=["hangs up", "is away"])
async def test_failed_identity_provider_is_reported(kubeconfig: Kubeconfig, *, listens: bool) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1") as server:
        issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        if not listens:
            server.close()
        provider = {"client-id": "c", "client-secret": "s", "idp-issuer-url": issuer, "refresh-token": "r"}
        kubeconfig.user({"auth-provider": {"name": "oidc", "config": provider}})
        assert "the identity provider cannot be reached" in await refusal(kubeconfig.write())


#: It tells that it runs by a connection, which ends with it.
HANGING = """
import socket
socket.create_connection(("127.0.0.1", %d)).recv(1)
"""


@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_plugin_that_hangs_is_ended_with_the_load(
    kubeconfig: Kubeconfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    runs, ended = asyncio.Event(), asyncio.Event()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        runs.set()
        await reader.read()
        ended.set()
        writer.close()

    async with await asyncio.start_server(hear, "127.0.0.1") as server:
        kubeconfig.user(plugin(tmp_path, HANGING % server.sockets[0].getsockname()[1]))
        limit = asyncio.timeout(None)  # the plugin must have started before its time is over
        monkeypatch.setattr(credentials, "asyncio", SimpleNamespace(**vars(asyncio) | {"timeout": lambda _: limit}))
        loading = asyncio.create_task(load(kubeconfig.write()))
        await runs.wait()
        if how == "cancelled":
            loading.cancel()
        else:
            limit.reschedule(0)
        await asyncio.wait({loading})
        assert loading.cancelled() or isinstance(loading.exception(), ConfigurationError)
        async with asyncio.timeout(30):
            await ended.wait()


async def test_hanging_plugin_times_out(kubeconfig: Kubeconfig, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(**_: object) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(credentials, "LOAD_TIMEOUT", 0.01)
    monkeypatch.setattr(credentials, "load_kube_config", hang)
    assert "no credentials after" in await refusal(kubeconfig.write())


# In a cluster

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a service account's files, without the files."""
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    for name, value in IN_CLUSTER.items():
        monkeypatch.setenv(name, value)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "token file does not exist"),
        ({"token": ""}, "Token file exists but empty"),
        ({"token": "t"}, "certification file does not exist"),
        ({"token": "t", "ca.crt": ""}, "Cert file exists but empty"),
        ({"token": "t", "ca.crt": "no certificate"}, "a certificate or key is not usable"),
    ],
)
async def test_incomplete_service_account_is_reported(service_account: Path, files: dict[str, str], words: str) -> None:
    for name, content in files.items():
        (service_account / name).write_text(content)
    with pytest.raises(ConfigurationError, match=words) as caught:
        await load_credentials(None, None, IN_CLUSTER)
    assert str(caught.value).startswith("service account of this Pod: ")


async def test_service_account_is_used_in_a_cluster(service_account: Path) -> None:
    (service_account / "token").write_text("mounted")
    shutil.copy(certifi.where(), service_account / "ca.crt")
    loaded = await load_credentials(None, None, IN_CLUSTER)
    assert loaded.api_client.configuration.host == "https://10.0.0.1:443"
    assert token(loaded).lower() == "bearer mounted"
    await loaded.api_client.close()  # type: ignore[no-untyped-call]


async def test_replaced_service_account_files_give_other_credentials(service_account: Path) -> None:
    token, authority = service_account / "token", service_account / "ca.crt"
    token.write_text("mounted")
    shutil.copy(certifi.where(), authority)
    seen = []
    for replace in (lambda: None, lambda: token.write_text("rotated"), lambda: authority.write_text(one_certificate())):
        replace()
        for _ in range(2):
            loaded = await load_credentials(None, None, IN_CLUSTER)
            await loaded.api_client.close()  # type: ignore[no-untyped-call]
            seen.append(loaded.fingerprint)

    assert seen[0] == seen[1]
    assert seen[2] == seen[3]
    assert seen[4] == seen[5]
    assert len(set(seen)) == 3


def one_certificate() -> str:
    """A certificate, in place of many."""
    end = "-----END CERTIFICATE-----\n"
    return Path(certifi.where()).read_text().partition(end)[0] + end


async def test_given_context_in_a_cluster_uses_the_default_kubeconfig(service_account: Path) -> None:
    with pytest.raises(ConfigurationError, match="there is no such file"):
        await load_credentials(None, "here", {**IN_CLUSTER, "KUBECONFIG": str(service_account / "missing")})


@pytest.mark.parametrize(("content", "namespace"), [("flamectl-system\n", "flamectl-system"), ("", None), (None, None)])
def test_namespace_of_the_pod_is_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None, namespace: str | None
) -> None:
    file = tmp_path / "namespace"
    monkeypatch.setattr(credentials, "NAMESPACE_FILE", file)
    if content is not None:
        file.write_text(content)
    assert own_namespace() == namespace
