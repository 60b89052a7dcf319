"""Impersonation: ``Impersonate-*`` headers, each of which must be allowed.

Deviates: only the verb ``impersonate`` allows it. The finer verbs that Kubernetes 1.36 checks first
(``impersonate:user-info`` and others) do not, and refusals do not name them. A user and groups can
be impersonated; a uid and extra fields are refused.
"""

from collections.abc import Iterator

from multidict import CIMultiDictProxy

from multiqueue.embedded.server.auth import (
    ANONYMOUS,
    AUTHENTICATED,
    SERVICE_ACCOUNT_PREFIX,
    UNAUTHENTICATED,
    ApiUser,
    service_account_groups,
)
from multiqueue.embedded.server.authz.attributes import Attributes
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.status import bad_request

PREFIX = "impersonate-"
USER, GROUP = "Impersonate-User", "Impersonate-Group"
VERB = "impersonate"

Headers = CIMultiDictProxy[str]


def impersonated(authorizer: RoleAuthorizer, user: ApiUser, headers: Headers) -> ApiUser:
    """Return the user to authorize the request for.

    Raises:
        StatusError: 400, headers without a user, or not text; 403, the user may not impersonate.
    """
    given = [name for name in headers if name[:1] in "iI" and name.lower().startswith(PREFIX)]
    if not given:
        return user  # nearly always
    if others := [name for name in given if name.lower() not in {USER.lower(), GROUP.lower()}]:
        raise bad_request(f"{others[0]} is not supported by this server: give users and groups")
    if any(_is_undecoded(value) for name in given for value in headers.getall(name)):
        raise bad_request("Impersonate headers must be UTF-8")
    wanted = _wanted(headers)
    if wanted is None:
        return user
    for attributes in _attributes_of(wanted):
        authorizer.check(user, attributes)
    return _completed(wanted)


def _is_undecoded(value: str) -> bool:
    """Whether a header has bytes that are not UTF-8, which no answer can contain."""
    return any("\ud800" <= each <= "\udfff" for each in value)


def _wanted(headers: Headers) -> ApiUser | None:
    """Return the user in the headers; None if there are no such headers."""
    name, groups = headers.get(USER, ""), tuple(headers.getall(GROUP, ()))
    if name:
        return ApiUser(name, groups)
    if groups:
        raise bad_request(f"requested {GROUP} without impersonating a user name")
    return None


def _attributes_of(wanted: ApiUser) -> Iterator[Attributes]:
    """Yield the permissions that the impersonation needs, one for each part of the user."""
    account = _service_account(wanted.name)
    if account is not None:
        namespace, name = account
        yield Attributes(VERB, resource="serviceaccounts", namespace=namespace, name=name)
    else:
        yield Attributes(VERB, resource="users", name=wanted.name)
    for group in wanted.groups:
        yield Attributes(VERB, resource="groups", name=group)


def _completed(wanted: ApiUser) -> ApiUser:
    """Return the user with its implied groups."""
    groups = wanted.groups
    account = _service_account(wanted.name)
    if account is not None and not groups:
        groups = service_account_groups(account[0])
    if wanted.name == ANONYMOUS.name:
        if UNAUTHENTICATED not in groups:
            groups = (*groups, UNAUTHENTICATED)
    elif not {AUTHENTICATED, UNAUTHENTICATED} & set(groups):
        groups = (*groups, AUTHENTICATED)
    return ApiUser(wanted.name, groups)


def _service_account(name: str) -> tuple[str, str] | None:
    """Return (namespace, name) of the ServiceAccount with this user name, or None."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    return (namespace, account) if namespace and colon and account else None
