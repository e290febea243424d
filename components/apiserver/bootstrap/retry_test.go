package bootstrap

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// leaderless is a store that takes no writes of some resources until it has refused some.
type leaderless struct {
	*objectstest.Store
	of      string
	refuses atomic.Int32
}

func (s *leaderless) Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object,
	error) {
	if (s.of == "" || resource.Resource == s.of) && s.refuses.Add(-1) >= 0 {
		return nil, errors.New("etcdserver: no leader")
	}
	return s.Store.Create(ctx, resource, obj)
}

// ensure lets the clock go on while Ensure waits.
func ensure(t *testing.T, b *Bootstrap, clk *testingclock.FakeClock) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- b.Ensure(t.Context()) }()
	var err error
	eventually(t, func() bool {
		select {
		case err = <-done:
			return true
		default:
			if clk.HasWaiters() {
				clk.Step(retryPause)
			}
			return false
		}
	})
	return err
}

// TestAStoreWithoutALeader for a moment doesn't end the server, whatever it can't write then.
func TestAStoreWithoutALeader(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(1700000000, 0))
	store := &leaderless{Store: &objectstest.Store{}}
	store.refuses.Store(10)
	if err := ensure(t, newBootstrap(store, "host", "192.0.2.1", clk), clk); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Get(t.Context(), clusterRoles, "", "cluster-admin"); err != nil {
		t.Error(err)
	}
}

// TestWhatAServerNeeds: without its roles it ends, though not at once; without others of the first objects it goes on.
func TestWhatAServerNeeds(t *testing.T) {
	for of, want := range map[string]string{
		"clusterroles": "bootstrap cluster role cluster-admin: etcdserver: no leader", "priorityclasses": "no leader",
		"namespaces": "", "leases": "", "servicecidrs": "", "services": "", "configmaps": "",
	} {
		began := time.Unix(1700000000, 0)
		clk := testingclock.NewFakeClock(began)
		store := &leaderless{Store: &objectstest.Store{}, of: of}
		store.refuses.Store(1 << 30)
		err := ensure(t, newBootstrap(store, "host", "192.0.2.1", clk), clk)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("without %s: %v", of, err)
		}
		if took := clk.Since(began); want != "" && took < retryTimeout-retryPause {
			t.Errorf("it ended after %v without %s", took, of)
		}
	}
}

// TestUnreadableTrust: a malformed ConfigMap is left as it is by a server that starts.
func TestUnreadableTrust(t *testing.T) {
	for key, text := range map[string]string{clientCAKey: "-----BEGIN CERTIFICATE-----\nnone\n",
		proxyNames: "not JSON"} {
		store, clk := &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
		store.Put(corev1.Resource("configmaps"), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trustName},
			Data:       map[string]string{key: text},
		})
		if err := ensure(t, newBootstrap(store, "host", "192.0.2.1", clk), clk); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if got := toldOf(t, store)[key]; got != text {
			t.Errorf("%s is now %q", key, got)
		}
	}
}
