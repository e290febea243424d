package status

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
	"sigs.k8s.io/randfill"
)

func TestWriterRetriesWritesAndDeletes(t *testing.T) {
	p := pod("Always", nil, "a")
	p.UID = "uid"
	client := fake.NewClientset(p)
	refusals := 2
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		if refusals > 0 {
			refusals--
			return true, nil, apierrors.NewServiceUnavailable("not now")
		}
		return false, nil, nil
	})
	written := make(chan *v1.Pod, 10)
	w := NewWriter(client, clock.RealClock{})
	w.Written = func(p *v1.Pod) { written <- p }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx, 2); close(done) }()
	w.Set(p, &v1.PodStatus{Phase: v1.PodRunning, PodIP: "10.0.0.1"})
	select {
	case got := <-written:
		if got.Status.Phase != v1.PodRunning || got.Status.PodIP != "10.0.0.1" {
			t.Errorf("written %+v", got.Status)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the status was not written")
	}
	deleted, err := client.CoreV1().Pods("ns").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Delete(p)
	select {
	case <-deleted.ResultChan():
	case <-time.After(30 * time.Second):
		t.Fatal("the pod was not deleted")
	}
	cancel()
	<-done
	for _, action := range client.Actions() {
		if d, ok := action.(clienttesting.DeleteActionImpl); ok {
			if *d.DeleteOptions.GracePeriodSeconds != 0 || *d.DeleteOptions.Preconditions.UID != "uid" {
				t.Errorf("deleted with %+v", d.DeleteOptions)
			}
		}
	}
}

func TestDifference(t *testing.T) {
	p := pod("Always", nil, "a")
	p.UID, p.Status.Phase = "uid", v1.PodRunning
	if data, changed, err := difference(p, &v1.PodStatus{Phase: v1.PodRunning}); changed || err != nil {
		t.Errorf("no change: %s, %v", data, err)
	}
	if data, changed, err := difference(p, &v1.PodStatus{Phase: v1.PodFailed}); !changed || err != nil {
		t.Errorf("change: %s, %v", data, err)
	}
}

// TestDifferenceIsThatOfWhole: leaving out what is the same changes nothing of what a patch does.
func TestDifferenceIsThatOfWhole(t *testing.T) {
	fill := randfill.NewWithSeed(1).NilChance(.5).NumElements(0, 3).Funcs(func(at *metav1.Time, c randfill.Continue) {
		*at = metav1.Unix(c.Int63()%1e9, 0)
	}, func(q *resource.Quantity, c randfill.Continue) {
		*q = *resource.NewQuantity(c.Int63()%1e6, resource.DecimalSI)
	})
	for range 300 {
		p, want := pod("Always", nil, "a"), v1.PodStatus{}
		p.UID = "uid"
		fill.Fill(&p.Status)
		p.Status.DeepCopyInto(&want)
		one := reflect.ValueOf(&want).Elem().Field(rand.IntN(reflect.TypeFor[v1.PodStatus]().NumField()))
		fill.Fill(one.Addr().Interface())
		data, changed, err := difference(p, &want)
		if err != nil {
			continue // random lists can't be merged
		}
		before, _ := json.Marshal(v1.Pod{Status: p.Status})
		after, _ := json.Marshal(v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}, Status: want})
		whole, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
		if err != nil || string(data) != string(whole) || changed == (string(whole) == `{"metadata":{"uid":"uid"}}`) {
			t.Fatalf("%s, %v, of the whole %s, %v", data, changed, whole, err)
		}
	}
}

// TestWriterKeepsUp has statuses come while the first is on its way: the last one is what is written, also when it is
// the one before, and no pod is held when all is done.
func TestWriterKeepsUp(t *testing.T) {
	p := pod("Always", nil, "a")
	p.UID, p.ResourceVersion = "uid", "1"
	client := fake.NewClientset(p)
	version, arrived, proceed := 1, make(chan bool), make(chan bool)
	client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		arrived <- true
		<-proceed
		var patch v1.Pod
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		version++
		now := p.DeepCopy()
		now.ResourceVersion, now.Status.Phase = strconv.Itoa(version), patch.Status.Phase
		return true, now, nil
	})
	w := NewWriter(client, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { w.Run(ctx, 2); close(done) }()
	for i, phase := range []v1.PodPhase{v1.PodRunning, v1.PodPending, v1.PodRunning} {
		w.Set(p, &v1.PodStatus{Phase: phase}) // always with the version before all writes
		if i > 0 {
			proceed <- true // the write of the one before
		}
		<-arrived
	}
	proceed <- true
	for held := true; held; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		held = w.pending["uid"].pod != nil
		w.mu.Unlock()
	}
	w.Set(p, &v1.PodStatus{Phase: v1.PodRunning}) // of the old version of the pod: it is written already
	cancel()
	<-done
	if w.pending["uid"].want != nil || version != 4 {
		t.Errorf("%v is wanted after %d writes", w.pending["uid"].want, version-1)
	}
}

// TestWritesTakeSlots: the time of a write begins once it has a slot.
func TestWritesTakeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pod("Always", nil, "a")
		p.UID, p.ResourceVersion = "uid", "1"
		client := fake.NewClientset(p)
		w := NewWriter(client, clock.RealClock{})
		w.Slots = make(chan struct{}, 1)
		w.Slots <- struct{}{} // another node's
		written := 0
		w.Written = func(*v1.Pod) { written++ }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { w.Run(ctx, 2); close(done) }()
		w.Set(p, &v1.PodStatus{Phase: v1.PodRunning})
		time.Sleep(4 * sendTimeout)
		if actions := client.Actions(); len(actions) > 0 {
			t.Errorf("%v without a slot", actions)
		}
		<-w.Slots
		synctest.Wait()
		if written != 1 || len(w.Slots) != 0 {
			t.Errorf("%d writes, %d slots taken", written, len(w.Slots))
		}
		w.Slots <- struct{}{}
		w.Set(p, &v1.PodStatus{Phase: v1.PodSucceeded})
		cancel() // also ends what waits for a slot
		<-done
	})
}
