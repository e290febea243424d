package batch

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func TestJobCells(t *testing.T) {
	row := func(status, completions, duration string) []string {
		return []string{"pi", status, completions, duration, "24h", "c", "perl", "a=b"}
	}
	condition := func(kind string) string { return "status.conditions: [{type: " + kind + ", status: 'True'}]" }
	selfMade().Cells(t, kindtest.Table{
		"": row("Running", "0/1", ""),
		"spec.completions: 5; status.succeeded: 2": row("Running", "2/5", ""),
		"spec.parallelism: 3":                      row("Running", "0/1 of 3", ""),
		"spec.parallelism: 1; status.succeeded: 1": row("Running", "1/1", ""),
		"status.startTime: 2026-01-03T11:00:00Z":   row("Running", "0/1", "60m"),

		"status: {startTime: 2026-01-02T12:00:00Z, completionTime: 2026-01-02T12:01:30Z}": row("Running", "0/1", "90s"),

		condition("Complete"):                              row("Complete", "0/1", ""),
		condition("Failed"):                                row("Failed", "0/1", ""),
		condition("Suspended"):                             row("Suspended", "0/1", ""),
		condition("FailureTarget"):                         row("FailureTarget", "0/1", ""),
		condition("SuccessCriteriaMet"):                    row("SuccessCriteriaMet", "0/1", ""),
		"metadata.deletionTimestamp: 2026-01-03T11:00:00Z": row("Terminating", "0/1", ""),

		condition("Failed") + "; metadata.deletionTimestamp: 2026-01-03T11:00:00Z": row("Failed", "0/1", ""),

		"status.conditions: [{type: Complete, status: 'False'}, {type: Suspended, status: 'True'}]": row("Suspended",
			"0/1", ""),
	})
}

func TestCronJobCells(t *testing.T) {
	row := func(zone, suspend, active, last string) []string {
		return []string{"nightly", "0 3 * * *", zone, suspend, active, last, "24h", "c", "perl", "<none>"}
	}
	cronJob().Cells(t, kindtest.Table{
		"":                            row("<none>", "False", "0", "<none>"),
		"spec.timeZone: Europe/Paris": row("Europe/Paris", "False", "0", "<none>"),
		"spec.suspend: true":          row("<none>", "True", "0", "<none>"),

		"status: {active: [{name: a}, {name: b}], lastScheduleTime: 2026-01-03T03:00:00Z}": row("<none>", "False", "2",

			"9h"),
	})
}
