package status

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
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
