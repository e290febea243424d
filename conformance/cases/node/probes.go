package node

import (
	"context"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

// volumeDelay bounds how long a kubelet may take to bring a changed config map into a volume.
const volumeDelay = 80 * time.Second

func httpProbe(path string, period int32) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: period, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port(8080)}}}
}

func isReady(want corev1.ConditionStatus) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return condition(p, corev1.PodReady) == want }
}

func setHealth(ctx context.Context, t *suite.T, pod, ok string) {
	_, _, err := execute(ctx, t, pod, "", "testimage", "get", "http://127.0.0.1:8080/healthz/set?ok="+ok)
	t.Must(err, "set the health of %s to %s", pod, ok)
}

func readiness(ctx context.Context, t *suite.T) {
	p := server(t, "ready")
	p.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz", 1)
	t.CreatePod(ctx, p)
	running(ctx, t, "ready")
	setHealth(ctx, t, "ready", "false")
	unready := suite.WaitFor(ctx, t, "the pod unready", t.GetPod("ready"), Satisfy(isReady(corev1.ConditionFalse)))
	t.Expect(container(unready, "main").Ready).To(BeFalse())
	setHealth(ctx, t, "ready", "true")
	again := suite.WaitFor(ctx, t, "the pod ready again", t.GetPod("ready"), Satisfy(isReady(corev1.ConditionTrue)))
	t.Expect(container(again, "main").RestartCount).To(BeZero())
}

func liveness(ctx context.Context, t *suite.T) {
	p := server(t, "alive")
	p.Spec.Containers[0].LivenessProbe = httpProbe("/healthz", 1)
	t.CreatePod(ctx, p)
	first := container(running(ctx, t, "alive"), "main").ContainerID
	// The command may end together with its container, so its own outcome says nothing.
	_, _, _ = execute(ctx, t, "alive", "", "testimage", "get", "http://127.0.0.1:8080/healthz/set?ok=false")
	suite.WaitFor(ctx, t, "the container restarted", t.GetPod("alive"), Satisfy(func(p *corev1.Pod) bool {
		main := container(p, "main")
		return main.RestartCount > 0 && main.State.Running != nil && main.ContainerID != first
	}))
}

func startup(ctx context.Context, t *suite.T) {
	p := server(t, "slow", "--ready-after=3s")
	p.Spec.Containers[0].LivenessProbe = httpProbe("/healthz", 1)
	p.Spec.Containers[0].StartupProbe = httpProbe("/healthz", 1)
	p.Spec.Containers[0].StartupProbe.FailureThreshold = 60
	t.CreatePod(ctx, p)
	suite.WaitFor(ctx, t, "running, not yet started", t.GetPod("slow"), Satisfy(func(p *corev1.Pod) bool {
		main := container(p, "main")
		return main.State.Running != nil && main.Started != nil && !*main.Started && !main.Ready
	}))
	started := container(running(ctx, t, "slow"), "main")
	t.Expect(*started.Started).To(BeTrue())
	t.Expect(started.RestartCount).To(BeZero(), "liveness must wait for the startup probe")
}

func probeKinds(ctx context.Context, t *suite.T) {
	grpc := t.Pod("grpc", "serve", "--grpc=:9000")
	grpc.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 9000}}}
	tcp := t.Pod("tcp", "serve", "--tcp=:9001")
	tcp.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1,
		ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port(9001)}}}
	http := server(t, "http")
	http.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 8080}}
	http.Spec.Containers[0].ReadinessProbe = httpProbe("/healthz", 1)
	http.Spec.Containers[0].ReadinessProbe.HTTPGet.Port.Type = 1
	http.Spec.Containers[0].ReadinessProbe.HTTPGet.Port.StrVal = "web"
	command := server(t, "command")
	command.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"testimage", "get", "http://127.0.0.1:8080/healthz"}}}}
	never := server(t, "never")
	never.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{"testimage", "exit", "1"}}}}
	for _, p := range []*corev1.Pod{never, grpc, tcp, http, command} {
		t.CreatePod(ctx, p)
	}
	for _, name := range []string{"grpc", "tcp", "http", "command"} {
		running(ctx, t, name)
	}
	suite.WaitFor(ctx, t, "the pod without success running", t.GetPod("never"), phase(corev1.PodRunning))
	suite.Never(ctx, t, "the pod without success ready", t.GetPod("never"), Satisfy(isReady(corev1.ConditionTrue)))
}

// whoIs returns the user that the API server authenticates a token as.
func whoIs(ctx context.Context, t *suite.T, token string) string {
	review, err := t.Client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	t.Must(err, "review the token")
	t.Expect(review.Status.Authenticated).To(BeTrue(), review.Status.Error)
	return review.Status.User.Username
}
