package static

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// told records the statuses that are passed on.
type told struct{ log []string }

func (s *told) Set(pod *v1.Pod, status *v1.PodStatus) {
	s.log = append(s.log, fmt.Sprintf("set %s %s", pod.UID, status.Phase))
}
func (s *told) Delete(pod *v1.Pod)   { s.log = append(s.log, "delete "+string(pod.UID)) }
func (s *told) Forget(uid types.UID) { s.log = append(s.log, "forget "+string(uid)) }

// TestSync: what is written about the mirror pod of a static pod, and what is told of its status.
func TestSync(t *testing.T) {
	static := parse(t, "n", "/m/web", web)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
	mirror, other := mirrorOf(static, node), mirrorOf(static, node)
	mirror.UID, other.UID = "mirror", "other"
	ordinary := other.DeepCopy()
	ordinary.Annotations = nil
	outdated := mirror.DeepCopy()
	outdated.Annotations[v1.MirrorPodAnnotationKey] = "before"
	noNode := func() *v1.Node { return nil }
	replace, forgotten := []string{"delete", "create"}, []string{"forget mirror"}
	running, conflict := &v1.PodStatus{Phase: v1.PodRunning}, apierrors.NewConflict(v1.Resource("pods"), "web-n", nil)
	for name, test := range map[string]struct {
		stored, seen *v1.Pod // in the API, and as far as the kubelet knows
		status       *v1.PodStatus
		node         func() *v1.Node
		deleteErr    error
		verbs        []string // that are called
		told         []string
		fails        bool
	}{
		"made":                {status: running, verbs: []string{"create"}},
		"not before the node": {status: running, node: noNode, fails: true},
		"told":                {stored: mirror, seen: mirror, status: running, told: []string{"set mirror Running"}},
		"not before it runs":  {stored: mirror, seen: mirror},
		"the watch is late":   {stored: other, status: running, verbs: []string{"create", "get"}},
		"the name is taken":   {stored: ordinary, status: running, verbs: []string{"create", "get"}, fails: true},
		"replaced":            {stored: outdated, seen: outdated, status: running, verbs: replace, told: forgotten},
		"already removed":     {seen: outdated, status: running, verbs: replace, told: forgotten},
		"another took the place": {seen: outdated, status: running, deleteErr: conflict,
			verbs: replace, told: forgotten},
		"can't be removed": {seen: outdated, status: running, deleteErr: errors.New("refused"),
			verbs: []string{"delete"}, fails: true},
	} {
		client := fake.NewClientset()
		if test.stored != nil {
			if err := client.Tracker().Add(test.stored.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
		client.PrependReactor("delete", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
			o := action.(ktesting.DeleteActionImpl).DeleteOptions
			if *o.GracePeriodSeconds != 0 || *o.Preconditions.UID != "mirror" {
				t.Errorf("%s: delete options %+v", name, o)
			}
			return test.deleteErr != nil, nil, test.deleteErr
		})
		if test.node == nil {
			test.node = func() *v1.Node { return node }
		}
		statuses := &told{}
		m := NewMirrors(client, statuses, test.node)
		m.know(static)
		if test.seen != nil {
			m.Seen(test.seen)
		}
		if test.status != nil {
			m.Set(static, test.status)
		}
		m.ready()
		err := m.sync(t.Context(), nameOf(static))
		var verbs []string
		for _, action := range client.Actions() {
			verbs = append(verbs, action.GetVerb())
		}
		if (err != nil) != test.fails || !slices.Equal(verbs, test.verbs) || !slices.Equal(statuses.log, test.told) {
			t.Errorf("%s: %v, called %v, told %v", name, err, verbs, statuses.log)
		}
	}
}

// TestLeftOver: a mirror pod without a static pod goes once all manifests were read.
func TestLeftOver(t *testing.T) {
	mirror := mirrorOf(parse(t, "n", "/m/web", web), &v1.Node{})
	mirror.UID = "mirror"
	client, statuses := fake.NewClientset(mirror.DeepCopy()), &told{}
	m := NewMirrors(client, statuses, nil)
	m.Seen(mirror)
	for _, ready := range []bool{false, true} {
		if ready {
			m.ready()
		}
		if err := m.sync(t.Context(), nameOf(mirror)); err != nil {
			t.Fatal(err)
		}
		if removed := len(client.Actions()) > 0; removed != ready {
			t.Errorf("manifests read %v: calls %v", ready, client.Actions())
		}
	}
}

// TestStatuses: those of ordinary pods are passed on, those of static pods wait for their mirror.
func TestStatuses(t *testing.T) {
	static := parse(t, "n", "/m/web", web)
	ordinary := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "o", UID: "o"}}
	mirror := mirrorOf(static, &v1.Node{})
	mirror.UID = "mirror"
	statuses := &told{}
	m := NewMirrors(fake.NewClientset(), statuses, nil)
	m.Set(ordinary, &v1.PodStatus{Phase: v1.PodRunning})
	m.Set(static, &v1.PodStatus{Phase: v1.PodRunning})
	m.Delete(ordinary)
	m.Forget(ordinary.UID)
	m.Forget(static.UID) // nothing is known of it elsewhere
	m.Seen(mirror)
	replaced := mirror.DeepCopy()
	replaced.UID = "before"
	m.Left(replaced)
	if m.mirrors[nameOf(mirror)] != mirror {
		t.Error("a mirror pod is forgotten with the one before it")
	}
	m.Left(mirror)
	if len(m.mirrors) > 0 || len(m.static) > 0 {
		t.Errorf("kept: %v, %v", m.mirrors, m.static)
	}
	want := []string{"set o Running", "delete o", "forget o", "forget before", "forget mirror"}
	if !slices.Equal(statuses.log, want) {
		t.Errorf("told %q", statuses.log)
	}
}
