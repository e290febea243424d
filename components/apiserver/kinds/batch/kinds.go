// Package batch holds the kinds of jobs and cron jobs: their rows, defaults, validation and cells. It is pure.
package batch

import "quintet.dev/quintet/components/apiserver/kinds/api"

// Kinds are the rows of the group.
func Kinds(deps api.Deps) []*api.Kind {
	return []*api.Kind{
		jobs(deps),
		cronJobs(deps),
	}
}
