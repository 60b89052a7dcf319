module multiqueue.test/kinds

go 1.26.0

require (
	github.com/kubeflow/mpi-operator v0.8.2
	github.com/kubeflow/spark-operator/v2 v2.5.2
	github.com/kubeflow/trainer/v2 v2.3.0
	github.com/kubeflow/training-operator v1.9.4
	github.com/project-codeflare/appwrapper v1.2.2
	github.com/ray-project/kuberay/ray-operator v1.7.0
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/lws v0.10.0
)
