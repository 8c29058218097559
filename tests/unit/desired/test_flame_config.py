"""flame-cluster.yaml."""

import re
import tracemalloc
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from flamectl_operator.api.problems import InvalidSpecError
from flamectl_operator.desired import flame_config as module
from flamectl_operator.desired.flame_config import config_map, content_hash, flame_config, render
from tests.unit.builders import OWNER, desired, spec
from tests.unit.support import rfc_7386

#: The documentation's example, word for word.
HLD = """
cluster:
  name: my-flame                                    # From metadata.name
  endpoint: "http://my-flame-session-manager:8080"  # Auto-generated
  slot: "cpu=1,mem=1g"                              # From sessionManager.slot
  policy: priority                                  # From sessionManager.policy
  storage: sqlite://flame.db                        # From sessionManager.storage
executors:
  shim: host                                        # From executorManager.shim
  limits:
    max_executors: 10                               # From executorManager.maxExecutors
cache:
  endpoint: "grpc://my-flame-object-cache:9090"     # Auto-generated
  network_interface: "eth0"                         # From objectCache.networkInterface
  storage: "/var/lib/flame/cache"                   # From objectCache.storage
"""

#: Texts that YAML 1.2's core schema, or 1.1's readers, take for something else than a string.
_NOT_A_STRING = re.compile(
    r"""
      (?: [-+]?[0-9][0-9_]* | 0o[0-7]+ | 0x[0-9a-fA-F]+ | 0b[01_]+            # integers
        | [-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?           # numbers
        | [-+]?\.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
        | [-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?                           # base 60
        | true|True|TRUE|false|False|FALSE|null|Null|NULL|~
        | yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF
        | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*                                    # dates
      )?""",
    re.VERBOSE,
)


def _text(changes: dict[str, Any] | None = None) -> str:
    return desired(changes).config_text


def test_file_equals_the_documented_one_with_the_fields_of_flame_0_6() -> None:
    documented = yaml.safe_load(HLD)
    documented["cluster"] |= {"resreq": "cpu=1,mem=1g", "executors": {"shim": "host"}, "limits": {"max_executors": 10}}

    assert yaml.safe_load(_text()) == documented


@pytest.mark.parametrize("policy", ["priority", "proportion"])
@pytest.mark.parametrize("image", ["xflops/flame-session-manager:v0.6.0", "xflops/flame-session-manager:v0.6.1"])
def test_policies_are_left_out_when_the_default_applies_or_flame_does_not_know_the_policy(
    policy: str, image: str
) -> None:
    assert "policies" not in _text({"sessionManager": {"policy": policy, "image": image}})


@pytest.mark.parametrize(
    ("image", "policies"),
    [
        ("xflops/flame-session-manager:v0.6.0", ["drf", "gang"]),
        ("xflops/flame-session-manager:v0.6.0-rc2", ["drf", "gang"]),
        ("registry:5000/flame@sha256:0123", ["drf", "gang"]),
        ("flame:latest", ["drf", "gang"]),
        ("xflops/flame-session-manager:v0.6.1", ["drf"]),
        ("xflops/flame-session-manager:0.7.0", ["drf"]),
    ],
)
def test_drf_asks_for_gang_only_where_the_release_has_it(image: str, policies: list[str]) -> None:
    config = yaml.safe_load(_text({"sessionManager": {"policy": "drf", "image": image}}))

    assert config["cluster"]["policies"] == policies
    assert config["cluster"]["policy"] == "drf"


def test_options_are_where_flame_reads_them() -> None:
    config = yaml.safe_load(
        _text(
            {
                "scheduleInterval": 500,
                "limits": {"maxSessions": 100},
                "sessionManager": {"recovery": {"retryLimits": 3}},
            }
        )
    )

    assert config["cluster"]["schedule_interval"] == 500
    assert config["cluster"]["limits"] == {"max_executors": 10, "max_sessions": 100}
    assert config["cluster"]["recovery"] == {"session": {"retry_limits": 3}}


def test_the_file_for_0_5_is_five_strings() -> None:
    config = yaml.safe_load(_text({"flameVersion": "0.5", "sessionManager": {"slot": "cpu=2,mem=512m"}}))

    assert config == {
        "name": "my-flame",
        "endpoint": "http://my-flame-session-manager:8080",
        "slot": "cpu=2,mem=512m",
        "policy": "priority",
        "storage": "sqlite://flame.db",
    }


def test_options_that_0_5_does_not_know_are_not_in_its_file() -> None:
    options = {"scheduleInterval": 500, "limits": {"maxSessions": 1}, "sessionManager": {"policy": "drf"}}

    config = yaml.safe_load(_text({"flameVersion": "0.5", **options}))

    assert config.keys() == {"name", "endpoint", "slot", "policy", "storage"}


def test_every_field_of_the_spec_ends_up_in_the_file() -> None:
    config = yaml.safe_load(
        _text(
            {
                "sessionManager": {"slot": "cpu=2,mem=4g,gpu=1", "policy": "drf", "storage": "none"},
                "executorManager": {"shim": "wasm", "maxExecutors": 3},
                "objectCache": {"networkInterface": "ens.*", "storage": "/data/cache"},
            }
        )
    )

    assert config["cluster"]["slot"] == config["cluster"]["resreq"] == "cpu=2,mem=4g,gpu=1"
    assert config["cluster"]["policy"] == "drf"
    assert config["cluster"]["storage"] == "none"
    assert config["cluster"]["executors"]["shim"] == config["executors"]["shim"] == "wasm"
    assert config["cluster"]["limits"]["max_executors"] == config["executors"]["limits"]["max_executors"] == 3
    assert config["cache"] == {
        "endpoint": "grpc://my-flame-object-cache:9090",
        "network_interface": "ens.*",
        "storage": "/data/cache",
    }


@pytest.mark.parametrize(
    ("overrides", "path", "value"),
    [
        pytest.param({"cluster": {"tls": {"cert_file": "/c"}}}, ("cluster", "tls", "cert_file"), "/c", id="adds"),
        pytest.param({"cluster": {"endpoint": "https://x"}}, ("cluster", "endpoint"), "https://x", id="replaces"),
        pytest.param({"cluster": {"limits": {"max_sessions": 5}}}, ("cluster", "limits", "max_executors"), 10,
            id="keeps the rest"),
        pytest.param({"cluster": {"policies": ["drf"]}}, ("cluster", "policies"), ["drf"], id="lists"),
        pytest.param({"extra": "none"}, ("extra",), "none", id="adds a value"),
        pytest.param({"extra": {"a": 1.5}}, ("extra", "a"), 1.5, id="numbers stay numbers"),
        pytest.param({"extra": {"a": False}}, ("extra", "a"), False, id="booleans stay booleans"),
    ],
)  # fmt: skip
def test_overrides_are_merged_in_last(overrides: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    part: Any = yaml.safe_load(_text({"configOverrides": overrides}))
    for key in path:
        part = part[key]

    assert part == value


def test_null_in_an_override_removes_a_key() -> None:
    config = yaml.safe_load(_text({"configOverrides": {"cluster": {"resreq": None}, "cache": None}}))

    assert "resreq" not in config["cluster"]
    assert "cache" not in config


#: Without surrogates, which the API server replaces.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)
json_objects = st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4)


@given(json_objects)
def test_rendered_file_parses_to_its_input(config: dict[str, Any]) -> None:
    assert yaml.safe_load(render(config)) == config


#: Characters that some reader of YAML takes for a line break, a byte order mark, an end of the document or an escape.
_hard_text = st.text(
    st.sampled_from("\x00\x07\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffe\U0001f600\t\r\n \"'\\-?:#&*!|>%@`")
)
_hard_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts | _hard_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | _hard_text, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(texts | _hard_text, _hard_value, max_size=4))
@example({"a": "\x85", "\x85": ["\x85x", " \x85 "]})
@example({"a": {"<<": {"b": 1}, "=": "=", "": ""}, "b": [1e16, -0.0, 5e-324, 2**64]})
@example({"---": "...", "k" * 200: "\u2028" * 200})
def test_any_json_in_the_overrides_reads_back_from_the_file(overrides: dict[str, Any]) -> None:
    sent: dict[str, Any] = msgspec.json.decode(msgspec.json.encode({"x": overrides}))
    assert yaml.safe_load(_text({"configOverrides": sent})).get("x", {}) == rfc_7386({}, sent["x"])


TRICKY = [
    *("true", "True", "yes", "no", "on", "off", "null", "~", "0o7", "0x1F", "0b1", "1e3", "1_000", "12:30", "12:30:45"),
    *(".5", ".inf", "-.inf", ".nan", "+1", "-1", "0", "007", "1.", "2025-06-01"),
    *("", " ", "=", "<<", "- a", "a: b", "#"),
    *("'", '"', "a\nb", "{", "[", "!x", "&x", "*x", "|", ">", "%", "@", "`", "y", "n", "é", "\ud7ff", "\u2028"),
]


@pytest.mark.parametrize("text", TRICKY, ids=repr)
def test_strings_parse_back_as_strings(text: str) -> None:
    assert yaml.safe_load(render({"a": text, "b": [text], text: "c"})) == {"a": text, "b": [text], text: "c"}


@given(st.from_regex(_NOT_A_STRING, fullmatch=True) | st.sampled_from(TRICKY))
@example("0o17")
@example("1e3")
def test_ambiguous_strings_are_quoted(text: str) -> None:
    written = render({"a": text}).removeprefix("a:").strip()

    assert written[:1] in {"'", '"'} or not _NOT_A_STRING.fullmatch(written), written


_any_key = st.text(max_size=6)
_any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12) | st.text(" -~#:'"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_any_key, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml: there is only one emitter")
@given(st.dictionaries(_any_key, _any_value, max_size=4))
@example({"": 1})
@example({"\r": 1, "a\nb": "\N{GRINNING FACE}"})
@example({"k" * 100: "v" * 300, "k" * 128: "v"})
def test_the_file_does_not_depend_on_how_pyyaml_was_built(config: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as without_libyaml:
        without_libyaml.setattr(module, "_FastDumper", module._QuotingDumper)
        expected = render(config)

    assert render(config) == expected


def test_the_file_has_no_anchors_even_where_values_repeat() -> None:
    shared = ["x", "y"]

    assert "&" not in render({"a": list(shared), "b": list(shared)})


@pytest.mark.parametrize("text", ["x", "\xe9"], ids=["C", "Python"])
def test_oversized_file_is_rejected(text: str) -> None:
    room = module.MAX_SIZE - len(_text({"configOverrides": {"large": [""]}}).encode()) + len('""')
    fits = text * (room // len(text.encode()))

    rendered = _text({"configOverrides": {"large": [fits]}})
    assert module.MAX_SIZE - 4 < len(rendered.encode()) <= module.MAX_SIZE
    with pytest.raises(InvalidSpecError, match=r"^spec\.configOverrides: must not make .* larger than 64 KiB"):
        _text({"configOverrides": {"large": [fits + "xxxx"]}})


def test_file_that_grows_by_indentation_is_rejected_early() -> None:
    overrides: Any = [1] * 50_000
    for _ in range(60):
        overrides = {"k": overrides}
    tracemalloc.start()
    try:
        with pytest.raises(InvalidSpecError):
            render({"deep": overrides, "more": [overrides] * 20})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 60e6


def test_hash_changes_only_with_the_content() -> None:
    assert content_hash(_text()) == content_hash(_text())
    assert content_hash(_text()) != content_hash(_text({"objectCache": {"storage": "/data"}}))


def test_config_map_holds_the_file_and_its_generation() -> None:
    text = render(flame_config("my-flame", spec()))
    manifest = config_map(OWNER, text, 3)

    assert manifest["metadata"]["name"] == "my-flame-config"
    assert manifest["data"] == {"flame-cluster.yaml": text}
    assert manifest["metadata"]["annotations"] == {
        "flame.xflops.io/config-generation": "3",
        "flame.xflops.io/config-hash": content_hash(text),
    }
