#!/bin/sh
# Prints the kubeconfig with which a manager uses a worker, once config/worker-role is applied there:
#   config/worker-role/kubeconfig.sh CONTEXT [SERVER] > FILE
# CONTEXT leads to the worker, as its administrator. SERVER is the address that the manager reaches it at, where that is
# not the one in your kubeconfig.
set -eu
context=$1
read_secret() { # jsonpath
    kubectl --context "$context" --namespace kueue-system get secret multikueue-manager-token --output "jsonpath=$1"
}
server=${2:-$(kubectl --context "$context" config view --minify --output 'jsonpath={.clusters[0].cluster.server}')}
token=$(read_secret '{.data.token}' | base64 -d)
if [ -z "$token" ]; then
    echo "the cluster has not filled in the Secret kueue-system/multikueue-manager-token yet; try again" >&2
    exit 1
fi
cat <<EOF
apiVersion: v1
kind: Config
current-context: worker
clusters:
- name: worker
  cluster:
    server: $server
    certificate-authority-data: $(read_secret '{.data.ca\.crt}')
users:
- name: multikueue-manager
  user:
    token: $token
contexts:
- name: worker
  context:
    cluster: worker
    user: multikueue-manager
EOF
