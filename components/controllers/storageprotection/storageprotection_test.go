package storageprotection

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func meta(name string, deleted bool, finalizers ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, UID: "uid", Finalizers: finalizers}
	if deleted {
		m.DeletionTimestamp = &metav1.Time{Time: time.Unix(1000, 0)}
	}
	return m
}

func claim(name string, deleted bool, finalizers ...string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: meta(name, deleted, finalizers...)}
	c.Namespace = "ns"
	return c
}

func pod(name, node string, volumes ...v1.VolumeSource) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "pod-1"},
		Spec: v1.PodSpec{NodeName: node}}
	for _, source := range volumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "data", VolumeSource: source})
	}
	return p
}

func of(claim string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}

func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		obj   metav1.ObjectMeta
		want  change
		after []string
	}{
		"protected":            {meta("a", false, claimFinalizer), keep, []string{claimFinalizer}},
		"new":                  {meta("a", false, "other"), add, []string{"other", claimFinalizer}},
		"deleted":              {meta("a", true, claimFinalizer, "other"), remove, []string{"other"}},
		"deleted, unprotected": {meta("a", true, "other"), keep, []string{"other"}},
	} {
		got := decide(&c.obj, claimFinalizer)
		if after := finalizers(&c.obj, claimFinalizer, got); got != c.want || !slices.Equal(after, c.after) {
			t.Errorf("%s: %v %v, want %v %v", name, got, after, c.want, c.after)
		}
	}
}

func TestUses(t *testing.T) {
	ended := pod("p", "node", of("data"))
	ended.Status.Phase = v1.PodSucceeded
	ephemeral := v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	own := claim("p-data", true)
	own.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod("p", ""),
		v1.SchemeGroupVersion.WithKind("Pod"))}
	for name, c := range map[string]struct {
		pod   *v1.Pod
		claim *v1.PersistentVolumeClaim
		want  bool
	}{
		"running":              {pod("p", "node", of("data")), claim("data", true), true},
		"ended":                {ended, claim("data", true), true},
		"waits for a node":     {pod("p", "", of("data")), claim("data", true), false},
		"another claim":        {pod("p", "node", of("other")), claim("data", true), false},
		"its ephemeral volume": {pod("p", "node", ephemeral), own, true},
		"of the same name":     {pod("p", "node", ephemeral), claim("p-data", true), false},
	} {
		if got := uses(c.pod, c.claim); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestClaims(t *testing.T) {
	client := runnertest.NewClient(
		claim("unprotected", false), claim("unused", true, claimFinalizer), claim("used", true, claimFinalizer),
		pod("user", "node", of("used")), pod("waits", "", of("unused")),
	)
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return NewClaims(env) })
	protected := func(name string, want bool) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			c, err := client.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && slices.Contains(c.Finalizers, claimFinalizer) == want, name
		})
	}
	protected("unprotected", true)
	protected("unused", false)
	protected("used", true)
	if err := client.CoreV1().Pods("ns").Delete(t.Context(), "user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	protected("used", false)
}

func TestVolumes(t *testing.T) {
	bound := &v1.PersistentVolume{ObjectMeta: meta("bound", true, volumeFinalizer),
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}
	client := runnertest.NewClient(bound,
		&v1.PersistentVolume{ObjectMeta: meta("free", true, volumeFinalizer)},
		&v1.PersistentVolume{ObjectMeta: meta("new", false)})
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return NewVolumes(env) })
	protected := func(name string, want bool) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			v, err := client.CoreV1().PersistentVolumes().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && slices.Contains(v.Finalizers, volumeFinalizer) == want, name
		})
	}
	protected("free", false)
	protected("new", true)
	protected("bound", true)
	released := bound.DeepCopy()
	released.Status.Phase = v1.VolumeReleased
	if _, err := client.CoreV1().PersistentVolumes().UpdateStatus(t.Context(), released,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	protected("bound", false)
}

// TestClasses: a class stays while anything has it, is to have it, or is about to get it.
func TestClasses(t *testing.T) {
	name := func(s string) *string { return &s }
	spec, current, target := claim("spec", false, claimFinalizer), claim("current", false, claimFinalizer),
		claim("target", false, claimFinalizer)
	spec.Spec.VolumeAttributesClassName = name("of-spec")
	current.Status.CurrentVolumeAttributesClassName = name("of-status")
	target.Status.ModifyVolumeStatus = &v1.ModifyVolumeStatus{TargetVolumeAttributesClassName: "of-change"}
	volume := &v1.PersistentVolume{ObjectMeta: meta("volume", false, volumeFinalizer)}
	volume.Spec.VolumeAttributesClassName = name("of-volume")
	class := func(name string, deleted bool, finalizers ...string) *storagev1.VolumeAttributesClass {
		return &storagev1.VolumeAttributesClass{ObjectMeta: meta(name, deleted, finalizers...)}
	}
	used := []string{"of-spec", "of-status", "of-change", "of-volume"}
	client := runnertest.NewClient(spec, current, target, volume, class("new", false), class("unused", true,
		classFinalizer),
		class(used[0], true, classFinalizer), class(used[1], true, classFinalizer),
		class(used[2], true, classFinalizer), class(used[3], true, classFinalizer))
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return NewClasses(env) })
	protected := func(name string, want bool) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			c, err := client.StorageV1().VolumeAttributesClasses().Get(t.Context(), name, metav1.GetOptions{})
			return err == nil && slices.Contains(c.Finalizers, classFinalizer) == want, name
		})
	}
	protected("new", true)
	protected("unused", false)
	for _, name := range used {
		protected(name, true)
	}
	spec, current = spec.DeepCopy(), current.DeepCopy()
	spec.Spec.VolumeAttributesClassName, current.Status.CurrentVolumeAttributesClassName = name("other"), nil
	claims := client.CoreV1().PersistentVolumeClaims("ns")
	if _, err := claims.Update(t.Context(), spec, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := claims.UpdateStatus(t.Context(), current, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := claims.Delete(t.Context(), "target", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), "volume", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range used {
		protected(name, false)
	}
}
