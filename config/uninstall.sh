#!/bin/sh
# Removes what config/default and config/checkpoint-hooks have installed, with all queues and Workloads:
#   [KUBECTL="kubectl --context NAME"] config/uninstall.sh
# Jobs stay: those that run go on, those that wait stay suspended. Delete jobs that run on workers before: nobody ends
# them afterwards.
set -eu
kubectl=${KUBECTL:-kubectl}
folder=$(dirname "$0")

# Nobody registers webhooks, or makes Workloads, any more.
$kubectl --namespace kueue-system delete deployment/kueue-controller-manager --ignore-not-found
$kubectl delete --ignore-not-found \
    mutatingwebhookconfiguration/kueue-mutating-webhook-configuration \
    validatingwebhookconfiguration/kueue-validating-webhook-configuration
# Nor answers for these groups: while they are listed, deleting a namespace fails and is tried again ever later.
$kubectl delete --ignore-not-found apiservice \
    v1alpha1.fleet.multiqueue.dev v1alpha1.remote.multiqueue.dev \
    v1beta1.visibility.kueue.x-k8s.io v1beta2.visibility.kueue.x-k8s.io

# Nor does anybody convert what is stored in v1beta1; to be deleted it has to be read.
definitions=$($kubectl get customresourcedefinitions --output name | grep -e '\.kueue\.x-k8s\.io$' -e '\.multiqueue\.dev$' || true)
for definition in $definitions; do
    $kubectl patch "$definition" --type=merge --patch '{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
done

# Nobody is left to say that objects are not in use. Reading also waits until the API server is ready to read the kind:
# a definition that is deleted before stays for five minutes ("storage is (re)initializing").
for definition in $definitions; do
    kind=${definition#*/}
    $kubectl get "$kind" --all-namespaces --output \
        'jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}' |
        while IFS=/ read -r namespace name; do
            $kubectl ${namespace:+--namespace "$namespace"} patch "$kind" "$name" \
                --type=merge --patch '{"metadata":{"finalizers":null}}'
        done
done
# A namespace whose objects have lost their definition half-way is tried again later, too.
$kubectl delete --ignore-not-found --kustomize "$folder/crd"
$kubectl delete --ignore-not-found --kustomize "$folder/checkpoint-hooks"
$kubectl delete --ignore-not-found --wait=false --kustomize "$folder/default"
# To wait for each of a hundred objects in turn takes kubectl 20 seconds; the namespace goes last.
$kubectl wait --for=delete namespace/kueue-system --timeout=300s
