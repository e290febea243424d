package aggregation

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func TestEveryBuiltInGroupVersionHasItsPlace(t *testing.T) {
	for name, s := range registrations(kinds.Table(api.Deps{}), nil) {
		if s.Spec.GroupPriorityMinimum == 0 || s.Spec.VersionPriority == 0 {
			t.Errorf("%s has no priority", name)
		}
		if s.Labels[managed] != onStart || s.Spec.Service != nil {
			t.Errorf("%s: %v, %v", name, s.Labels, s.Spec)
		}
	}
}

func TestRegistrations(t *testing.T) {
	gv := func(group, version string, unserved bool) api.Version {
		return api.Version{GroupVersion: schema.GroupVersion{Group: group, Version: version}, Unserved: unserved}
	}
	got := registrations([]*api.Kind{
		{Name: "Pod", Versions: []api.Version{gv("", "v1", false)}},
		{Name: "APIService", Versions: []api.Version{gv(apiregistrationv1.GroupName, "v1", false)}},
		{Name: "Gadget", Custom: &api.Custom{},
			Versions: []api.Version{gv("zoo.io", "v1", false), gv("zoo.io", "v2", true)}},
	}, []schema.GroupVersion{{Group: "zoo.io", Version: "v3"}, {Version: "v1"}})
	if s := got["v1."]; s == nil || s.Labels[managed] != onStart {
		t.Errorf("of what is built in and defined, too: %v", s)
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"v1.", "v1.zoo.io", "v3.zoo.io"}) {
		t.Fatalf("names: %v", names)
	}
	s := got["v1.zoo.io"]
	want := apiregistrationv1.APIServiceSpec{Group: "zoo.io", Version: "v1", GroupPriorityMinimum: 1000,
		VersionPriority: 100}
	if s.Labels[managed] != always || s.Spec.Group != want.Group || s.Spec.GroupPriorityMinimum != 1000 ||
		s.Spec.VersionPriority != 100 {
		t.Errorf("of a custom resource: %v, %+v", s.Labels, s.Spec)
	}
}

func TestDecide(t *testing.T) {
	service := func(label string, priority int32) *apiService {
		s := &apiService{Spec: apiregistrationv1.APIServiceSpec{GroupPriorityMinimum: priority}}
		if label != "" {
			s.Labels = map[string]string{managed: label}
		}
		return s
	}
	tests := []struct {
		name           string
		stored, wanted *apiService
		first, settled bool
		want           action
	}{
		{name: "a built-in one is made", wanted: service(onStart, 1), want: create},
		{name: "a built-in one that was deleted stays away", wanted: service(onStart, 1), settled: true, want: leave},
		{name: "a custom one that was deleted comes back", wanted: service(always, 1), settled: true, want: create},
		{name: "another's is left alone", stored: service("", 1), wanted: service(always, 2), first: true, want: leave},
		{name: "another's is not removed", stored: service("", 1), first: true, want: leave},
		{name: "one that says not to be managed is left alone", stored: service("false", 1), wanted: service(always, 2),
			settled: true, want: leave},
		{name: "one that says not to be managed is not removed", stored: service("false", 1), first: true, want: leave},
		{name: "one of a former version goes at start", stored: service(onStart, 1), first: true, want: remove},
		{name: "one that another server just made stays", stored: service(onStart, 1), want: leave},
		{name: "an outdated one is mended at start", stored: service(onStart, 1), wanted: service(onStart, 2),
			first: true, want: update},
		{name: "a change after the start stays", stored: service(onStart, 1), wanted: service(onStart, 2),
			settled: true, want: leave},
		{name: "a right one is left alone", stored: service(onStart, 2), wanted: service(onStart, 2), first: true,
			want: leave},
		{name: "a custom one goes with its definition", stored: service(always, 1), settled: true, want: remove},
		{name: "a custom one is mended", stored: service(always, 1), wanted: service(always, 2), settled: true,
			want: update},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := decide(test.stored, test.wanted, test.first, test.settled); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestSync creates what is missing, repairs what differs, and deletes what is obsolete, all of it once.
func TestSync(t *testing.T) {
	store := &objectstest.Store{}
	put := func(name, label string, priority int32) {
		store.Put(resource, &apiService{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{managed: label}},
			Spec: apiregistrationv1.APIServiceSpec{Group: name[len("v1."):], Version: "v1",
				GroupPriorityMinimum: priority, VersionPriority: 15},
		})
	}
	put("v1.gone.k8s.io", onStart, 17000)
	put("v1.apps", onStart, 1)
	put("v1.crd.example.com", always, 1000)
	var told View
	a, err := New(Config{Objects: store, Changed: func(v View) { told = v },
		Clock: clocktesting.NewFakeClock(testTime)})
	if err != nil {
		t.Fatal(err)
	}
	table := kinds.Table(api.Deps{})
	if err := a.Serve(table, nil); err != nil {
		t.Fatal(err)
	}
	if len(told.Services) != len(registrations(table, nil))+2 {
		t.Errorf("told of %d before they are written", len(told.Services))
	}
	for range 3 {
		if err := a.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := a.known()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int32{}
	for _, s := range stored {
		names[s.Name] = s.Spec.GroupPriorityMinimum
	}
	if len(names) != len(registrations(table, nil)) || names["v1.apps"] != 17800 || names["v1."] != 18000 {
		t.Errorf("stored: %v", names)
	}
	// Each is written, and then that it is available, which the kind's strategy says at once where there is one.
	if want := 2 * len(registrations(table, nil)); store.Writes != want {
		t.Errorf("%d writes, want %d", store.Writes, want)
	}
}

// leaderless is a store that refuses its first write.
type leaderless struct {
	*objectstest.Store
	refused bool
}

func (s *leaderless) Create(ctx context.Context, resource schema.GroupResource, obj api.Object) (api.Object,
	error) {
	if !s.refused {
		s.refused = true
		return nil, errors.New("etcdserver: no leader")
	}
	return s.Store.Create(ctx, resource, obj)
}

// TestSyncTriesAgain what it could not write.
func TestSyncTriesAgain(t *testing.T) {
	store, clk := &leaderless{Store: &objectstest.Store{}}, clocktesting.NewFakeClock(testTime)
	a, err := New(Config{Objects: store, Changed: func(View) {}, Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	table := kinds.Table(api.Deps{})
	if err := a.Serve(table, nil); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Sync(t.Context()) }()
	for waiting := true; waiting; runtime.Gosched() {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			waiting = false
		default:
			if clk.HasWaiters() {
				clk.Step(retryPause)
			}
		}
	}
	if stored, err := a.known(); err != nil || len(stored) != len(registrations(table, nil)) {
		t.Errorf("%d are stored, %v", len(stored), err)
	}
}
