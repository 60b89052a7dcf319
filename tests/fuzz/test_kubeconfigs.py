"""Kubeconfigs, Secrets and ClusterProfiles as somebody hostile writes them."""

from __future__ import annotations

import base64
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from multiqueue.api.config.types import AccessProvider, ClusterProfile, ExecConfig, MultiKueue
from multiqueue.kube import kubeconfig
from multiqueue.kube.errors import CredentialsError
from multiqueue.workers.kubeconfigs.cluster_profiles import build_endpoint, check_profile
from multiqueue.workers.kubeconfigs.credentials import (
    KubeconfigRefusal,
    SafeKubeconfig,
    check_kubeconfig,
    check_secret,
)
from tests.fuzz.runs import LONG, SHORT

CORPUS = Path(__file__).parents[1] / "corpus" / "kubeconfigs"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECONDS = 2.0
"""Of CPU time; the largest texts here take a tenth."""
MAX_MESSAGE = 1_000
PROXY = "http://proxy:3128"
FILES = sorted(CORPUS.rglob("*.yaml"))

HOSTS = st.sampled_from(["a", "10.0.0.1", "[::1]", "a.b", "xn--a", "A", "a_b", "[a]", "", "%61"])
PORTS = st.sampled_from(["", ":6443", ":0", ":65536", ":abc", ":-1", ":99999999", ":٣", ":"])
PATHS = st.sampled_from(["", "/", "/a/b", "/../x", "?q", "#f", "/ü", "/\n", "//b", "/%zz"])
SCHEMES = st.sampled_from(["https://", "HTTPS://", "http://", "ftp://", "//", "", "https:", "u@"])
URLS = st.tuples(SCHEMES, HOSTS, PORTS, PATHS).map("".join)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | URLS
    | st.sampled_from(["t", "c", "k", "u", "a\r\nb", "9" * 5_000, PROXY, "Z2FyYmFnZQ=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)
CLUSTERS = URLS.map(lambda url: {"server": url}) | st.fixed_dictionaries(
    {"server": st.just("https://a") | URLS | VALUES},
    optional={
        "proxy-url": st.just(PROXY) | VALUES,
        "tls-server-name": VALUES,
        "certificate-authority-data": VALUES,
        "certificate-authority": VALUES,
        "insecure-skip-tls-verify": VALUES,
        "extensions": VALUES,
    },
)
USERS = st.just({"token": "t"}) | st.dictionaries(
    st.sampled_from(["token", "client-key-data", "client-certificate-data", "exec", "as"]), VALUES
)
ENTRIES = st.sampled_from(["k"] * 9 + [["k"]]) | VALUES


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Return something like a kubeconfig."""
    config = {
        "current-context": "k",
        "contexts": [{"name": "k", "context": {"cluster": "k", "user": draw(ENTRIES)}}],
        "clusters": [{"name": draw(ENTRIES), "cluster": draw(CLUSTERS)}],
        "users": [{"name": draw(ENTRIES), "user": draw(USERS)}],
    }
    if draw(st.integers(0, 9)) == 0:
        config[draw(st.sampled_from(sorted(config)))] = draw(VALUES)
    return config


@st.composite
def edits(draw: st.DrawFn) -> bytes:
    """Return a file of the corpus with a piece cut out, and another one put in."""
    text = draw(st.sampled_from(FILES)).read_bytes()
    begin = draw(st.integers(0, len(text)))
    length = draw(st.integers(0, 40))
    piece = draw(st.sampled_from([b"", b"[" * 60, b"*a", b"&a ", b"!!set ", b"\n---\n", b"<<: "]))
    return text[:begin] + piece + draw(st.binary(max_size=4)) + text[begin + length :]


TEXTS = configs().map(lambda config: yaml.safe_dump(config).encode()) | edits() | st.binary()


def check(text: bytes) -> SafeKubeconfig | KubeconfigRefusal:
    """Check a kubeconfig as the manager does: it answers in words, soon, and always alike."""
    began = time.process_time()
    got = check_kubeconfig(text, NOW, proxies=(PROXY,))
    assert time.process_time() - began < SECONDS
    if isinstance(got, KubeconfigRefusal):
        assert_words(got.message)
        return got
    assert got == check_kubeconfig(text, NOW, proxies=(PROXY,))
    picked = kubeconfig.pick_context(got.config)
    assert_usable(picked.cluster["server"])
    assert (picked.cluster.get("proxy-url") or PROXY).endswith("proxy:3128")
    for value in (*picked.cluster.values(), *picked.user.values()):
        assert isinstance(value, str)
    return got


def assert_words(message: str) -> None:
    """A reason can stand in a condition."""
    assert message.isprintable()
    assert 0 < len(message) < MAX_MESSAGE


def assert_usable(server: str) -> None:
    """The library that sends requests reads the address, and as one of https."""
    url = URL(server.rstrip("/") + "/api/v1", encoded=True)
    assert (url.scheme, bool(url.host), url.user) == ("https", True, None)
    assert 0 < (url.port or 0) < 65536
    assert url.path.endswith("/api/v1")


def try_secret(secret: object, values: object) -> None:
    for data in (values, {"kubeconfig": values}):
        found = check_secret({"data": data}, "s", "ns", NOW, proxies=())
        assert isinstance(found, KubeconfigRefusal | SafeKubeconfig)
    encoded = {"kubeconfig": base64.b64encode(repr(secret).encode()).decode()}
    assert isinstance(
        check_secret({"data": encoded}, "s", "ns", NOW, proxies=()), KubeconfigRefusal
    )


SETTINGS = MultiKueue(
    allowed_proxies=(PROXY,),
    cluster_profile=ClusterProfile(
        access_providers=(
            AccessProvider(
                name="k",
                exec_config=ExecConfig(
                    command="c",
                    api_version="v1",
                    interactive_mode="Never",
                    provide_cluster_info=True,
                ),
            ),
        )
    ),
)


def try_profile(status: object, cluster: object, name: object) -> None:
    for each in (status, {"accessProviders": [{"name": name, "cluster": cluster}]}):
        found = check_profile({"status": each}, "p", "ns", SETTINGS)
        if isinstance(found, SafeKubeconfig):
            assert_usable(build_endpoint(found).server)
        else:
            assert_words(found.message)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_corpus_is_judged_as_it_is_filed(file: Path) -> None:
    accepted = isinstance(check(file.read_bytes()), SafeKubeconfig)
    assert accepted == (file.parent.name == "accepted")


@SHORT
@given(TEXTS)
def test_any_text_is_accepted_or_refused(text: bytes) -> None:
    check(text)


@SHORT
@given(TEXTS)
def test_a_users_own_kubeconfig_is_read_or_refused(text: bytes) -> None:
    try:
        kubeconfig.pick_context(kubeconfig.parse(text))
    except CredentialsError as error:
        assert_words(str(error))


@SHORT
@given(VALUES, VALUES)
def test_any_secret_is_read_or_refused(secret: object, values: object) -> None:
    try_secret(secret, values)


@SHORT
@given(VALUES, CLUSTERS | VALUES, ENTRIES)
def test_any_profile_is_read_or_refused(status: object, cluster: object, name: object) -> None:
    try_profile(status, cluster, name)


@pytest.mark.fuzz
@LONG
@given(TEXTS, CLUSTERS | VALUES, VALUES)
def test_any_kubeconfig_for_long(text: bytes, cluster: object, value: object) -> None:
    check(text)
    try_secret(value, cluster)
    try_profile(value, cluster, "k")


@pytest.mark.parametrize(
    "text",
    [
        b"x: " + b"[" * 100_000 + b"]",
        b"- " * 500_000,
        b"[" + b"a," * 500_000 + b"]",
        b"a: 1" + b":1" * 500_000,
        b"".join(b"- &a%d x\n" % n for n in range(80_000)),
        b"users:\n- &u {name: u, user: {token: " + b"t" * 100_000 + b"}}\n" + b"- *u\n" * 3_000,
        b"#\n" * 500_000,
    ],
    ids=["brackets", "dashes", "values", "sexagesimal", "anchors", "references", "comments"],
)
def test_a_large_text_is_refused_soon(text: bytes) -> None:
    assert isinstance(check(text), KubeconfigRefusal)
