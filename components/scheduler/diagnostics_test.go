package scheduler

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics/diagnosticstest"
)

// asking returns the configuration of a scheduler that serves without authorization, and its client.
func asking(t *testing.T) (Config, func(path string) string) {
	t.Helper()
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	listener, get := diagnosticstest.Listen(t)
	c := Config{Listener: listener, Access: delegated.Default(), Leader: DefaultLeader()}
	c.Access.AlwaysAllowPaths = []string{"/*"}
	return c, func(path string) string {
		t.Helper()
		_, body := get(path)
		return body
	}
}

// TestDiagnostics queries the debugging endpoints of a running scheduler.
func TestDiagnostics(t *testing.T) {
	config, get := asking(t)
	pod := newPod("p", "1500m")
	pod.Spec.Priority = ptr.To(int32(7))
	pod.Spec.Containers[0].Resources.Limits = v1.ResourceList{
		v1.ResourceMemory: resource.MustParse("1Gi"), "hugepages-2Mi": resource.MustParse("4Mi"),
		"example.com/thing": resource.MustParse("3"),
	}
	done := newPod("done", "1")
	done.Spec.NodeName, done.Status.Phase = "a", v1.PodSucceeded
	c := start(t, config, newNode("a", "4"), pod, done, newPod("stuck", "9"))
	c.bound("p", "a")
	labels := func(resource, unit string) string {
		return `{namespace="default",node="a",pod="p",priority="7",resource="` + resource +
			`",scheduler="default-scheduler",unit="` + unit + `"} `
	}
	for path, wanted := range map[string][]string{
		"/healthz?verbose": {"[+]leaderElection ok\nhealthz check passed\n"},
		"/livez?verbose":   {"[+]ping ok\nlivez check passed\n"},
		"/readyz?verbose":  {"[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n"},
		"/configz": {
			`{"componentconfig":{"kind":"KubeSchedulerConfiguration","apiVersion":"kubescheduler.config.k8s.io/v1"`,
			`"parallelism":16,`, `"resourceName":"kube-scheduler"`,
			`"multiPoint":{"enabled":[{"name":"SchedulingGates","weight":0},{"name":"PrioritySort","weight":0},{"name":"NodeUnschedulable","weight":0}`,
			`"pluginConfig":[{"name":"DefaultPreemption","args":{"kind":"DefaultPreemptionArgs","apiVersion":"kubescheduler.config.k8s.io/v1","minCandidateNodesPercentage":10,"minCandidateNodesAbsolute":100}},` +
				`{"name":"DynamicResources","args":{"kind":"DynamicResourcesArgs","apiVersion":"kubescheduler.config.k8s.io/v1","filterTimeout":"10s","bindingTimeout":"10m0s"}},` +
				`{"name":"InterPodAffinity","args":{"kind":"InterPodAffinityArgs","apiVersion":"kubescheduler.config.k8s.io/v1","hardPodAffinityWeight":1,"ignorePreferredTermsOfExistingPods":false}},`,
			`"scoringStrategy":{"type":"LeastAllocated","resources":[{"name":"cpu","weight":1},{"name":"memory","weight":1}]}`,
			`"defaultingType":"System"`,
		},
		"/explain/default/stuck": {
			`"namespace":"default","name":"stuck"`,
			`"state":"unschedulable","message":"0/1 nodes are available: 1 Insufficient cpu.`,
			`"refusals":[{"plugin":"NodeResourcesFit","reasons":["Insufficient cpu"],"count":1,"names":["a"],"preemptable":false}]`,
			`"wouldHelp":[{"plugin":"NodeResourcesFit","events":["NodeAdd","NodeAllocatableUpdate",`,
		},
		"/explain/":           {`[{"namespace":"default","name":"stuck"`},
		"/explain/default/no": {"pod default/no does not wait for a node of this scheduler"},
		"/metrics/resources": {
			"kube_pod_resource_request" + labels("cpu", "cores") + "1.5\n",
			"kube_pod_resource_limit" + labels("memory", "bytes") + "1.073741824e+09\n",
			"kube_pod_resource_limit" + labels("hugepages-2Mi", "bytes") + "4.194304e+06\n",
			"kube_pod_resource_limit" + labels("example.com/thing", "") + "3\n",
		},
	} {
		var got string
		lacking := func() string {
			got = get(path)
			for _, want := range wanted {
				if !strings.Contains(got, want) {
					return want
				}
			}
			return ""
		}
		// The informer may tell of the node later than the API server.
		for deadline := time.Now().Add(20 * time.Second); lacking() != "" && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond)
		}
		if want := lacking(); want != "" {
			t.Errorf("%s lacks %q:\n%s", path, want, got)
		}
		if strings.Contains(got, `pod="done"`) {
			t.Errorf("%s tells of a pod that has ended:\n%s", path, got)
		}
	}
}

// TestFollowersTellNoResources: only the leader exposes the metrics of pods.
func TestFollowersTellNoResources(t *testing.T) {
	config, get := asking(t)
	config.Leader.Elect = false
	c := start(t, config, newNode("a", "4"), newPod("p", "1"))
	c.bound("p", "a")
	if get("/metrics/resources") == "" {
		t.Error("who schedules tells nothing")
	}
	c.scheduler.leads.Store(false)
	if got := get("/metrics/resources"); got != "" {
		t.Errorf("a follower tells\n%s", got)
	}
}
