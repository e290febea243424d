package aggregation

import (
	"context"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/aggregation/aggregationtest"
	"quintet.dev/quintet/components/apiserver/openapi"
)

// TestHeldDocument: clients don't wait long for a server that takes its time, if it is known what it said before.
func TestHeldDocument(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := prepare(t, server)
	defer f.close()
	f.change(t, makeAvailable)
	source := f.told().Sources[0]
	held := source.DocumentV2(t.Context())
	answer := make(chan struct{})
	server.Meanwhile("/openapi/v2", func() { <-answer })
	f.clock.Step(2 * documentFresh)
	var got atomic.Pointer[openapi.Document]
	go func() { got.Store(source.DocumentV2(t.Context())) }()
	f.until(t, "what was said before is told", func() bool { return got.Load() != nil })
	if held == nil || got.Load().Hash != held.Hash {
		t.Errorf("%+v, want %+v", got.Load(), held)
	}
	close(answer)
	f.clock.Step(2 * documentFresh)
	if now := source.DocumentV2(t.Context()); now == nil || now.Hash != held.Hash {
		t.Errorf("when the server answers: %+v", now)
	}
}

// TestFetchEndsWithRun: nothing is fetched any more when a server has stopped.
func TestFetchEndsWithRun(t *testing.T) {
	server := (&aggregationtest.Server{}).Start(t)
	f := prepare(t, server)
	f.change(t, makeAvailable)
	asked, answer := make(chan struct{}), make(chan struct{})
	defer close(answer)
	server.Meanwhile("/openapi/v2", func() {
		close(asked)
		<-answer
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	source := f.told().Sources[0].(route)
	gone, leave := context.WithCancel(t.Context())
	leave()
	source.DocumentV2(gone) // who goes again at once, and leaves the fetch behind
	<-asked
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	d := &source.documents
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.v2.at.IsZero() {
		t.Error("a document is still being fetched")
	}
}

func TestByPriority(t *testing.T) {
	var all []*apiService
	var sources []openapi.Source
	for _, s := range []struct {
		group, version string
		priority       int32
	}{{"a.io", "v1", 10}, {"z.io", "v2", 5}, {"b.io", "v1", 10}, {"z.io", "v1", 20}} {
		service := &apiService{ObjectMeta: metav1.ObjectMeta{Name: s.version + "." + s.group},
			Spec: apiregistrationv1.APIServiceSpec{
				Group: s.group, Version: s.version, GroupPriorityMinimum: s.priority,
				Service: &apiregistrationv1.ServiceReference{},
			}}
		all, sources = append(all, service), append(sources, route{remote: &remote{spec: &service.Spec}})
	}
	byPriority(sources, all)
	for i, want := range []string{"z.io/v1", "z.io/v2", "a.io/v1", "b.io/v1"} {
		if got := sources[i].GroupVersion().String(); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
}
