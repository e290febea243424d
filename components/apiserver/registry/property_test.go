package registry

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestHistories: whatever is created, changed and deleted in whatever order, what the registry has acknowledged is what
// is there, versions only grow, and the generation is raised by a change of the spec and by nothing else.
func TestHistories(t *testing.T) {
	for seed := range uint64(40) {
		h := &history{fixture: newFixture(t, setup{}, "deployments"), r: rand.New(rand.NewPCG(seed, 7)),
			known: map[string]*appsv1.Deployment{}}
		for range 60 {
			h.step()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		h.compare()
	}
}

// history is a random sequence of writes. known is what each object is to be.
type history struct {
	*fixture
	r       *rand.Rand
	known   map[string]*appsv1.Deployment
	version int
	now     time.Duration
}

func (h *history) step() {
	h.now += 400 * time.Millisecond
	h.clock.SetTime(began.Add(h.now))
	name := fmt.Sprint("d", h.r.IntN(3))
	old := h.known[name]
	switch h.r.IntN(8) {
	case 0, 1:
		h.add(name, old)
	case 2:
		h.remove(name, old)
	case 3:
		h.writeStatus(name, old)
	case 4:
		h.stale(name, old)
	default:
		h.write(name, old)
	}
}

// acknowledged notes the answer to a write that changed something.
func (h *history) acknowledged(name string, obj api.Object) *appsv1.Deployment {
	version, err := strconv.Atoi(obj.GetResourceVersion())
	if err != nil || version <= h.version {
		h.Errorf("resource version %q after %d", obj.GetResourceVersion(), h.version)
	}
	h.version = version
	h.known[name] = obj.DeepCopyObject().(*appsv1.Deployment)
	return h.known[name]
}

func (h *history) add(name string, old *appsv1.Deployment) {
	m := meta(name)
	m.Generation = int64(h.r.IntN(5))
	if h.r.IntN(3) == 0 {
		m.Finalizers = []string{"example.com/f"}
	}
	obj, err := h.create("deployments", deployment(m))
	if old != nil {
		if !apierrors.IsAlreadyExists(err) {
			h.Errorf("created again: %v, %v", obj, err)
		}
		return
	}
	if err != nil {
		h.Error(err)
		return
	}
	if d := h.acknowledged(name, obj); d.Generation != 1 || d.CreationTimestamp.Time.After(began.Add(h.now)) {
		h.Errorf("created %v", d)
	}
}

func (h *history) remove(name string, old *appsv1.Deployment) {
	obj, gone, err := h.delete("deployments", name, nil)
	switch {
	case old == nil:
		if !apierrors.IsNotFound(err) {
			h.Errorf("deleted what isn't there: %v", err)
		}
	case err != nil || gone != (len(old.Finalizers) == 0):
		h.Errorf("deleted %v: gone %t, %v", old, gone, err)
	case gone:
		delete(h.known, name)
		h.version = int(h.revision())
	case old.DeletionTimestamp == nil:
		if d := h.acknowledged(name, obj); d.Generation != old.Generation+1 || d.DeletionTimestamp == nil {
			h.Errorf("marked %v", d)
		}
	case obj.GetResourceVersion() != old.ResourceVersion:
		h.Errorf("marked again: %v", obj)
	}
}

// write changes some of the spec, of the metadata, and of what no client may change.
func (h *history) write(name string, old *appsv1.Deployment) {
	replicas, value, finalizer := int32(h.r.IntN(3)), fmt.Sprint(h.r.IntN(3)), h.r.IntN(4) == 0
	obj, err := h.update("deployments", name, func(obj api.Object) {
		d := obj.(*appsv1.Deployment)
		d.Spec.Replicas = &replicas
		label("a", value)(d)
		d.Generation, d.Status.Replicas, d.CreationTimestamp = int64(h.r.IntN(9)), 99, metav1.Unix(1, 0)
		if finalizer {
			d.Finalizers = nil
		}
	})
	if old == nil {
		if !apierrors.IsNotFound(err) {
			h.Errorf("changed what isn't there: %v", err)
		}
		return
	}
	if err != nil {
		h.Error(err)
		return
	}
	d := obj.(*appsv1.Deployment)
	want := old.Generation
	if replicas != *old.Spec.Replicas {
		want++
	}
	if d.Generation != want || d.UID != old.UID || !d.CreationTimestamp.Equal(&old.CreationTimestamp) ||
		d.Status.Replicas != old.Status.Replicas || *d.Spec.Replicas != replicas || d.Labels["a"] != value {
		h.Errorf("%v became %v, want generation %d", old, d, want)
	}
	h.changed(name, old, d)
}

// changed notes the answer to a change, which may have been none or have removed the object.
func (h *history) changed(name string, old, d *appsv1.Deployment) {
	same := *d.Spec.Replicas == *old.Spec.Replicas && d.Labels["a"] == old.Labels["a"] &&
		len(d.Finalizers) == len(old.Finalizers) && reflect.DeepEqual(d.Status, old.Status)
	switch {
	case d.DeletionTimestamp != nil && len(d.Finalizers) == 0:
		delete(h.known, name)
		h.version = int(h.revision())
	case !same:
		h.acknowledged(name, d)
	case d.ResourceVersion != old.ResourceVersion && managersEqual(d, old):
		h.Errorf("nothing is changed, and yet written: %v, %v", old, d)
	default:
		h.known[name] = d.DeepCopy()
		h.version = max(h.version, int(h.revision()))
	}
}

func managersEqual(a, b api.Object) bool {
	return reflect.DeepEqual(managers(a), managers(b))
}

func (h *history) writeStatus(name string, old *appsv1.Deployment) {
	ready := int32(h.r.IntN(3))
	obj, err := h.update("deployments/status", name, func(obj api.Object) {
		d := obj.(*appsv1.Deployment)
		d.Status.Replicas = ready
		d.Spec.Replicas = new(int32(77))
	})
	if old == nil {
		if !apierrors.IsNotFound(err) {
			h.Errorf("changed what isn't there: %v", err)
		}
		return
	}
	if err != nil {
		h.Error(err)
		return
	}
	d := obj.(*appsv1.Deployment)
	if d.Generation != old.Generation || *d.Spec.Replicas != *old.Spec.Replicas || d.Status.Replicas != ready {
		h.Errorf("%v became %v", old, d)
	}
	h.changed(name, old, d)
}

// stale writes what was read before another write.
func (h *history) stale(name string, old *appsv1.Deployment) {
	if old == nil {
		return
	}
	_, err := h.update("deployments", name, func(obj api.Object) {
		obj.SetResourceVersion("1")
		label("a", "stale")(obj)
	})
	if !apierrors.IsConflict(err) {
		h.Errorf("a stale write: %v", err)
	}
}

// compare checks that what was acknowledged is what is there.
func (h *history) compare() {
	l, err := h.at("deployments").Cache.List(h.ctx(), cache.ListOptions{Namespace: "a"})
	if err != nil || len(l.Entries) != len(h.known) {
		h.Errorf("listed %v, %v; want %v", l, err, h.known)
	}
	for name, want := range h.known {
		got := h.get("deployments", name)
		if got == nil || got.GetResourceVersion() != want.ResourceVersion || got.GetGeneration() != want.Generation ||
			!reflect.DeepEqual(got.(*appsv1.Deployment).Spec, want.Spec) ||
			!reflect.DeepEqual(got.(*appsv1.Deployment).Status, want.Status) {
			h.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
