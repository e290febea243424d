package node

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

const hookDocs = "https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/"

func lifecycleCases() []suite.Case {
	return since("0.3", []suite.Case{
		{ID: "node/init-retried", Run: initRetried, Reference: initDocs,
			Requirement: "A failed init container of a pod that restarts MUST be run again until it succeeds, before any " +
				"other " +
				"starts."},
		{ID: "node/sidecar-order", Run: sidecarOrder, Reference: sidecarDocs,
			Requirement: "Sidecars MUST be stopped after the pod's containers have ended, the last started first."},
		{ID: "node/sidecar-restarted", Run: sidecarRestarted, Reference: sidecarDocs,
			Requirement: "A sidecar that ends MUST be started again, whatever the restart policy of its pod."},
		{ID: "node/sidecar-readiness", Run: sidecarReadiness, Reference: sidecarDocs,
			Requirement: "A sidecar that is not ready MUST keep its pod from being ready."},
		{ID: "node/sidecar-startup", Run: sidecarStartup, Reference: sidecarDocs,
			Requirement: "Containers MUST wait until the startup probes of the sidecars before them have succeeded."},
		{ID: "node/container-restart-policy", Run: containerRestartPolicy,
			Reference: lifecycle + "#individual-container-restart-policy-and-rules",
			Requirement: "The restart policy of a container MUST win over its pod's, and its rules over both for the exit " +
				"codes " +
				"that they name."},
		{ID: "node/sleep-hook", Run: sleepHook, Reference: hookDocs,
			Requirement: "A preStop hook that sleeps MUST delay the container's SIGTERM by that long."},
		{ID: "node/post-start-failure", Run: postStartFailure, Reference: hookDocs,
			Requirement: "A container whose postStart hook fails MUST be killed, and an event MUST say so."},
		{ID: "node/command-missing", Run: commandMissing, Reference: lifecycle + "#container-states",
			Requirement: "A container whose command can't be run MUST end with a code other than 0 and a reason, and fail its " +
				"pod."},
		{ID: "node/message-limit", Run: messageLimit, Reference: messages,
			Requirement: "A termination message MUST be cut to 4096 bytes."},
		{ID: "node/message-file-first", Run: messageFileFirst, Reference: messages,
			Requirement: "The termination message file MUST win over the end of the log."},
		{ID: "node/deadline-set-later", Run: deadlineLater, Reference: lifecycle,
			Requirement: "activeDeadlineSeconds that a running pod gets later MUST end it, too."},
		{ID: "node/probe-grace-period", Run: probeGrace, Reference: probeDocs + "#probe-level-terminationgraceperiodseconds",
			Requirement: "A container that fails a probe MUST be given the probe's grace period instead of the pod's."},
		{ID: "node/forced-deletion", Run: forcedDeletion, Reference: lifecycle + "#pod-termination-forced",
			Requirement: "A pod that is deleted with a grace period of 0 MUST leave the API at once."},
		{ID: "node/readiness-gate", Run: readinessGate, Reference: lifecycle + "#pod-readiness-gate",
			Requirement: "A pod MUST be ready only once the conditions of its readiness gates are true."},
		{ID: "node/observed-generation", Run: observedGeneration, Reference: lifecycle + "#pod-generation",
			Requirement: "The status of a pod MUST tell the generation that it was made from, in the whole and in its " +
				"conditions."},
		{ID: "node/conditions-of-ended", Run: conditionsOfEnded, Reference: lifecycle + "#pod-conditions",
			Requirement: "A pod that has succeeded MUST be not ready for the reason PodCompleted, and initialized."},
		{ID: "node/ready-to-start-containers", Run: readyToStart, Reference: lifecycle + "#pod-has-network",
			Requirement: "PodReadyToStartContainers MUST be true while the pod's sandbox runs, and false once it has ended."},
		{ID: "node/ephemeral-container", Run: ephemeralContainer,
			Reference: "https://kubernetes.io/docs/concepts/workloads/pods/ephemeral-containers/",
			Requirement: "A container that is added to a running pod MUST run in it, beside the others, and be reported " +
				"without " +
				"being restarted."},
	})
}

// since completes cases of the same version and needs.
func since(version string, list []suite.Case, needs ...suite.Feature) []suite.Case {
	for i := range list {
		list[i].Since = version
		list[i].Needs = append(list[i].Needs, needs...)
	}
	return list
}

func initRetried(ctx context.Context, t *suite.T) {
	p := t.Pod("retried", "cat", "/shared/runs")
	p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	p.Spec.InitContainers = []corev1.Container{{Name: "setup", Image: t.Image, Args: []string{"fail", "1",
		"/shared/runs"}}}
	shared(p, "/shared")
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"2"}))
	done, err := t.GetPod("retried")(ctx)
	t.Must(err, "read the pod")
	t.Expect(container(done, "setup").RestartCount).To(BeEquivalentTo(1))
}

// besides returns a sidecar.
func besides(t *suite.T, name string, args ...string) corev1.Container {
	return corev1.Container{Name: name, Image: t.Image, Args: args,
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}
}

func sidecarOrder(ctx context.Context, t *suite.T) {
	p := t.Pod("ordered", "sleep", "2s", "then", "append", "/shared/order", "main")
	p.Spec.InitContainers = []corev1.Container{
		besides(t, "first", "trap", "then", "append", "/shared/order", "first", "then", "cat", "/shared/order"),
		besides(t, "second", "trap", "then", "append", "/shared/order", "second"),
	}
	grace(p, 20)
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	ended(ctx, t, "ordered", corev1.PodSucceeded)
	t.Expect(log(ctx, t, "ordered", &corev1.PodLogOptions{Container: "first"})).To(HaveSuffix("main\nsecond\nfirst\n"))
}

func sidecarRestarted(ctx context.Context, t *suite.T) {
	p := t.Pod("helped", "sleep", "forever")
	p.Spec.InitContainers = []corev1.Container{besides(t, "helper", "sleep", "1s")}
	t.CreatePod(ctx, p)
	restarted := suite.WaitFor(ctx, t, "the sidecar started again", t.GetPod("helped"),
		Satisfy(func(p *corev1.Pod) bool { return container(p, "helper").RestartCount >= 1 }))
	t.Expect(restarted.Status.Phase).To(Equal(corev1.PodRunning))
	t.Expect(container(restarted, "main").RestartCount).To(BeZero())
}

func sidecarReadiness(ctx context.Context, t *suite.T) {
	p := t.Pod("helped", "sleep", "forever")
	helper := besides(t, "helper", "wait", "/shared/go", "then", "serve", "--http=:8080")
	helper.ReadinessProbe = httpProbe("/", 1)
	p.Spec.InitContainers = []corev1.Container{helper}
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	unready := suite.WaitFor(ctx, t, "the main container ready", t.GetPod("helped"),
		Satisfy(func(p *corev1.Pod) bool { return container(p, "main").Ready }))
	t.Expect(condition(unready, corev1.PodReady)).To(Equal(corev1.ConditionFalse))
	t.Expect(condition(unready, corev1.ContainersReady)).To(Equal(corev1.ConditionFalse))
	_, _, err := execute(ctx, t, "helped", "", "testimage", "write", "/shared/go", "x")
	t.Must(err, "let the sidecar become ready")
	running(ctx, t, "helped")
}

func sidecarStartup(ctx context.Context, t *suite.T) {
	p := t.Pod("helped", "append", "/shared/order", "main", "then", "cat", "/shared/order")
	helper := besides(t, "helper", "sleep", "2s", "then", "append", "/shared/order", "helper", "then", "serve",
		"--http=:8080")
	helper.StartupProbe = httpProbe("/", 1)
	helper.StartupProbe.FailureThreshold = 60
	p.Spec.InitContainers = []corev1.Container{helper}
	shared(p, "/shared")
	t.Expect(outputOf(ctx, t, p)).To(Equal([]string{"helper", "main"}))
}

func containerRestartPolicy(ctx context.Context, t *suite.T) {
	p := t.Pod("mixed", "fail", "1", "/shared/main")
	p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyOnFailure)
	ruled := *p.Spec.Containers[0].DeepCopy()
	ruled.Name, ruled.Args = "ruled", []string{"fail", "1", "/shared/ruled"}
	ruled.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
	ruled.RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn,
			Values: []int32{1}}}}
	other := *ruled.DeepCopy()
	other.Name, other.Args = "other", []string{"exit", "3"}
	p.Spec.Containers = append(p.Spec.Containers, ruled, other)
	shared(p, "/shared")
	t.CreatePod(ctx, p)
	done := ended(ctx, t, "mixed", corev1.PodFailed)
	for name, want := range map[string][2]int32{"main": {1, 0}, "ruled": {1, 0}, "other": {0, 3}} {
		c := container(done, name)
		t.Expect([2]int32{c.RestartCount, c.State.Terminated.ExitCode}).To(Equal(want), name)
	}
}

func sleepHook(ctx context.Context, t *suite.T) {
	p := t.Pod("sleepy", "trap")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 3}}}
	grace(p, 30)
	t.CreatePod(ctx, p)
	running(ctx, t, "sleepy")
	waitLog(ctx, t, "sleepy", "waiting")
	said, begun := follow(ctx, t, "sleepy"), time.Now()
	remove(ctx, t, "sleepy")
	suite.WaitFor(ctx, t, "the pod gone", gone(t, "sleepy"), BeTrue())
	t.Expect(time.Since(begun)).To(BeNumerically(">=", 2500*time.Millisecond), "the hook takes three seconds")
	t.Expect(<-said).To(ContainSubstring("got terminated"))
}

func postStartFailure(ctx context.Context, t *suite.T) {
	p := t.Pod("hooked", "sleep", "forever")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"testimage", "exit", "9"}}}}
	t.CreatePod(ctx, p)
	failed := suite.WaitFor(ctx, t, "the pod ended", t.GetPod("hooked"), Or(phase(corev1.PodFailed),
		phase(corev1.PodSucceeded)))
	t.Expect(container(failed, "main").State.Terminated).NotTo(BeNil())
	suite.WaitFor(ctx, t, "the event of the hook", messagesOf(t, "hooked", "FailedPostStartHook"), Not(BeEmpty()))
}

func commandMissing(ctx context.Context, t *suite.T) {
	p := t.Pod("lost")
	p.Spec.Containers[0].Command = []string{"/no/such/program"}
	t.CreatePod(ctx, p)
	state := container(ended(ctx, t, "lost", corev1.PodFailed), "main").State.Terminated
	t.Expect(state).NotTo(BeNil())
	t.Expect(state.ExitCode).NotTo(BeZero())
	t.Expect(state.Reason).NotTo(BeEmpty())
	t.Expect(state.Message).To(ContainSubstring("/no/such/program"))
}

func messageLimit(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("verbose", "message", strings.Repeat("word ", 2000)))
	said := container(ended(ctx, t, "verbose", corev1.PodSucceeded), "main").State.Terminated.Message
	t.Expect(said).To(HaveLen(4096))
	t.Expect(said).To(HavePrefix("word word "))
}

func messageFileFirst(ctx context.Context, t *suite.T) {
	p := t.Pod("both", "print", "2", "then", "message", "from the file", "then", "exit", "1")
	p.Spec.Containers[0].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	t.CreatePod(ctx, p)
	t.Expect(container(ended(ctx, t, "both", corev1.PodFailed), "main").State.Terminated.Message).To(
		Equal("from the file"))
}

func deadlineLater(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("bounded", "sleep", "forever"))
	running(ctx, t, "bounded")
	patchPod(ctx, t, "bounded", `{"spec":{"activeDeadlineSeconds":1}}`)
	t.Expect(ended(ctx, t, "bounded", corev1.PodFailed).Status.Reason).To(Equal("DeadlineExceeded"))
}

func patchPod(ctx context.Context, t *suite.T, name, patch string, subresources ...string) *corev1.Pod {
	p, err := t.Client.CoreV1().Pods(t.Namespace).Patch(ctx, name, types.StrategicMergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	t.Must(err, "patch pod %s", name)
	return p
}

func probeGrace(ctx context.Context, t *suite.T) {
	p := t.Pod("deaf", "trap", "--ignore")
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Spec.Containers[0].LivenessProbe = &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
		TerminationGracePeriodSeconds: ptr.To[int64](1),
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"testimage", "exit",
			"1"}}}}
	grace(p, 600)
	t.CreatePod(ctx, p)
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "deaf",
			metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)})
	})
	suite.WaitFor(ctx, t, "the container restarted long before the pod's grace period", t.GetPod("deaf"),
		Satisfy(func(p *corev1.Pod) bool { return container(p, "main").RestartCount >= 1 }))
}

func forcedDeletion(ctx context.Context, t *suite.T) {
	p := t.Pod("deaf", "trap", "--ignore")
	grace(p, 600)
	t.CreatePod(ctx, p)
	running(ctx, t, "deaf")
	t.Must(t.Client.CoreV1().Pods(t.Namespace).Delete(ctx, "deaf",
		metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}), "delete the pod")
	isGone, err := gone(t, "deaf")(ctx)
	t.Must(err, "read the pod")
	t.Expect(isGone).To(BeTrue())
	t.CreatePod(ctx, t.Pod("deaf", "exit", "0"))
	ended(ctx, t, "deaf", corev1.PodSucceeded)
}

func readinessGate(ctx context.Context, t *suite.T) {
	p := t.Pod("gated", "sleep", "forever")
	p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	t.CreatePod(ctx, p)
	closed := suite.WaitFor(ctx, t, "the containers ready", t.GetPod("gated"), Satisfy(func(p *corev1.Pod) bool {
		return condition(p, corev1.ContainersReady) == corev1.ConditionTrue
	}))
	t.Expect(condition(closed, corev1.PodReady)).To(Equal(corev1.ConditionFalse))
	set := func(status string) {
		patchPod(ctx, t, "gated", `{"status":{"conditions":[{"type":"example.com/gate","status":"`+status+`"}]}}`, "status")
	}
	set("True")
	running(ctx, t, "gated")
	set("False")
	suite.WaitFor(ctx, t, "the pod unready", t.GetPod("gated"), Satisfy(isReady(corev1.ConditionFalse)))
}

func observedGeneration(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("observed", "sleep", "forever"))
	p := running(ctx, t, "observed")
	t.Expect(p.Generation).To(BeEquivalentTo(1))
	t.Expect(p.Status.ObservedGeneration).To(BeEquivalentTo(1))
	patchPod(ctx, t, "observed", `{"spec":{"activeDeadlineSeconds":600}}`)
	changed := suite.WaitFor(ctx, t, "the change observed", t.GetPod("observed"),
		HaveField("Status.ObservedGeneration", BeEquivalentTo(2)))
	t.Expect(changed.Generation).To(BeEquivalentTo(2))
	i := slices.IndexFunc(changed.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	t.Expect(i).To(BeNumerically(">=", 0))
	t.Expect(changed.Status.Conditions[i].ObservedGeneration).To(BeEquivalentTo(2))
}

func conditionsOfEnded(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("done", "exit", "0"))
	p := ended(ctx, t, "done", corev1.PodSucceeded)
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		t.Expect(p.Status.Conditions).To(ContainElement(And(HaveField("Type", kind),
			HaveField("Status", corev1.ConditionFalse), HaveField("Reason", "PodCompleted"))))
	}
	t.Expect(condition(p, corev1.PodInitialized)).To(Equal(corev1.ConditionTrue))
	t.Expect(p.Status.ContainerStatuses[0].Started).To(HaveValue(BeFalse()))
}

func readyToStart(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, t.Pod("short", "sleep", "1s"))
	has := func(status corev1.ConditionStatus) func(*corev1.Pod) bool {
		return func(p *corev1.Pod) bool { return condition(p, corev1.PodReadyToStartContainers) == status }
	}
	suite.WaitFor(ctx, t, "the sandbox there", t.GetPod("short"), Satisfy(has(corev1.ConditionTrue)))
	ended(ctx, t, "short", corev1.PodSucceeded)
	suite.WaitFor(ctx, t, "the sandbox ended", t.GetPod("short"), Satisfy(has(corev1.ConditionFalse)))
}

func ephemeralContainer(ctx context.Context, t *suite.T) {
	t.CreatePod(ctx, server(t, "target"))
	before := container(running(ctx, t, "target"), "main")
	p, err := t.GetPod("target")(ctx)
	t.Must(err, "read the pod")
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{TargetContainerName: "main",
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: t.Image,
			Args: []string{"get", "http://127.0.0.1:8080/", "then", "ls", "/proc", "then", "exit", "5"}}}}
	_, err = t.Client.CoreV1().Pods(t.Namespace).UpdateEphemeralContainers(ctx, "target", p, metav1.UpdateOptions{})
	t.Must(err, "add a container")
	after := suite.WaitFor(ctx, t, "the container ended", t.GetPod("target"), Satisfy(func(p *corev1.Pod) bool {
		return len(p.Status.EphemeralContainerStatuses) == 1 &&
			p.Status.EphemeralContainerStatuses[0].State.Terminated != nil
	}))
	debug := after.Status.EphemeralContainerStatuses[0]
	t.Expect(debug.State.Terminated.ExitCode).To(BeEquivalentTo(5))
	t.Expect(debug.RestartCount).To(BeZero())
	t.Expect(log(ctx, t, "target", &corev1.PodLogOptions{Container: "debug"})).To(HavePrefix("target"),
		"it shares the network of the pod")
	t.Expect(container(after, "main").ContainerID).To(Equal(before.ContainerID))
	t.Expect(after.Status.Phase).To(Equal(corev1.PodRunning))
}
