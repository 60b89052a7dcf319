#!/bin/sh
# A manager and two workers on kind, and every step of tests/e2e on them. README.md tells what can be set.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
config=$here/../config
python=${PYTHON:-$here/../.venv/bin/python}
image=multiqueue:0.1.0
manager=mq-manager
workers="mq-worker-1 mq-worker-2"
upstream=${UPSTREAM:-$workers} # those that run upstream Kueue; the others run this program
kueue=https://github.com/kubernetes-sigs/kueue/releases/download/v0.19.0/manifests.yaml
kwok=https://github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok.yaml
stages=https://raw.githubusercontent.com/kubernetes-sigs/kwok/v0.8.0/kustomize/stage
node=${KIND_NODE:-kindest/node:v1.34.0} # whose kubeadm takes apiServer.extraArgs as cluster.yaml writes them

for program in docker kind kubectl "$python"; do
    command -v "$program" > /dev/null || {
        echo "e2e-kind needs $program" >&2
        exit 2
    }
done

work=$(mktemp -d)
remove() {
    rm -rf "$work"
    [ -n "${KEEP:-}" ] || for name in $manager $workers; do kind delete cluster --name "$name"; done
}
trap remove EXIT

on() { # cluster, arguments of kubectl
    cluster=$1
    shift
    kubectl --context "kind-$cluster" "$@"
}
runs_upstream() {
    case " $upstream " in *" $1 "*) true ;; *) false ;; esac
}

cd "$here/.."
"$python" -m tests.e2e policy > "$work/audit.json"
sed "s|AUDIT_POLICY|$work/audit.json|" "$here/cluster.yaml" > "$work/cluster.yaml"
docker build --tag "$image" .
for name in $manager $workers; do
    kind create cluster --name "$name" --image "$node" --config "$work/cluster.yaml" --wait 120s
    kind get kubeconfig --name "$name" > "$work/$name.kubeconfig"
    if runs_upstream "$name"; then
        on "$name" apply --server-side -f "$kueue"
    else
        kind load docker-image "$image" --name "$name"
        on "$name" apply --server-side -k "$config/default"
    fi
done
for name in $manager $workers; do
    on "$name" --namespace kueue-system rollout status deployment/kueue-controller-manager --timeout=180s
done
# Each step runs the manager's program for itself.
on "$manager" --namespace kueue-system scale deployment/kueue-controller-manager --replicas=0

for name in $workers; do
    on "$name" apply -f "$kwok"
    on "$name" wait --for=condition=Established crd/stages.kwok.x-k8s.io --timeout=60s
    for stage in $("$python" -m tests.e2e stages); do
        on "$name" apply -f "$stages/$stage"
    done
    on "$name" --namespace kube-system rollout status deployment/kwok-controller --timeout=180s
    "$python" -m tests.e2e nodes "$name" | on "$name" create -f -
    on "$name" apply --server-side -k "$config/worker-role"
    on "$name" --namespace kueue-system wait --for='jsonpath={.data.token}' secret/multikueue-manager-token --timeout=60s
    # The clusters share a Docker network, in which each control plane is known by its name.
    "$config/worker-role/kubeconfig.sh" "kind-$name" "https://$name-control-plane:6443" > "$work/remote"
    on "$manager" --namespace kueue-system create secret generic "$name-kubeconfig" --from-file=kubeconfig="$work/remote"
done
# shellcheck disable=SC2086 # two names
"$python" -m tests.e2e run --folder "$work" --manager "$manager" --step "${STEP:-}" $workers
echo "every step passed"
