"""The kinds that every API server serves from the start."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from multiqueue.embedded.server.auth import TokenAuthenticator
from multiqueue.embedded.server.authz.authorizer import RoleAuthorizer
from multiqueue.embedded.server.authz.tokens import ServiceAccountTokens
from multiqueue.embedded.server.builtin import cluster_columns as cluster_cells
from multiqueue.embedded.server.builtin import workload_columns as cells
from multiqueue.embedded.server.builtin.access_reviews import (
    access,
    self_access,
    self_rules,
)
from multiqueue.embedded.server.builtin.api_service import API_SERVICE_COLUMNS, API_SERVICE_HOOKS
from multiqueue.embedded.server.builtin.cluster import (
    NAMESPACE_HOOKS,
    NODE_HOOKS,
)
from multiqueue.embedded.server.builtin.crd import CRD_HOOKS
from multiqueue.embedded.server.builtin.data_objects import CONFIG_MAP_HOOKS, SECRET_HOOKS
from multiqueue.embedded.server.builtin.events import (
    EVENT_FIELDS,
    EVENT_HOOKS,
)
from multiqueue.embedded.server.builtin.job import CRON_JOB_HOOKS, JOB_HOOKS
from multiqueue.embedded.server.builtin.pod import POD_HOOKS, POD_SUBRESOURCES
from multiqueue.embedded.server.builtin.pod_columns import POD_COLUMNS
from multiqueue.embedded.server.builtin.priority import PRIORITY_CLASS_HOOKS
from multiqueue.embedded.server.builtin.rbac import ROLE_BINDING_HOOKS, ROLE_HOOKS
from multiqueue.embedded.server.builtin.reviews import SELF_SUBJECT_REVIEW_HOOKS, token_review
from multiqueue.embedded.server.builtin.service_accounts import account_subresources
from multiqueue.embedded.server.builtin.webhook_configurations import (
    MUTATING_HOOKS,
    VALIDATING_HOOKS,
)
from multiqueue.embedded.server.builtin.workloads import (
    DEPLOYMENT_HOOKS,
    LEASE_HOOKS,
    POD_TEMPLATE_HOOKS,
    REPLICA_SET_HOOKS,
    SERVICE_HOOKS,
    STATEFUL_SET_HOOKS,
)
from multiqueue.embedded.server.kinds import (
    NO_HOOKS,
    Hooks,
    Kind,
    KindVersion,
    PrinterColumn,
    Registry,
    Scale,
    Subresource,
)
from multiqueue.embedded.server.schema.types import schema_of

Fields = Mapping[str, Callable[[Mapping[str, Any]], str]]

_REPLICAS = Scale(
    spec_replicas_path=".spec.replicas",
    status_replicas_path=".status.replicas",
)


_PUT_CREATES = {
    *("services", "limitranges", "events", "leases", "runtimeclasses"),
    *("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
}
_PUT_NEEDS_REVISION = {
    *("leases", "runtimeclasses", "poddisruptionbudgets", "customresourcedefinitions"),
    *("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
}
"""Parity: AllowCreateOnUpdate and AllowUnconditionalUpdate of Kubernetes' strategies."""


def builtin_registry(
    authenticator: TokenAuthenticator, authorizer: RoleAuthorizer, tokens: ServiceAccountTokens
) -> Registry:
    """A new registry with all built-in kinds.

    Args:
        authenticator: answers TokenReviews.
        authorizer: answers access reviews.
        tokens: issues the tokens of ServiceAccounts.
    """
    registry = Registry()
    for kind in (
        *_core(tokens),
        *_apps_and_batch(),
        *_policy_and_nodes(),
        *_extension(),
        *_reviews(authenticator, authorizer),
    ):
        registry.add(kind)
    return registry


def _core(tokens: ServiceAccountTokens) -> list[Kind]:
    return [
        _kind("core.Namespace", "namespaces", "ns", cluster=True, name_rule="label", status=True,
              hooks=NAMESPACE_HOOKS, columns=cluster_cells.NAMESPACE_COLUMNS,
              fields=_fields("status.phase")),
        _kind("core.Node", "nodes", "no", cluster=True, status=True, hooks=NODE_HOOKS,
              columns=cluster_cells.NODE_COLUMNS, fields=_fields("spec.unschedulable")),
        _kind("core.Pod", "pods", "po", categories=("all",), generation=True, status=True,
              hooks=POD_HOOKS, columns=POD_COLUMNS, subresources=POD_SUBRESOURCES,
              fields=_fields("spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
                             "spec.serviceAccountName", "spec.hostNetwork", "status.phase",
                             "status.podIP", "status.nominatedNodeName")),
        _kind("core.Secret", "secrets", hooks=SECRET_HOOKS, columns=cluster_cells.SECRET_COLUMNS,
              fields=_fields("type")),
        _kind("core.ConfigMap", "configmaps", "cm", hooks=CONFIG_MAP_HOOKS,
              columns=cluster_cells.CONFIG_MAP_COLUMNS),
        _kind("core.Event", "events", "ev", hooks=EVENT_HOOKS,
              columns=cluster_cells.EVENT_COLUMNS, leading_name=False, fields=EVENT_FIELDS),
        _kind("core.Service", "services", "svc", categories=("all",), name_rule="label1035",
              status=True, hooks=SERVICE_HOOKS, columns=cluster_cells.SERVICE_COLUMNS),
        _kind("core.ServiceAccount", "serviceaccounts", "sa",
              columns=cluster_cells.SERVICE_ACCOUNT_COLUMNS,
              subresources=account_subresources(tokens)),
        _kind("core.LimitRange", "limitranges", "limits",
              columns=cluster_cells.LIMIT_RANGE_COLUMNS),
        _kind("core.ResourceQuota", "resourcequotas", "quota", status=True,
              columns=cluster_cells.QUOTA_COLUMNS),
        _kind("core.PodTemplate", "podtemplates", generation=True, hooks=POD_TEMPLATE_HOOKS,
              columns=cells.POD_TEMPLATE_COLUMNS),
    ]  # fmt: skip


def _apps_and_batch() -> list[Kind]:
    everything = ("all",)
    return [
        _kind("apps.Deployment", "deployments", "deploy", categories=everything, generation=True,
              status=True, scale=_REPLICAS, hooks=DEPLOYMENT_HOOKS,
              columns=cells.DEPLOYMENT_COLUMNS),
        _kind("apps.ReplicaSet", "replicasets", "rs", categories=everything, generation=True,
              status=True, scale=_REPLICAS, hooks=REPLICA_SET_HOOKS,
              columns=cells.REPLICA_SET_COLUMNS, fields=_fields("status.replicas")),
        _kind("apps.StatefulSet", "statefulsets", "sts", categories=everything, generation=True,
              status=True, scale=_REPLICAS, hooks=STATEFUL_SET_HOOKS,
              columns=cells.STATEFUL_SET_COLUMNS),
        _kind("batch.Job", "jobs", categories=everything, generation=True, status=True,
              hooks=JOB_HOOKS, columns=cells.JOB_COLUMNS,
              fields={"status.successful": _reader("status.succeeded", "0")}),
        _kind("batch.CronJob", "cronjobs", "cj", categories=everything, generation=True,
              status=True, hooks=CRON_JOB_HOOKS, columns=cells.CRON_JOB_COLUMNS),
    ]  # fmt: skip


def _policy_and_nodes() -> list[Kind]:
    return [
        _kind("coordination.Lease", "leases", group="coordination.k8s.io", hooks=LEASE_HOOKS,
              columns=cluster_cells.LEASE_COLUMNS),
        _kind("scheduling.PriorityClass", "priorityclasses", "pc", group="scheduling.k8s.io",
              cluster=True, generation=True, hooks=PRIORITY_CLASS_HOOKS,
              columns=cluster_cells.PRIORITY_CLASS_COLUMNS),
        _kind("node.RuntimeClass", "runtimeclasses", group="node.k8s.io", cluster=True,
              columns=cluster_cells.RUNTIME_CLASS_COLUMNS),
        _kind("policy.PodDisruptionBudget", "poddisruptionbudgets", "pdb", generation=True,
              status=True, columns=cluster_cells.BUDGET_COLUMNS),
        *(
            _kind(name, plural, group="rbac.authorization.k8s.io", cluster=cluster,
                  name_rule="segment", hooks=hooks, columns=columns)
            for name, plural, cluster, hooks, columns in (
                ("rbac.Role", "roles", False, ROLE_HOOKS, cluster_cells.ROLE_COLUMNS),
                ("rbac.RoleBinding", "rolebindings", False, ROLE_BINDING_HOOKS,
                 cluster_cells.ROLE_BINDING_COLUMNS),
                ("rbac.ClusterRole", "clusterroles", True, ROLE_HOOKS, cluster_cells.ROLE_COLUMNS),
                ("rbac.ClusterRoleBinding", "clusterrolebindings", True, ROLE_BINDING_HOOKS,
                 cluster_cells.ROLE_BINDING_COLUMNS),
            )
        ),
    ]  # fmt: skip


def _extension() -> list[Kind]:
    extensions = ("api-extensions",)
    return [
        _kind("admissionregistration.MutatingWebhookConfiguration", "mutatingwebhookconfigurations",
              group="admissionregistration.k8s.io", cluster=True, categories=extensions,
              generation=True, hooks=MUTATING_HOOKS, columns=cluster_cells.WEBHOOK_COLUMNS),
        _kind("admissionregistration.ValidatingWebhookConfiguration",
              "validatingwebhookconfigurations", group="admissionregistration.k8s.io", cluster=True,
              categories=extensions, generation=True, hooks=VALIDATING_HOOKS,
              columns=cluster_cells.WEBHOOK_COLUMNS),
        _kind("apiextensions.CustomResourceDefinition", "customresourcedefinitions", "crd", "crds",
              group="apiextensions.k8s.io", cluster=True, categories=extensions, generation=True,
              status=True, hooks=CRD_HOOKS, columns=cluster_cells.CRD_COLUMNS),
        _kind("apiregistration.APIService", "apiservices", group="apiregistration.k8s.io",
              cluster=True, categories=extensions, status=True, name_rule="segment",
              hooks=API_SERVICE_HOOKS, columns=API_SERVICE_COLUMNS),
    ]  # fmt: skip


def _reviews(authenticator: TokenAuthenticator, authorizer: RoleAuthorizer) -> list[Kind]:
    group = "authentication.k8s.io"
    return [
        _kind("authentication.TokenReview", "tokenreviews", group=group, cluster=True,
              hooks=Hooks(respond=partial(token_review, authenticator))),
        _kind("authentication.SelfSubjectReview", "selfsubjectreviews", group=group, cluster=True,
              hooks=SELF_SUBJECT_REVIEW_HOOKS),
        *(
            _kind(f"authorization.{name}", f"{name.lower()}s", group="authorization.k8s.io",
                  cluster=True, hooks=Hooks(respond=partial(respond, authorizer)))
            for name, respond in (
                ("SelfSubjectAccessReview", self_access),
                ("SelfSubjectRulesReview", self_rules),
                ("SubjectAccessReview", access),
            )
        ),
    ]  # fmt: skip


def _kind(  # noqa: PLR0913 - one parameter per fact that differs between kinds
    type_name: str,
    plural: str,
    *short_names: str,
    group: str | None = None,
    cluster: bool = False,
    categories: tuple[str, ...] = (),
    name_rule: str = "subdomain",
    generation: bool = False,
    status: bool = False,
    scale: Scale | None = None,
    hooks: Hooks = NO_HOOKS,
    columns: tuple[PrinterColumn, ...] = (),
    leading_name: bool = True,
    fields: Fields | None = None,
    subresources: tuple[Subresource, ...] = (),
) -> Kind:
    package, _, name = type_name.partition(".")
    schema = schema_of(type_name)
    version = KindVersion(
        name="v1",
        schema=schema,
        columns=columns,
        leading_name=leading_name,
        selectable_fields=fields or {},
        has_status=status,
        scale=scale,
    )
    return Kind(
        group=group if group is not None else "" if package == "core" else package,
        plural=plural,
        singular=name.lower(),
        kind=name,
        list_kind=f"{name}List",
        namespaced=not cluster,
        versions=(version,),
        short_names=short_names,
        categories=categories,
        subresources=subresources,
        has_generation=generation,
        put_creates=plural in _PUT_CREATES,
        put_needs_revision=plural in _PUT_NEEDS_REVISION,
        name_rule=name_rule,
        hooks=hooks,
    )


def _fields(*paths: str) -> Fields:
    """Selectable fields; booleans and missing booleans read as in Kubernetes."""
    return {path: _reader(path, _EMPTY.get(path, "")) for path in paths}


_EMPTY = {"spec.unschedulable": "false", "spec.hostNetwork": "false", "status.replicas": "0"}


def _reader(path: str, empty: str) -> Callable[[Mapping[str, Any]], str]:
    parts = path.split(".")

    def read(obj: Mapping[str, Any]) -> str:
        value: Any = obj
        for part in parts:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, bool):
            return "true" if value else "false"
        return empty if value is None else str(value)

    return read
