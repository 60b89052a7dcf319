module multiqueue.test/declared

go 1.26.0

require (
	github.com/argoproj/argo-workflows/v3 v3.6.5
	github.com/kserve/kserve v0.16.0
	github.com/tektoncd/pipeline v1.0.0
)
