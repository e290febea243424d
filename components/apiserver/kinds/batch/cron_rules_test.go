package batch

import (
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/kindtest"
)

func TestCronJobValidation(t *testing.T) {
	const job = "spec.jobTemplate.spec"
	cronJob().Create(t, kindtest.Table{
		"":                         nil,
		"spec.schedule: '@hourly'": nil,
		"spec.schedule: null":      {"spec.schedule: Required value"},
		"spec.schedule: 'x'":       {`spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]`},
		"spec.schedule: '61 * * * *'": {
			`spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61`,
		},
		"spec.schedule: '@often'": {`spec.schedule: Invalid value: "@often": unrecognized descriptor: @often`},
		"spec.schedule: 'TZ=UTC 0 3 * * *'": {
			`spec.schedule: Invalid value: "TZ=UTC 0 3 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone ` +
				`field instead`,
		},
		"spec.schedule: 'CRON_TZ=UTC 0 3 * * *'; spec.timeZone: UTC": {
			`spec.schedule: Invalid value: "CRON_TZ=UTC 0 3 * * *": cannot use TZ or CRON_TZ in schedule, use ` +
				`timeZone field instead`,
		},
		"spec.startingDeadlineSeconds: -1": {
			"spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.startingDeadlineSeconds: 0": nil,
		"spec.concurrencyPolicy: Queue": {
			`spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"`,
		},
		"spec.concurrencyPolicy: Replace": nil,
		"spec.successfulJobsHistoryLimit: -1; spec.failedJobsHistoryLimit: -1": {
			"spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
			"spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
		},
		"spec.successfulJobsHistoryLimit: 0; spec.failedJobsHistoryLimit: 0": nil,
		"spec.timeZone: ''": {`spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string`},
		"spec.timeZone: Local": {
			`spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in ` +
				`https://www.iana.org/time-zones`,
		},
		"spec.timeZone: Europe/Atlantis": {
			`spec.timeZone: Invalid value: "Europe/Atlantis": unknown time zone Europe/Atlantis`,
		},
		"spec.timeZone: America/Argentina/Buenos_Aires": nil,
		"spec.timeZone: ../etc": {
			`spec.timeZone: Invalid value: "../etc": unknown time zone ../etc`,
		},
		"spec.timeZone: 'Europe/Pa ris'": {
			`spec.timeZone: Invalid value: "Europe/Pa ris": unknown time zone Europe/Pa ris`,
		},
		"spec.timeZone: Etc/GMT+5": nil,
		job + ".selector.matchLabels: {a: b}": {
			"spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be " +
				"auto-generated",
		},
		job + ".manualSelector: true": {
			`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`,
		},
		job + ".manualSelector: false": nil,
		job + ".parallelism: -1": {
			"spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
		},
		job + ".template.spec.restartPolicy: Always": {
			`spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
		},
		job + ".podFailurePolicy.rules: [{action: Count, onPodConditions: [{type: Ready}]}]": {
			`spec.jobTemplate.spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is ` +
				`supported when podFailurePolicy is specified`,
		},
		"metadata.name: a2345678901234567890123456789012345678901234567890-2": nil,
		"metadata.name: a2345678901234567890123456789012345678901234567890-23": {
			`metadata.name: Invalid value: "a2345678901234567890123456789012345678901234567890-23": must be no ` +
				`more than 52 characters`,
		},
	})
	cronJob().Stored(t, "create", kindtest.Table{
		"": {
			"spec.concurrencyPolicy: Allow", "spec.suspend: false", "spec.successfulJobsHistoryLimit: 3",
			"spec.failedJobsHistoryLimit: 1", "metadata.generation: 1", job + ".completions: null",
			job + ".backoffLimit: null",
		},
		"status.active: [{name: a}]": {"status.active: null"},
	})
}

// TestCronJobUpdate: what was accepted once stays so, and needs no repair to be changed elsewhere.
func TestCronJobUpdate(t *testing.T) {
	cronJob().Update(t, kindtest.Table{
		"spec.schedule: 0 4 * * *": nil,
		"spec.schedule: x": {
			`spec.schedule: Invalid value: "x": expected exactly 5 fields, found 1: [x]`,
		},
		"spec.timeZone: Mars/Base => spec.suspend: true": nil,
		"spec.timeZone: Mars/Base => spec.timeZone: Mars/Station": {
			`spec.timeZone: Invalid value: "Mars/Station": unknown time zone Mars/Station`,
		},
		"spec.timeZone: Mars/Base => spec.timeZone: null":                    nil,
		"spec.schedule: TZ=UTC 0 3 * * * => spec.schedule: TZ=UTC 0 4 * * *": nil,
		"spec.schedule: TZ=UTC 0 3 * * * => spec.timeZone: UTC": {
			`spec.schedule: Invalid value: "TZ=UTC 0 3 * * *": cannot use both timeZone field and TZ or CRON_TZ in ` +
				`schedule`,
		},
		"spec.schedule: TZ=UTC 0 4 * * *": {
			`spec.schedule: Invalid value: "TZ=UTC 0 4 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone ` +
				`field instead`,
		},
		"metadata.name: a2345678901234567890123456789012345678901234567890-23": nil,
	})
	cronJob().Stored(t, "update", kindtest.Table{
		"metadata.generation: 4; status.lastScheduleTime: 2026-01-02T03:00:00Z => spec.suspend: true; status: {}": {
			"metadata.generation: 5", "status.lastScheduleTime: 2026-01-02T03:00:00Z",
		},
	})
	cronJob().Stored(t, "status", kindtest.Table{
		"spec.suspend: true; status.active: [{name: a}]": {"spec.suspend: false", "status.active[0].name: a"},
	})
}
