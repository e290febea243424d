package runner

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
)

func pod(name string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// TestHandle tells a change by what was and what is; a missed deletion by the last state known; others' objects not
// at all.
func TestHandle(t *testing.T) {
	var got []string
	handler := Handle(func(old, new *v1.Pod) {
		name := func(p *v1.Pod) string {
			if p == nil {
				return "-"
			}
			return p.Name
		}
		got = append(got, name(old)+">"+name(new))
		if want := new; want != nil && Last(old, new) != want || want == nil && Last(old, new) != old {
			t.Errorf("the last of %s", got[len(got)-1])
		}
	})
	handler.OnAdd(pod("a"), true)
	handler.OnUpdate(pod("a"), pod("b"))
	handler.OnDelete(pod("b"))
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/c", Obj: pod("c")})
	handler.OnAdd(&v1.Node{}, false)
	handler.OnUpdate(pod("a"), &v1.Node{})
	handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "x", Obj: &v1.Node{}})
	if want := "->a a>b b>- c>-"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestKey(t *testing.T) {
	for want, o := range map[string]metav1.Object{"ns/a": pod("a"),
		"n": &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}} {
		if got := Key(o); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestEvery calls at once, then once per period of its clock, and returns with the context.
func TestEvery(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	ctx, cancel := context.WithCancel(t.Context())
	calls, done := make(chan time.Duration), make(chan struct{})
	go func() {
		defer close(done)
		Every(ctx, clock, time.Minute, func(context.Context) { calls <- clock.Since(time.Unix(0, 0)) })
	}()
	for i := range 3 {
		if at := <-calls; at != time.Duration(i)*time.Minute {
			t.Errorf("call %d after %v", i, at)
		}
		clock.Step(30 * time.Second)
		select {
		case at := <-calls:
			t.Errorf("called after %v", at)
		default:
		}
		clock.Step(30 * time.Second)
	}
	<-calls
	cancel()
	<-done
}
