package server

import (
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// stages are those of upstream's metrics on which users can rely; all others are ALPHA
// (https://kubernetes.io/docs/reference/instrumentation/metrics/).
var stages = map[string]string{
	"apiserver_admission_controller_admission_duration_seconds": "STABLE",
	"apiserver_admission_step_admission_duration_seconds":       "STABLE",
	"apiserver_admission_webhook_admission_duration_seconds":    "STABLE",
	"apiserver_longrunning_requests":                            "STABLE",
	"apiserver_request_duration_seconds":                        "STABLE",
	"apiserver_request_total":                                   "STABLE",
	"apiserver_requested_deprecated_apis":                       "STABLE",
	"apiserver_response_sizes":                                  "STABLE",
	"apiserver_storage_objects":                                 "STABLE",
	"apiserver_storage_size_bytes":                              "STABLE",

	"apiserver_storage_events_received_total":                      "BETA",
	"apiserver_validating_admission_policy_check_duration_seconds": "BETA",
	"apiserver_validating_admission_policy_check_total":            "BETA",
	"apiserver_watch_list_duration_seconds":                        "BETA",
	"kubernetes_build_info":                                        "BETA",
	"kubernetes_feature_enabled":                                   "BETA",
}

// staged is one of the server's own metrics, whose help says first how far it has come, as that of the libraries' does.
func staged(f *dto.MetricFamily) *dto.MetricFamily {
	// which are a library's, without a stage
	if strings.HasPrefix(f.GetHelp(), "[") || strings.HasPrefix(f.GetName(), "grpc_") {
		return f
	}
	stage := stages[f.GetName()]
	if stage == "" {
		stage = "ALPHA"
	}
	return &dto.MetricFamily{Name: f.Name, Help: new("[" + stage + "] " + f.GetHelp()), Type: f.Type, Unit: f.Unit,
		Metric: f.Metric}
}
