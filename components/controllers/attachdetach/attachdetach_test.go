package attachdetach

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const driver = "csi.example.com"

func volume(name string, modes ...v1.PersistentVolumeAccessMode) *v1.PersistentVolume {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		AccessModes: modes, ClaimRef: &v1.ObjectReference{Namespace: "ns", Name: "c-" + name, UID: types.UID("uid-" + name)},
		PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle-" + name}},
	}}
}

func claimOf(volume *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: volume.Spec.ClaimRef.Name, UID: volume.Spec.ClaimRef.UID},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: volume.Name},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
}

func node(name string, isReady bool, inUse ...*v1.PersistentVolume) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managedAnnotation: "true"}}}
	status := v1.ConditionFalse
	if isReady {
		status = v1.ConditionTrue
	}
	n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	for _, v := range inUse {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName(v))
	}
	return n
}

func pod(name, node string, volumes ...*v1.PersistentVolume) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
		Spec: v1.PodSpec{NodeName: node}}
	for _, v := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: v.Name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: v.Spec.ClaimRef.Name}}})
	}
	return p
}

func attachment(volume *v1.PersistentVolume, node string, attached bool) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachmentName(volume, node)},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(volume.Name)}},
		Status: storagev1.VolumeAttachmentStatus{Attached: attached},
	}
}

func TestPlanNode(t *testing.T) {
	v, shared := volume("v", v1.ReadWriteOnce), volume("v", v1.ReadWriteMany)
	here, there := attachment(v, "n", true), attachment(v, "m", true)
	leaving := there.DeepCopy()
	leaving.DeletionTimestamp = &metav1.Time{}
	tainted := node("n", false, v)
	tainted.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
	now := time.Unix(10000, 0)
	long, short := now.Add(-7*time.Minute), now.Add(-time.Minute)
	for name, c := range map[string]struct {
		node    *v1.Node
		wanted  *v1.PersistentVolume
		here    *storagev1.VolumeAttachment
		there   *storagev1.VolumeAttachment
		since   time.Time
		noForce bool
		// attach, blocked, report, detach: how many; forced: whether detaching asks nothing.
		attach, blocked, report, detach int
		forced                          bool
		again                           time.Duration
	}{
		"new":                    {node: node("n", true), wanted: v, attach: 1},
		"attached":               {node: node("n", true), wanted: v, here: here, report: 1},
		"being attached":         {node: node("n", true), wanted: v, here: attachment(v, "n", false)},
		"elsewhere":              {node: node("n", true), wanted: v, there: there, blocked: 1},
		"about to leave another": {node: node("n", true), wanted: v, there: leaving},
		"shared":                 {node: node("n", true), wanted: shared, there: there, attach: 1},
		"not needed":             {node: node("n", true), here: here, detach: 1},
		"still mounted":          {node: node("n", true, v), here: here, since: long, report: 1},
		"node lost":              {node: node("n", false, v), here: here, since: short, report: 1, again: 5 * time.Minute},
		"node lost for long":     {node: node("n", false, v), here: here, since: long, detach: 1, forced: true},
		"never by force":         {node: node("n", false, v), here: here, since: long, noForce: true, report: 1},
		"out of service":         {node: tainted, here: here, since: short, detach: 1, forced: true},
		"node gone":              {here: here, detach: 1, forced: true},
	} {
		view := &view{name: "n", node: c.node, wants: map[string]want{}, volumes: map[string]*v1.PersistentVolume{"v": v},
			elsewhere: map[string][]*storagev1.VolumeAttachment{}, idleSince: map[string]time.Time{}, forceDetach: !c.noForce,
			now: now}
		if c.wanted != nil {
			view.wants[attachmentName(c.wanted, "n")] = want{volume: c.wanted}
		}
		if c.here != nil {
			view.attachments = append(view.attachments, c.here)
			view.idleSince[c.here.Name] = c.since
		}
		if c.there != nil {
			view.elsewhere["v"] = append(view.elsewhere["v"], c.there)
		}
		p := planNode(view)
		if len(p.attach) != c.attach || len(p.blocked) != c.blocked || len(p.report) != c.report ||
			len(p.detach) != c.detach ||
			p.forced[here.Name] != c.forced || p.again != c.again {
			t.Errorf("%s: %+v, want %+v", name, p, c)
		}
	}
}

func TestBlockedMessage(t *testing.T) {
	far := pod("x", "m")
	far.Namespace = "other"
	for want, users := range map[string][]*v1.Pod{
		"Volume is already exclusively attached to one node and can't be attached to another": nil,
		"Volume is already used by pod(s) a, b":                                               {pod("a", "m"), pod("b", "m")},
		"Volume is already used by pod(s) a and 1 pod(s) in different namespaces":             {pod("a", "m"), far},
		"Volume is already used by 1 pod(s) in different namespaces":                          {far},
	} {
		if got := blockedMessage(pod("p", "n"), "v", users); got != `Multi-Attach error for volume "v" `+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNeedsVolumes(t *testing.T) {
	ended, leaving := pod("p", "n"), pod("p", "n")
	ended.Status.Phase = v1.PodSucceeded
	leaving.DeletionTimestamp = &metav1.Time{}
	leaving.Status.ContainerStatuses = []v1.ContainerStatus{
		{State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}},
	}
	stopped := leaving.DeepCopy()
	stopped.Status.ContainerStatuses[0].State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}
	keeps := node("n", true)
	keeps.Annotations[keepAnnotation] = "true"
	for name, c := range map[string]struct {
		pod  *v1.Pod
		node *v1.Node
		want bool
	}{
		"runs": {pod("p", "n"), node("n", true), true}, "ended": {ended, node("n", true), false},
		"kept":   {ended, keeps, true},
		"leaves": {leaving, node("n", true), true}, "stopped": {stopped, node("n", true), false},
	} {
		if got := needsVolumes(c.pod, c.node); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func await(t *testing.T, client *fake.Clientset, ok func([]string) bool) {
	t.Helper()
	runnertest.Eventually(t, func() (bool, string) {
		all, err := client.StorageV1().VolumeAttachments().List(t.Context(), metav1.ListOptions{})
		var nodes []string
		for i := range all.Items {
			nodes = append(nodes, all.Items[i].Spec.NodeName)
		}
		slices.Sort(nodes)
		return err == nil && ok(nodes), fmt.Sprint(nodes, err)
	})
}

// TestLifecycle follows a volume from one node to another: attached, reported, blocked, detached and attached again.
func TestLifecycle(t *testing.T) {
	v := volume("v", v1.ReadWriteOnce)
	client := runnertest.NewClient(v, claimOf(v), node("n", true), node("m", true), pod("p", "n", v),
		&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("v2")}}})
	events := runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
		return New(env, Options{SyncPeriod: time.Minute, ForceDetach: true})
	})
	await(t, client, func(nodes []string) bool { return strings.Join(nodes, ",") == "n,n" })
	attachments := client.StorageV1().VolumeAttachments()
	if _, err := attachments.UpdateStatus(t.Context(), attachment(v, "n", true), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "v" `)
	reported := func(want bool) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			n, err := client.CoreV1().Nodes().Get(t.Context(), "n", metav1.GetOptions{})
			return err == nil && slices.Equal(n.Status.VolumesAttached, []v1.AttachedVolume{{Name: uniqueName(v)}}) == want,
				fmt.Sprint(n.Status.VolumesAttached, err)
		})
	}
	reported(true)
	if _, err := client.CoreV1().Pods("ns").Create(t.Context(), pod("q", "m", v), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events,
		`Warning FailedAttachVolume Multi-Attach error for volume "v" Volume is already used by pod(s) p`)
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, func(nodes []string) bool { return strings.Join(nodes, ",") == "m,n" }) // by-hand is left alone
	reported(false)
	failed := attachment(v, "m", false)
	failed.Status.AttachError = &storagev1.VolumeError{Time: metav1.Now(), Message: "no such disk"}
	if _, err := attachments.UpdateStatus(t.Context(), failed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Saw(t, events, `Warning FailedAttachVolume AttachVolume.Attach failed for volume "v" : no such disk`)
}
