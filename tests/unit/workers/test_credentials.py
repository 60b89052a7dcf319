"""Which kubeconfigs are safe, and what is said about the others (T-235 to T-266)."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime

import pytest
import yaml

from multiqueue.api.conditions import ClusterReason
from multiqueue.embedded.server.certificates import create_authority
from multiqueue.workers.kubeconfigs.credentials import (
    MAX_KUBECONFIG_BYTES,
    KubeconfigRefusal,
    SafeKubeconfig,
    check_kubeconfig,
    check_path,
    read_file,
    read_secret,
)
from multiqueue.workers.kubeconfigs.expiry import find_expiries
from multiqueue.workers.kubeconfigs.inline_data import MAX_KEY_BYTES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AUTHORITY = create_authority(NOW)
BAD, INSECURE = ClusterReason.BAD_KUBE_CONFIG, ClusterReason.INSECURE_KUBE_CONFIG


def make_config(*, cluster: dict | None = None, user: dict | None = None) -> dict:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {"name": "k", "cluster": {"server": "https://10.0.0.1:6443", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": {"token": "t", **(user or {})}}],
    }


def make_token(**claims: object) -> str:
    def encode(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{encode({'alg': 'RS256'})}.{encode(claims)}.signature"


def check(config: object) -> SafeKubeconfig | KubeconfigRefusal:
    return check_kubeconfig(yaml.safe_dump(config).encode(), NOW)


def encode_data(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_inline_data_is_safe():
    certificate = encode_data(AUTHORITY.certificate)
    config = make_config(
        cluster={"certificate-authority-data": certificate},
        user={
            "client-certificate-data": certificate,
            "client-key-data": encode_data(AUTHORITY.key),
        },
    )
    got = check(config)
    assert isinstance(got, SafeKubeconfig)
    assert (got.config, got.server) == (config, "https://10.0.0.1:6443")


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("user", {"tokenFile": "/t"}, 'user "u" uses a token file'),
        ("user", {"client-certificate": "/c"}, "uses a client certificate file"),
        ("user", {"client-key": "/k"}, "uses a client key file"),
        (
            "user",
            {"exec": {"command": "sh"}},
            "uses a program (exec); put a token or a client certificate inline",
        ),
        ("user", {"auth-provider": {"name": "gcp"}}, "uses an auth-provider"),
        ("user", {"username": "u"}, "uses a password"),
        ("user", {"password": "p"}, "uses a password"),
        ("cluster", {"insecure-skip-tls-verify": True}, 'cluster "k" does not verify TLS'),
        ("cluster", {"certificate-authority": "/ca"}, 'cluster "k" uses a CA file'),
        ("cluster", {"server": ""}, 'cluster "k" has no server'),
        ("cluster", {"server": "https://under_score"}, "neither an IP address nor a host name"),
        ("cluster", {"server": "https://xn--a"}, "neither an IP address nor a host name"),
        ("cluster", {"server": "https://[::1"}, "no URL of the form https://host:port/path"),
        ("cluster", {"server": "https://[::1%eth0]"}, "neither an IP address nor a host name"),
        ("cluster", {"server": "http://10.0.0.1"}, "does not begin with https://"),
        ("cluster", {"server": "ftp://10.0.0.1"}, "does not begin with https://"),
        ("cluster", {"server": "//10.0.0.1"}, "does not begin with https://"),
        ("cluster", {"server": "10.0.0.1:6443"}, "does not begin with https://"),
        ("cluster", {"server": "https://10.0.0.1:99999999"}, "no number from 1 to 65535"),
        ("cluster", {"server": "https://10.0.0.1:abc"}, "no number from 1 to 65535"),
        ("cluster", {"server": "https://10.0.0.1:-1"}, "no number from 1 to 65535"),
        ("cluster", {"server": "https://10.0.0.1:0"}, "no number from 1 to 65535"),
        ("cluster", {"server": "https://u:secret@10.0.0.1"}, "holds a user name"),
        ("cluster", {"server": "https://10.0.0.1/?a=b"}, "is no URL"),
        ("cluster", {"server": "https://10.0.0.1/\n"}, "is no URL"),
        ("cluster", {"server": 7}, "has a server that is not a string"),
        ("cluster", {"server": ["https://a"]}, "has a server that is not a string"),
        ("cluster", {"tls-server-name": "a b"}, "has a tls-server-name that is neither"),
        ("cluster", {"tls-server-name": 7}, "has a tls-server-name that is neither"),
        ("cluster", {"proxy-url": "socks5://p"}, "does not begin with http:// or https://"),
        ("cluster", {"proxy-url": ["http://p"]}, "has a proxy-url that is not a string"),
        ("cluster", {"proxy-url": "http://p:1"}, "add the proxy to multiKueue.allowedProxies"),
        ("cluster", {"server": f"https://{'a' * 254}"}, "neither an IP address nor a host name"),
    ],
)
def test_what_reads_runs_or_trusts_is_insecure(part, value, words):
    """M-31, M-32."""
    got = check(make_config(**{part: value}))
    assert isinstance(got, KubeconfigRefusal)
    assert got.reason is INSECURE
    assert words in got.message


@pytest.mark.parametrize(
    "server", ["https://[fd00::1]:6443", "https://k8s.example.com/a/b", "https://K8S.Example"]
)
def test_servers_may_be_addresses_and_names(server):
    """M-32."""
    assert isinstance(check(make_config(cluster={"server": server})), SafeKubeconfig)


@pytest.mark.parametrize("proxy", ["http://proxy:3128", "http://u:p@PROXY:3128/"])
def test_a_proxy_may_be_used_that_the_configuration_allows(proxy):
    data = yaml.safe_dump(make_config(cluster={"proxy-url": proxy})).encode()
    got = check_kubeconfig(data, NOW, proxies=("https://other", "http://proxy:3128"))
    assert isinstance(got, SafeKubeconfig)


def test_entries_that_no_context_points_to_are_looked_at_too():
    """M-31."""
    config = make_config()
    config["users"].append({"name": "other", "user": {"exec": {"command": "sh"}}})
    assert 'user "other"' in check(config).message


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "no current-context"),
        ({"current-context": "x"}, 'no context "x"'),
        ({**make_config(), "clusters": []}, 'no cluster "k"'),
        ({**make_config(), "contexts": [{"name": "c", "context": {"cluster": ["k"]}}]}, "a string"),
        ({**make_config(), "current-context": ["c"]}, "no current-context"),
    ],
)
def test_what_points_nowhere_is_bad(config, words):
    got = check(config)
    assert (got.reason, words in got.message) == (BAD, True)


@pytest.mark.parametrize(
    ("part", "entry", "key"),
    [
        ("cluster", 'cluster "k"', "certificate-authority-data"),
        ("user", 'user "u"', "client-certificate-data"),
        ("user", 'user "u"', "client-key-data"),
    ],
)
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("!!!", "is not base64"),
        (encode_data(b"no PEM"), "is not usable PEM"),
        (encode_data(b"-----BEGIN CERTIFICATE-----\n\xff"), "is not usable PEM"),
    ],
)
def test_inline_data_that_cannot_be_used_is_bad_and_named(part, entry, key, value, words):
    got = check(make_config(**{part: {key: value}}))
    assert got == KubeconfigRefusal(reason=BAD, message=f"kubeconfig: {entry}: {key} {words}")


def test_a_key_that_takes_seconds_to_check_is_not_checked():
    key = b"-----BEGIN RSA PRIVATE KEY-----\n" + b"A" * MAX_KEY_BYTES
    got = check(make_config(user={"client-key-data": encode_data(key)}))
    assert "client-key-data is not usable PEM" in got.message


@pytest.mark.parametrize("token", ["a b", "a\n", "a\r\nX: y", "\u00e4"])
def test_a_token_that_is_no_header_is_named(token):
    got = check(make_config(user={"token": token}))
    assert (got.reason, "token holds" in got.message, token in got.message) == (BAD, True, False)


@pytest.mark.parametrize(
    "token", [7, ["a"], {"a": "b"}, True], ids=["number", "list", "mapping", "boolean"]
)
def test_what_is_read_must_be_strings(token):
    got = check(make_config(user={"token": token}))
    assert got == KubeconfigRefusal(
        reason=BAD, message='kubeconfig: user "u": token is not a string'
    )


def test_names_in_messages_are_short_and_printable():
    config = make_config(user={"tokenFile": "/t"})
    config["users"][0]["name"] = "\x1b[31m" + "x" * 100_000
    got = check(config)
    assert (len(got.message) < 200, "\x1b" in got.message) == (True, False)


def test_a_kubeconfig_is_reduced_to_what_is_used():
    config = make_config(user={"as": "root"}, cluster={"extensions": [float("nan")]})
    config["users"].append({"name": "other", "user": {"token": "t"}})
    assert check(config).config == make_config()
    assert check(config) == check(config)


def test_inline_data_of_another_context_does_not_matter():
    config = make_config()
    config["users"].append({"name": "other", "user": {"client-key-data": "!!!"}})
    assert isinstance(check(config), SafeKubeconfig)


@pytest.mark.parametrize(
    "text",
    [b"{", b"\xff\xfe", b"- a\n- b", b"x: " + b"[" * 100_000 + b"]", b"a: &a [*a]"],
    ids=["cut off", "bytes", "list", "deep", "itself"],
)
def test_what_is_no_kubeconfig_is_refused(text):
    assert check_kubeconfig(text, NOW).reason is INSECURE


def test_a_token_that_says_it_has_expired_is_named():
    """M-32."""
    got = check(make_config(user={"token": make_token(exp=NOW.timestamp())}))
    assert (got.reason, "expired at 2026-01-01T00:00:00Z" in got.message) == (BAD, True)


def test_a_token_that_will_expire_is_remembered():
    later = datetime(2026, 6, 1, tzinfo=UTC)
    got = check(make_config(user={"token": make_token(exp=later.timestamp())}))
    assert [(e.what, e.ends_at) for e in got.expiries] == [("token", later)]


@pytest.mark.parametrize(
    "token",
    [None, 7, "opaque", "a.b.c", make_token(), make_token(exp="soon"), make_token(exp=1e30)],
)
def test_a_token_that_says_nothing_never_expires(token):
    assert find_expiries({}, {"token": token}) == ()


def secret(**data: str) -> dict:
    return {"data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items()}}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, 'Secret "ns/s" not found'),
        ({}, 'has no key "kubeconfig"; put the kubeconfig under this key'),
        (secret(other="x"), 'has no key "kubeconfig"'),
        (secret(kubeconfig=" \n"), 'key "kubeconfig" is empty'),
        ({"data": {"kubeconfig": "%%%"}}, "is not base64"),
    ],
)
def test_a_secret_that_holds_no_kubeconfig_is_bad(value, words):
    """M-30."""
    got = read_secret(value, "s", "ns")
    assert (got.reason, words in got.message) == (BAD, True)


def test_a_secret_gives_its_kubeconfig():
    assert read_secret(secret(kubeconfig="a: b"), "s", "ns") == b"a: b"


class TestPath:
    @pytest.fixture
    def place(self, tmp_path):
        (tmp_path / "kubeconfigs").mkdir()
        (tmp_path / "kubeconfigs" / "worker").write_text("a: b")
        (tmp_path / "kubeconfigs-x").mkdir()
        (tmp_path / "kubeconfigs-x" / "worker").write_text("a: b")
        return tmp_path / "kubeconfigs"

    def test_a_file_below_the_place_is_read(self, place):
        assert read_file(str(place / "worker"), place) == b"a: b"

    @pytest.mark.parametrize(
        ("location", "words"),
        [
            ("", "is not absolute"),
            ("worker", "is not absolute"),
            ("{place}/../kubeconfigs/worker", 'contains ".."'),
            ("{place}/missing", "not found"),
            ("{place}-x/worker", "is not below"),
            ("/etc/hostname", "is not below"),
        ],
    )
    def test_anything_else_is_refused(self, place, location, words):
        """M-34."""
        got = check_path(location.format(place=place), place)
        assert (got.reason, words in got.message) == (BAD, True)

    def test_what_is_no_name_of_a_file_is_not_found(self, place):
        assert "not found" in check_path(f"{place}/\0", place).message
        assert "not found" in check_path(f"{place}/{'x' * 300}", place).message

    def test_a_link_that_leads_out_is_refused(self, place):
        """M-34."""
        (place / "link").symlink_to(place.parent / "kubeconfigs-x" / "worker")
        assert "is not below" in check_path(str(place / "link"), place).message

    def test_a_link_within_is_followed(self, place):
        (place / "link").symlink_to(place / "worker")
        assert check_path(str(place / "link"), place) == place / "worker"

    def test_without_the_place_there_is_nothing(self, tmp_path):
        assert "not found" in check_path(str(tmp_path / "x"), tmp_path / "missing").message

    def test_files_that_hold_nothing_or_far_too_much_are_refused(self, place):
        (place / "empty").write_text(" ")
        assert "is empty" in read_file(str(place / "empty"), place).message
        (place / "huge").write_bytes(b"x" * (MAX_KUBECONFIG_BYTES + 1))
        assert "is too large" in read_file(str(place / "huge"), place).message
        (place / "folder").mkdir()
        assert isinstance(read_file(str(place / "folder"), place), KubeconfigRefusal)
