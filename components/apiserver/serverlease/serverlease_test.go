package serverlease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

const root = "/registry/masterleases"

// racing is a store in which another writer comes first, as long as there are races.
type racing struct {
	storage.Store
	races int
	by    func(key string)
}

func (r *racing) race(key string) {
	if r.races > 0 {
		r.races--
		r.by(key)
	}
}

func (r *racing) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	r.race(key)
	return r.Store.Create(ctx, key, value, ttl)
}

func (r *racing) Update(ctx context.Context, key string, value []byte, at int64, ttl time.Duration) (int64, error) {
	r.race(key)
	return r.Store.Update(ctx, key, value, at, ttl)
}

func (r *racing) Delete(ctx context.Context, key string, at int64) (int64, error) {
	r.race(key)
	return r.Store.Delete(ctx, key, at)
}

func newServers(t *testing.T) (*Servers, *racing, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Unix(1000, 0))
	store := memory.New(clock)
	t.Cleanup(func() { _ = store.Close() })
	race := &racing{Store: store}
	return &Servers{Store: race, Root: root, Life: 15 * time.Second}, race, clock
}

func at(ip string) func(*Lease) {
	//lint:ignore SA1019 see Lease
	return func(l *Lease) { l.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: ip}}}} }
}

// list is what lives, as key=address generation.
func list(t *testing.T, s *Servers) (out []string) {
	t.Helper()
	leases, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases {
		out = append(out, fmt.Sprintf("%s %d", l.Subsets[0].Addresses[0].IP, l.Generation))
	}
	return out
}

// await waits until no more than some are left, and returns those.
func await(t *testing.T, s *Servers, left int) []string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(list(t, s)) > left && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	return list(t, s)
}

func TestLife(t *testing.T) {
	s, _, clock := newServers(t)
	for _, name := range []string{"10.0.0.2", "10.0.0.1"} {
		if err := s.Renew(t.Context(), name, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	if got := list(t, s); !slices.Equal(got, []string{"10.0.0.1 1", "10.0.0.2 1"}) {
		t.Errorf("begun: %v", got)
	}
	clock.Step(10 * time.Second)
	if err := s.Renew(t.Context(), "10.0.0.1", at("192.0.2.1")); err != nil {
		t.Fatal(err)
	}
	clock.Step(10 * time.Second) // the second one's life is over
	if got := await(t, s, 1); !slices.Equal(got, []string{"192.0.2.1 2"}) {
		t.Errorf("one was renewed: %v", got)
	}
	clock.Step(10 * time.Second)
	if got := await(t, s, 0); len(got) > 0 {
		t.Errorf("none was renewed: %v", got)
	}
	if _, err := s.Get(t.Context(), "10.0.0.2"); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("one that ended: %v", err)
	}
}

// TestValues: values are upstream's, and those of servers that write JSON are read, too; what others wrote of the
// metadata stays.
func TestValues(t *testing.T) {
	s, race, _ := newServers(t)
	theirs, err := json.Marshal(&Lease{ObjectMeta: metav1.ObjectMeta{Generation: 7, Labels: map[string]string{"a": "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		value      string
		generation int64
	}{"json": {string(theirs), 8}, "garbage": {"{", 1}, "envelope": {"k8s\x00garbage", 1}} {
		if _, err := race.Store.Create(t.Context(), root+"/"+name, []byte(test.value), 0); err != nil {
			t.Fatal(err)
		}
		_, readErr := s.Get(t.Context(), name)
		if (readErr == nil) != (name == "json") {
			t.Errorf("%s: read: %v", name, readErr)
		}
		if err := s.Renew(t.Context(), name, at("192.0.2.1")); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		lease, err := s.Get(t.Context(), name)
		if err != nil || lease.Generation != test.generation || (lease.Labels["a"] == "b") != (name == "json") {
			t.Errorf("%s: %+v, %v", name, lease, err)
		}
		item, err := race.Store.Get(t.Context(), root+"/"+name)
		if err != nil || !codec.IsEnvelope(item.Value) || !strings.Contains(string(item.Value), "Endpoints") {
			t.Errorf("%s: value %q, %v", name, item.Value, err)
		}
	}
	if _, err := race.Store.Create(t.Context(), root+"/broken", []byte("{"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context()); err == nil || !strings.Contains(err.Error(), root+"/broken") {
		t.Errorf("a list with a value that can't be read: %v", err)
	}
}

// TestRaces: writes that another one comes before are tried again, but not for ever.
func TestRaces(t *testing.T) {
	put := func(store storage.Store, key string) {
		current, err := store.Get(context.Background(), key)
		if err != nil {
			_, _ = store.Create(context.Background(), key, []byte("{}"), 0)
			return
		}
		_, _ = store.Update(context.Background(), key, []byte("{}"), current.Revision, 0)
	}
	remove := func(store storage.Store, key string) {
		if current, err := store.Get(context.Background(), key); err == nil {
			_, _ = store.Delete(context.Background(), key, current.Revision)
		}
	}
	renew := func(s *Servers) error { return s.Renew(context.Background(), "a", at("192.0.2.1")) }
	end := func(s *Servers) error { return s.Remove(context.Background(), "a") }
	for name, test := range map[string]struct {
		exists bool
		races  int
		other  func(storage.Store, string)
		do     func(*Servers) error
		fails  bool
		lives  bool
	}{
		"created meanwhile":         {false, 1, put, renew, false, true},
		"changed meanwhile":         {true, tries - 1, put, renew, false, true},
		"removed meanwhile":         {true, 1, remove, renew, false, true},
		"changed all the time":      {true, tries, put, renew, true, true},
		"remove":                    {true, 0, put, end, false, false},
		"remove what is not there":  {false, 0, put, end, false, false},
		"remove, changed meanwhile": {true, tries - 1, put, end, false, false},
		"remove, removed meanwhile": {true, 1, remove, end, false, false},
	} {
		s, race, _ := newServers(t)
		if test.exists {
			put(race.Store, root+"/a")
		}
		race.races, race.by = test.races, func(key string) { test.other(race.Store, key) }
		if err := test.do(s); (err != nil) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := race.Store.Get(t.Context(), root+"/a"); (err == nil) != test.lives {
			t.Errorf("%s: afterwards %v", name, err)
		}
	}
}

func TestRoot(t *testing.T) {
	for _, prefix := range []string{"/registry", "/registry/"} {
		if got := Root(prefix, "masterleases"); got != root {
			t.Errorf("%s: %s", prefix, got)
		}
	}
}
