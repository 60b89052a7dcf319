#!/bin/sh
# A manager and two workers on kind; a job is dispatched to one of them and its end comes back.
set -eu
here=$(dirname "$0")
config=$here/../config
image=multiqueue:0.1.0
workers="mq-worker-1 mq-worker-2"

for program in docker kind kubectl; do
    command -v "$program" > /dev/null || {
        echo "e2e-kind needs $program" >&2
        exit 2
    }
done

remove() {
    [ -n "${KEEP:-}" ] || for name in mq-manager $workers; do kind delete cluster --name "$name"; done
}
trap remove EXIT

docker build --tag "$image" "$here/.."
for name in mq-manager $workers; do
    kind create cluster --name "$name" --config "$here/cluster.yaml" --wait 120s
    kind load docker-image "$image" --name "$name"
    kubectl --context "kind-$name" apply --server-side -k "$config/default"
done
for name in mq-manager $workers; do
    kubectl --context "kind-$name" --namespace kueue-system rollout status \
        deployment/kueue-controller-manager --timeout=180s
done

manager="kubectl --context kind-mq-manager"
for name in $workers; do
    kubectl --context "kind-$name" apply --server-side -k "$config/worker-role"
    kubectl --context "kind-$name" apply -f "$here/worker.yaml"
    # The clusters share a Docker network, in which each control plane is known by its name.
    "$config/worker-role/kubeconfig.sh" "kind-$name" "https://$name-control-plane:6443" |
        $manager --namespace kueue-system create secret generic "$name-kubeconfig" \
            --from-file=kubeconfig=/dev/stdin
done
$manager apply -f "$here/manager.yaml"
$manager wait --for=condition=Active admissioncheck/workers --timeout=60s
$manager create -f "$here/job.yaml"
$manager --namespace team wait --for=condition=Complete job/hello --timeout=180s
echo "the job ran on a worker and its end came back"
