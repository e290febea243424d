package node

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func completes(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("done", "exit", "0"))
	p := ended(ctx, t, "done", corev1.PodSucceeded)
	state := container(p, "main").State.Terminated
	t.Expect(state).NotTo(BeNil())
	t.Expect(state.ExitCode).To(BeZero())
	t.Expect(state.Reason).To(Equal("Completed"))
	t.Expect(container(p, "main").RestartCount).To(BeZero())
	t.Expect(state.FinishedAt.Before(&state.StartedAt)).To(BeFalse())
}

func fails(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("broken", "exit", "7"))
	state := container(ended(ctx, t, "broken", corev1.PodFailed), "main").State.Terminated
	t.Expect(state).NotTo(BeNil())
	t.Expect(state.ExitCode).To(BeEquivalentTo(7))
	t.Expect(state.Reason).To(Equal("Error"))
}

func restarts(ctx context.Context, t *suite.T) {
	p := t.Pod("again", "fail", "1", "/shared/runs")
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	main := container(ended(ctx, t, "again", corev1.PodSucceeded), "main")
	t.Expect(main.RestartCount).To(BeEquivalentTo(1))
	t.Expect(main.LastTerminationState.Terminated).NotTo(BeNil())
	t.Expect(main.LastTerminationState.Terminated.ExitCode).To(BeEquivalentTo(1))
	t.Expect(main.State.Terminated.ExitCode).To(BeZero())
}

func backsOff(ctx context.Context, t *suite.T) {
	p := t.Pod("loop", "exit", "3")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	t.CreatePod(ctx, p)
	waiting := suite.WaitFor(ctx, t, "a waiting container", t.GetPod("loop"), Satisfy(func(p *corev1.Pod) bool {
		state := container(p, "main").State.Waiting
		return state != nil && state.Reason == "CrashLoopBackOff"
	}))
	t.Expect(waiting.Status.Phase).To(Equal(corev1.PodRunning))
	t.Expect(container(waiting, "main").LastTerminationState.Terminated.ExitCode).To(BeEquivalentTo(3))
	seen := container(waiting, "main").RestartCount
	suite.WaitFor(ctx, t, "another start", t.GetPod("loop"),
		Satisfy(func(p *corev1.Pod) bool { return container(p, "main").RestartCount > seen }))
}

func initContainers(ctx context.Context, t *suite.T) {
	p := t.Pod("ordered", "cat", "/shared/order")
	for _, name := range []string{"first", "second"} {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
			Name: name, Image: t.Image, Args: []string{"sleep", "200ms", "then", "append", "/shared/order", name}})
	}
	shared(p, "/shared")
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"first", "second"}))
	done, err := t.GetPod("ordered")(ctx)
	t.Must(err, "get the pod")
	t.Expect(condition(done, corev1.PodInitialized)).To(Equal(corev1.ConditionTrue))
	first, second := container(done, "first").State.Terminated, container(done, "second").State.Terminated
	t.Expect(second.StartedAt.Before(&first.FinishedAt)).To(BeFalse())
}

func initFailure(ctx context.Context, t *suite.T) {
	p := t.Pod("uninitialized", "exit", "0")
	p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: t.Image, Args: []string{"exit", "4"}}}
	t.CreatePod(ctx, p)
	failed := ended(ctx, t, "uninitialized", corev1.PodFailed)
	t.Expect(container(failed, "setup").State.Terminated.ExitCode).To(BeEquivalentTo(4))
	t.Expect(container(failed, "main").State.Running).To(BeNil())
	t.Expect(container(failed, "main").ContainerID).To(BeEmpty(), "the container was never started")
	t.Expect(condition(failed, corev1.PodInitialized)).To(Equal(corev1.ConditionFalse))
}

func sidecar(ctx context.Context, t *suite.T) {
	p := t.Pod("helped", "get", "http://127.0.0.1:8080/")
	p.Spec.InitContainers = []corev1.Container{{
		Name: "helper", Image: t.Image, Args: []string{"serve", "--http=:8080", "--text=helped"},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
		StartupProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 30,
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port(8080)}}},
	}}
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"helped"}))
}

func deadline(ctx context.Context, t *suite.T) {
	p := t.Pod("late", "sleep", "forever")
	p.Spec.ActiveDeadlineSeconds = ptr.To[int64](2)
	t.CreatePod(ctx, p)
	t.Expect(ended(ctx, t, "late", corev1.PodFailed).Status.Reason).To(Equal("DeadlineExceeded"))
}

func imageMissing(ctx context.Context, t *suite.T) {
	waiting := func(reasons ...any) func(name string) {
		return func(name string) {
			suite.WaitFor(ctx, t, name+" waiting", t.GetPod(name), Satisfy(func(p *corev1.Pod) bool {
				state := container(p, "main").State.Waiting
				if state == nil {
					return false
				}
				matched, _ := BeElementOf(reasons...).Match(state.Reason)
				return matched
			}))
		}
	}
	for name, policy := range map[string]corev1.PullPolicy{"never": corev1.PullNever,
		"missing": corev1.PullIfNotPresent} {
		p := t.Pod(name)
		p.Spec.Containers[0].Image = "conformance.invalid/no-such-image:1"
		p.Spec.Containers[0].ImagePullPolicy = policy
		t.CreatePod(ctx, p)
	}
	waiting("ErrImageNeverPull")("never")
	waiting("ErrImagePull", "ImagePullBackOff")("missing")
}

func securityContext(ctx context.Context, t *suite.T) {
	p := t.Pod("secure", "whoami")
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1234), RunAsGroup: ptr.To[int64](2345),
		SupplementalGroups: []int64{3456}}
	p.Spec.Containers[0].WorkingDir = "/tmp"
	lines := outputOf(ctx, t, p)
	t.Expect(lines[0]).To(And(ContainSubstring("uid=1234 gid=2345"), ContainSubstring("3456"),
		ContainSubstring("dir=/tmp"), ContainSubstring("host=secure")))

	sealed := t.Pod("sealed", "write", "/file", "x")
	sealed.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: ptr.To(true)}
	t.CreatePod(ctx, sealed)
	ended(ctx, t, "sealed", corev1.PodFailed)
	t.Expect(log(ctx, t, "sealed", &corev1.PodLogOptions{})).To(ContainSubstring("read-only file system"))
}

func memoryLimit(ctx context.Context, t *suite.T) {
	// Runtimes begin to listen for the kernel's news of a container after it has started: one that is killed at once
	// can look like one that was killed externally.
	p := t.Pod("hungry", "sleep", "2s", "then", "allot", "256")
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("48Mi")}
	t.CreatePod(ctx, p)
	state := container(ended(ctx, t, "hungry", corev1.PodFailed), "main").State.Terminated
	t.Expect(state.Reason).To(Equal("OOMKilled"))
	t.Expect(state.ExitCode).To(BeEquivalentTo(137))
}
