package why

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// lines is an answer as a list: its state, then the reasons, indented by their level, with the object they are about.
func lines(a Answer) []string {
	out := []string{string(a.State)}
	var add func(causes []Cause, indent string)
	add = func(causes []Cause, indent string) {
		for _, c := range causes {
			line := indent + c.Reason
			if c.Object != nil {
				line += " of " + c.Object.String()
			}
			if c.Count > 1 {
				line += " x" + string(rune('0'+c.Count))
			}
			out = append(out, line)
			add(c.Causes, indent+"  ")
		}
	}
	add(a.Causes, "")
	return out
}

func expect(t *testing.T, a Answer, want ...string) {
	t.Helper()
	if got := lines(a); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s\nin\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"), a)
	}
}

func testPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID(name),
			CreationTimestamp: metav1.NewTime(now.Add(-time.Minute)), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n1", RestartPolicy: corev1.RestartPolicyAlways,
			Containers: []corev1.Container{{Name: "c", Image: "image:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(p)
	}
	return p
}

func runningPod(name string) *corev1.Pod {
	return testPod(name, func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		state(p, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
		p.Status.ContainerStatuses[0].Ready = true
	})
}

func state(p *corev1.Pod, s corev1.ContainerState) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: s, Started: ptr.To(s.Running != nil)}}
}

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func exited(code int32, reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
}

func event(uid types.UID, reason, message string) corev1.Event {
	return corev1.Event{InvolvedObject: corev1.ObjectReference{UID: uid}, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(now)}
}

func readyNodes() []corev1.Node {
	return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
}

func unschedulable(message string) []corev1.PodCondition {
	return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: message}}
}

func claimVolume(name string) []corev1.Volume {
	return []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
}

func TestPods(t *testing.T) {
	lost := readyNodes()
	lost[0].Status.Conditions[0] = corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		around Snapshot
		want   []string
	}{
		"ready": {func(p *corev1.Pod) { *p = *runningPod("p") }, Snapshot{}, []string{"Ready"}},
		"succeeded": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, Snapshot{},
			[]string{"Complete"}},
		"evicted": {func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
		}, Snapshot{}, []string{"Failed", "Evicted"}},
		"failed by a container": {func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			state(p, exited(3, "Error"))
		}, Snapshot{}, []string{"Failed", "Error"}},
		"gated": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulingGates = "", []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		}, Snapshot{}, []string{"Pending", "SchedulingGated"}},
		"seen by no scheduler": {func(p *corev1.Pod) { p.Spec.NodeName = "" }, Snapshot{},
			[]string{"Pending", "NoScheduler"}},
		"new": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.CreationTimestamp = "", metav1.NewTime(now.Add(-time.Second))
		}, Snapshot{}, []string{"Pending", "NotScheduled"}},
		"unschedulable": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Conditions = "", unschedulable("0/1 nodes are available: 1 Insufficient cpu.")
		}, Snapshot{}, []string{"Pending", "Unschedulable"}},
		"of a claim that is missing": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Conditions = "", unschedulable(`persistentvolumeclaim "data" not found`)
			p.Spec.Volumes = claimVolume("data")
		}, Snapshot{}, []string{"Pending", "Unschedulable", "  ClaimMissing"}},
		"of a claim without class": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Conditions = "", unschedulable("pod has unbound immediate PersistentVolumeClaims.")
			p.Spec.Volumes = claimVolume("data")
		}, Snapshot{Claims: []corev1.PersistentVolumeClaim{*claim("data", ptr.To("fast"))}},
			[]string{"Pending", "Unschedulable", "  ClaimNotBound of PersistentVolumeClaim ns/data", "    ClassMissing"}},
		"on a lost node": {func(p *corev1.Pod) { *p = *runningPod("p") }, Snapshot{Nodes: lost},
			[]string{"Pending", "NodeNotReady of Node n1", "  NodeStatusUnknown"}},
		"on a node that is gone": {func(p *corev1.Pod) {
			*p = *runningPod("p")
			p.Spec.NodeName = "n2"
		}, Snapshot{Nodes: readyNodes()}, []string{"Pending", "NodeGone"}},
		"not taken by its kubelet": {nil, Snapshot{}, []string{"Pending", "NotReported"}},
		"without image": {func(p *corev1.Pod) { state(p, waits("ImagePullBackOff", "Back-off pulling image")) },
			Snapshot{}, []string{"Pending", "ImagePullBackOff"}},
		"without config map": {func(p *corev1.Pod) {
			state(p, waits("CreateContainerConfigError", `configmap "a" not found`))
		}, Snapshot{}, []string{"Pending", "CreateContainerConfigError"}},
		"crashing by memory": {func(p *corev1.Pod) {
			state(p, waits("CrashLoopBackOff", "back-off 10s"))
			p.Status.ContainerStatuses[0].LastTerminationState = exited(137, "OOMKilled")
		}, Snapshot{}, []string{"Pending", "CrashLoopBackOff", "  OOMKilled"}},
		"crashing by its liveness probe": {func(p *corev1.Pod) {
			state(p, waits("CrashLoopBackOff", "back-off 10s"))
			p.Status.ContainerStatuses[0].LastTerminationState = exited(143, "Error")
		}, Snapshot{Events: []corev1.Event{event("p", "Unhealthy", "Liveness probe failed: HTTP 500")}},
			[]string{"Pending", "CrashLoopBackOff", "  Error", "  LivenessProbe"}},
		"waiting for a volume": {func(p *corev1.Pod) { state(p, waits("ContainerCreating", "")) },
			Snapshot{Events: []corev1.Event{event("p", "FailedMount", `secret "x" not found`)}},
			[]string{"Pending", "FailedMount"}},
		"being created": {func(p *corev1.Pod) { state(p, waits("ContainerCreating", "")) },
			Snapshot{Events: []corev1.Event{event("other", "FailedMount", `secret "x" not found`)}},
			[]string{"Pending", "ContainerCreating"}},
		"not ready": {func(p *corev1.Pod) {
			*p = *runningPod("p")
			p.Status.ContainerStatuses[0].Ready = false
		}, Snapshot{Events: []corev1.Event{event("p", "Unhealthy", "Readiness probe failed: 503")}},
			[]string{"Pending", "ReadinessProbe"}},
		"not started": {func(p *corev1.Pod) {
			*p = *runningPod("p")
			p.Status.ContainerStatuses[0].Ready, p.Status.ContainerStatuses[0].Started = false, ptr.To(false)
		}, Snapshot{}, []string{"Pending", "StartupProbe"}},
		"held by a readiness gate": {func(p *corev1.Pod) {
			*p = *runningPod("p")
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
		}, Snapshot{}, []string{"Pending", "ReadinessGate"}},
		"initializing": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first"}, {Name: "second"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: exited(0, "Completed")},
				{Name: "second", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			state(p, waits("PodInitializing", ""))
		}, Snapshot{}, []string{"Pending", "Initializing"}},
		"held by an init container that fails": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "first"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first",
				State: waits("CrashLoopBackOff", ""), LastTerminationState: exited(1, "Error")}}
			state(p, waits("PodInitializing", ""))
		}, Snapshot{}, []string{"Pending", "CrashLoopBackOff", "  Error"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.around.Now = now
			expect(t, Explain(testPod("p", c.change), c.around), c.want...)
		})
	}
}

// TestMessages: what people read names the container, its image, the numbers, and what helps.
func TestMessages(t *testing.T) {
	p := testPod("p", func(p *corev1.Pod) {
		state(p, waits("CrashLoopBackOff", "back-off 10s"))
		p.Status.ContainerStatuses[0].RestartCount = 4
		p.Status.ContainerStatuses[0].LastTerminationState = exited(137, "OOMKilled")
	})
	const want = `Pod ns/p is Pending
  CrashLoopBackOff: Container c ended 4 times; its next start waits.
    OOMKilled: Container c used more memory than its limit and was killed.
      -> Raise its memory limit, or let the program use less.`
	if got := Explain(p, Snapshot{Now: now}).String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestUnreadable: kinds that could not be read are not taken for absent.
func TestUnreadable(t *testing.T) {
	p := testPod("p", func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Conditions = "", unschedulable("pod has unbound immediate PersistentVolumeClaims.")
		p.Spec.Volumes = claimVolume("data")
	})
	s := Snapshot{Now: now, Unknown: map[string]error{"PersistentVolumeClaim": errTest}}
	expect(t, Explain(p, s), "Pending", "Unschedulable")
}

// TestUnschedulableHelp: each of the scheduler's commonest reasons has its own help.
func TestUnschedulableHelp(t *testing.T) {
	seen := map[string]bool{}
	for _, message := range []string{
		"no nodes available to schedule pods",
		"0/3 nodes are available: 3 Insufficient memory.",
		"0/3 nodes are available: 3 Too many pods.",
		"0/3 nodes are available: 3 node(s) had untolerated taint {a: b}.",
		"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
		"0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.",
		"0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.",
		"0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.",
		"0/3 nodes are available: 3 node(s) were unschedulable.",
		"0/3 nodes are available: 3 node(s) didn't match pod affinity rules.",
		"0/3 nodes are available: persistentvolumeclaim \"data\" not found.",
		"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
		"0/3 nodes are available: 3 node(s) had volume node affinity conflict.",
		"0/3 nodes are available: 3 cannot allocate all claims.",
		"waiting for scheduling gates: [example.com/a]",
		"resourceclaim.resource.k8s.io \"gpu\" not found",
	} {
		help := strings.Join(UnschedulableHelp(message), " ")
		if help == "" || seen[help] && !strings.Contains(message, "Too many") {
			t.Errorf("%s: %q", message, help)
		}
		seen[help] = true
	}
	several := UnschedulableHelp("0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu.")
	if len(several) != 2 {
		t.Errorf("help against two reasons: %q", several)
	}
	if help := UnschedulableHelp("resourceclaim in use"); help != nil {
		t.Errorf("help against what is there: %q", help)
	}
}

// TestMissingResourceClaim: the scheduler says nothing of a pod before its claims are there.
func TestMissingResourceClaim(t *testing.T) {
	p := testPod("p", func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Conditions = "", nil
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "there", ResourceClaimName: ptr.To("there")}, {Name: "absent", ResourceClaimName: ptr.To("absent")},
			{Name: "made", ResourceClaimTemplateName: ptr.To("template")},
		}
	})
	s := Snapshot{Now: now, ResourceClaims: map[string]bool{"there": true}}
	expect(t, Explain(p, s), "Pending", "ResourceClaimMissing", "ResourceClaimMissing")
	s.Unknown = map[string]error{"ResourceClaim": errTest}
	expect(t, Explain(p, s), "Pending", "NoScheduler")
}
