package node

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"quintet.dev/quintet/conformance/suite"
)

func probeTimingCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/startup-failure", Run: startupFailure, Reference: probeDocs,
			Requirement: "A container that its startup probe gives up MUST be restarted."},
		{ID: "node/probe-timeout", Run: probeTimeout, Reference: probeDocs,
			Requirement: "A probe that takes longer than its timeout MUST count as failed."},
		{ID: "node/probe-success-threshold", Run: successThreshold, Reference: probeDocs,
			Requirement: "A container MUST be ready only after as many successes in a row as its readiness probe asks for."},
		{ID: "node/probe-initial-delay", Run: initialDelay, Reference: probeDocs,
			Requirement: "A probe MUST not be made before its initial delay is over."},
		{ID: "node/probe-named-port", Run: probeNamedPort, Reference: probeDocs,
			Requirement: "A probe MUST be able to name a port of its container."},
		{ID: "node/probe-failure-event", Run: probeEvent, Reference: probeDocs,
			Requirement: "A failed probe MUST be told in an event with the reason Unhealthy."},
	})
}

func execProbe(command ...string) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: append([]string{"testimage"}, command...)}}}
}

func startupFailure(ctx context.Context, t *suite.T) {
	p := t.Pod("slow", "sleep", "forever")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[0].StartupProbe = execProbe("exit", "1")
	t.CreatePod(ctx, p)
	restarted := suite.WaitFor(ctx, t, "the container restarted", t.GetPod("slow"), Satisfy(func(p *corev1.Pod) bool {
		return container(p, "main").RestartCount >= 1
	}))
	t.Expect(container(restarted, "main").Started).To(HaveValue(BeFalse()))
}

func probeTimeout(ctx context.Context, t *suite.T) {
	p := t.Pod("hangs", "sleep", "forever")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[0].LivenessProbe = execProbe("sleep", "5m")
	p.Spec.Containers[0].LivenessProbe.TimeoutSeconds = 1
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "the container restarted", t.GetPod("hangs"), Satisfy(func(p *corev1.Pod) bool {
		return container(p, "main").RestartCount >= 1
	}))
}

// readyAfter is how long after its start a container's pod was ready, by the status, which has seconds.
func readyAfter(p *corev1.Pod) time.Duration {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Sub(container(p, "main").State.Running.StartedAt.Time)
		}
	}
	return 0
}

func successThreshold(ctx context.Context, t *suite.T) {
	p := server(t, "careful")
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz", 2)
	p.Spec.Containers[0].ReadinessProbe.SuccessThreshold = 3
	t.CreatePod(ctx, p)
	t.Expect(readyAfter(running(ctx, t, "careful"))).To(BeNumerically(">=", 3*time.Second),
		"between three probes are two periods of two seconds")
}

func initialDelay(ctx context.Context, t *suite.T) {
	p := server(t, "delayed")
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz", 1)
	p.Spec.Containers[0].ReadinessProbe.InitialDelaySeconds = 4
	t.CreatePod(ctx, p)
	t.Expect(readyAfter(running(ctx, t, "delayed"))).To(BeNumerically(">=", 3*time.Second))
}

func probeNamedPort(ctx context.Context, t *suite.T) {
	p := server(t, "named", "--ready-after=1s")
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz", 1)
	p.Spec.Containers[0].ReadinessProbe.HTTPGet.Port = intstr.FromString("web")
	t.CreatePod(ctx, p)
	running(ctx, t, "named")
}

func probeEvent(ctx context.Context, t *suite.T) {
	p := server(t, "sick")
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/no/such/path?code=1", 1)
	p.Spec.Containers[0].ReadinessProbe.HTTPGet.Port = port(9)
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "the event", messagesOf(t, "sick", "Unhealthy"),
		ContainElement(ContainSubstring("Readiness probe failed")))
	unready, err := t.GetPod("sick")(ctx)
	t.Must(err, "read the pod")
	t.Expect(condition(unready, corev1.PodReady)).To(Equal(corev1.ConditionFalse))
}
