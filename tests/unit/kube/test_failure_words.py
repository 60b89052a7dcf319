"""Connection errors are told in words that stay the same."""

from __future__ import annotations

import errno
import ssl

import aiohttp
from aiohttp.client_reqrep import ConnectionKey

from multiqueue.kube.failure_words import describe_failure

KEY = ConnectionKey("worker", 6443, True, ssl.create_default_context(), None, None, None)


def test_a_refused_connection_names_the_address_and_the_reason() -> None:
    os_error = OSError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.1', 6443)")
    error = aiohttp.ClientConnectorError(KEY, os_error)
    assert describe_failure(error) == "worker:6443: connection refused"


def test_a_bad_certificate_says_what_is_wrong_with_it() -> None:
    verify = ssl.SSLCertVerificationError(1, "certificate verify failed")
    verify.verify_message = "self-signed certificate"
    error = aiohttp.ClientConnectorCertificateError(KEY, verify)
    want = "worker:6443: certificate verify failed: self-signed certificate"
    assert describe_failure(error) == want


def test_a_server_that_speaks_no_tls_is_told_without_the_librarys_source_lines() -> None:
    error = ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)")
    error.reason = "WRONG_VERSION_NUMBER"
    assert describe_failure(error) == "wrong version number"


def test_an_error_without_words_is_told_by_its_kind() -> None:
    assert describe_failure(aiohttp.ServerDisconnectedError()) == "Server disconnected"
    assert describe_failure(ConnectionResetError()) == "ConnectionResetError"


def test_an_answer_that_breaks_off_is_told_without_the_librarys_parser() -> None:
    parser = "Not enough data to satisfy transfer length header."
    error = aiohttp.ClientPayloadError(f"Response payload is not completed: {parser}")
    assert describe_failure(error) == "the connection broke off in the middle of an answer"
