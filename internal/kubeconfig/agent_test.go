package kubeconfig

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestAddUserAgentNamesTheProgram(t *testing.T) {
	config := AddUserAgent(&rest.Config{}, "kube-controller-manager", "job-controller")
	program, rest, _ := strings.Cut(config.UserAgent, "/")
	if program != "kube-controller-manager" || !strings.HasSuffix(rest, "/job-controller") ||
		!strings.Contains(rest, "kubernetes/") {
		t.Errorf("the agent is %q", config.UserAgent)
	}
}
