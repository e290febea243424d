package batch

import (
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func job() kindtest.Fixture {
	return kindtest.Fixture{Kind: jobs(api.Deps{}), Object: `
apiVersion: batch/v1
kind: Job
metadata: {name: pi, namespace: default, uid: u1, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  template:
    spec: {restartPolicy: Never, containers: [{name: c, image: perl}]}
`}
}

// selfMade is a job whose author made the selector.
func selfMade() kindtest.Fixture {
	return kindtest.Fixture{Kind: jobs(api.Deps{}), Object: `
apiVersion: batch/v1
kind: Job
metadata: {name: pi, namespace: default, uid: u1, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  manualSelector: true
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec: {restartPolicy: Never, containers: [{name: c, image: perl}]}
`}
}

func cronJob() kindtest.Fixture {
	return kindtest.Fixture{Kind: cronJobs(api.Deps{}), Object: `
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: default, creationTimestamp: "2026-01-02T12:00:00Z"}
spec:
  schedule: 0 3 * * *
  jobTemplate:
    spec:
      template:
        spec: {restartPolicy: OnFailure, containers: [{name: c, image: perl}]}
`}
}
