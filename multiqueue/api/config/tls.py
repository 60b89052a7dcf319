"""Maps Go's names in the ``tls`` section to OpenSSL's."""

from __future__ import annotations

from collections.abc import Mapping

_AES_GCM = {"AES_128_GCM_SHA256": "AES128-GCM-SHA256", "AES_256_GCM_SHA384": "AES256-GCM-SHA384"}
_AES_CBC = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_128_CBC_SHA256": "AES128-SHA256",
}
_CHACHA = {
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}


def _cipher_suites() -> dict[str, str]:
    suites = {f"TLS_RSA_WITH_{go}": ours for go, ours in {**_AES_GCM, **_AES_CBC}.items()}
    for signature in ("ECDSA", "RSA"):
        for go, ours in {**_AES_GCM, **_AES_CBC, **_CHACHA}.items():
            suites[f"TLS_ECDHE_{signature}_WITH_{go}"] = f"ECDHE-{signature}-{ours}"
    return suites


CIPHER_SUITES: Mapping[str, str] = _cipher_suites()
"""Suites of TLS 1.2. RC4 and 3DES are missing because OpenSSL has dropped them."""
TLS13_CIPHER_SUITES = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Suites of TLS 1.3, which are always offered, here as in Go; naming them has no effect."""
CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
    "X25519MLKEM768": "X25519MLKEM768",
}
"""Go's name of a curve -> OpenSSL's."""
