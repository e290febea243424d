package encryption

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"

	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/memory"
	"quintet.dev/quintet/components/apiserver/storage/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// byPrefix tells the resource by the first element of a key below /registry.
func byPrefix(key string) (schema.GroupResource, bool) {
	resource, _, _ := strings.Cut(strings.TrimPrefix(key, "/registry/"), "/")
	group := ""
	if resource == "leases" {
		group = "coordination.k8s.io"
	}
	return schema.GroupResource{Group: group, Resource: resource}, resource != "ranges"
}

// load reads a configuration for one test.
func load(t *testing.T, content string) *Keys {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, Config{File: file})
}

func open(t *testing.T, c Config) *Keys {
	t.Helper()
	keys, err := Load(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	return keys
}

func inMemory(t *testing.T) storage.Store {
	s := memory.New(nil)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const (
	head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	key1 = "YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="
	key2 = "YmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmJiYmI="
	// One key, then a second before it, then the second alone.
	first = head + "- resources: ['*.*']\n  providers: [{aesgcm: {keys: [{name: one, secret: " + key1 + "}]}}]\n"
	both  = head + "- resources: ['*.*']\n  providers: [{aescbc: {keys: [{name: two, secret: " + key2 +
		"}]}}, {aesgcm: {keys: [{name: one, secret: " + key1 + "}]}}]\n"
	second = head + "- resources: ['*.*']\n  providers: [{aescbc: {keys: [{name: two, secret: " + key2 + "}]}}]\n"
)

func TestContract(t *testing.T) {
	keys := load(t, first)
	storagetest.Run(t, func(t *testing.T) storage.Store { return NewStore(inMemory(t), keys.Transformers(), byPrefix) })
}

// TestUpstreamsValues reads what upstream wrote with the same configuration, and writes in the same form.
func TestUpstreamsValues(t *testing.T) {
	content, err := os.ReadFile("testdata/upstream.json")
	if err != nil {
		t.Fatal(err)
	}
	var values []struct {
		Key   string
		Value []byte
	}
	if err := json.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	below := inMemory(t)
	s := NewStore(below, open(t, Config{File: "testdata/config.yaml"}).Transformers(), byPrefix)
	for _, v := range values {
		r, err := below.Create(t.Context(), v.Key, v.Value, 0)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := s.Get(t.Context(), v.Key)
		if err != nil || kv.Unreadable != nil || kv.Stale || !bytes.HasPrefix(kv.Value, []byte("k8s\x00")) {
			t.Errorf("%s: got %q, %v, %v, %v", v.Key, kv.Value, kv.Stale, kv.Unreadable, err)
			continue
		}
		if _, err := s.Update(t.Context(), v.Key, kv.Value, r, 0); err != nil {
			t.Fatal(err)
		}
		written, err := below.Get(t.Context(), v.Key)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := form(written.Value), form(v.Value); got != want || len(written.Value) != len(v.Value) {
			t.Errorf("%s: written as %s of %d bytes, upstream writes %s of %d", v.Key, got, len(written.Value), want,
				len(v.Value))
		}
	}
}

// form is what a value tells of how it is encrypted.
func form(value []byte) string {
	if parts := bytes.SplitAfterN(value, []byte(":"), 6); len(parts) == 6 {
		return string(bytes.Join(parts[:5], nil))
	}
	return "open"
}

// TestRotation: what was written with an old key is stale, in every way in which it is read, and is read as long as the
// key is there.
func TestRotation(t *testing.T) {
	below := inMemory(t)
	const key = "/registry/secrets/a/b"
	old := NewStore(below, load(t, first).Transformers(), byPrefix)
	r, err := old.Create(t.Context(), key, []byte("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	s := NewStore(below, load(t, both).Transformers(), byPrefix)
	check := func(how string, kv storage.KeyValue, err error, stale bool) {
		t.Helper()
		if err != nil || kv.Unreadable != nil || string(kv.Value) != "x" || kv.Stale != stale {
			t.Errorf("%s: got %q, stale %v, %v, %v", how, kv.Value, kv.Stale, kv.Unreadable, err)
		}
	}
	all := func(stale bool) {
		t.Helper()
		kv, err := s.Get(t.Context(), key)
		check("get", kv, err, stale)
		page, err := s.List(t.Context(), storage.Range{Prefix: "/registry/secrets/"})
		check("list", page.Items[0], err, stale)
		for how, write := range map[string]func() error{
			"update": func() error { _, err := s.Update(t.Context(), key, nil, 1<<40, 0); return err },
			"delete": func() error { _, err := s.Delete(t.Context(), key, 1<<40); return err },
		} {
			conflict := new(storage.ConflictError)
			if !errors.As(write(), &conflict) {
				t.Fatalf("%s: no conflict", how)
			}
			check(how, conflict.Current, nil, stale)
		}
		ctx, cancel := context.WithCancel(t.Context())
		w := s.Watch(ctx, "/registry/", r-1)
		check("watch", (<-w.Events())[0].KeyValue, nil, stale)
		cancel()
		for range w.Events() {
		}
	}
	all(true)
	if r, err = s.Update(t.Context(), key, []byte("x"), r, 0); err != nil {
		t.Fatal(err)
	}
	all(false)
	s = NewStore(below, load(t, second).Transformers(), byPrefix)
	all(false)
}

// TestUnreadable: a value that can't be decrypted, or is another key's, spoils no read of others; one that nothing
// encrypts is left alone.
func TestUnreadable(t *testing.T) {
	below := inMemory(t)
	s := NewStore(below, load(t, first).Transformers(), byPrefix)
	at, err := s.Create(t.Context(), "/registry/secrets/a/good", []byte("x"), 0)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := below.Get(t.Context(), "/registry/secrets/a/good")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"moved": string(sealed.Value), "other-key": "k8s:enc:aesgcm:v1:other:abc", "open": "plain",
		"short": "k8s:enc:aesgcm:v1:one:",
	} {
		if _, err := below.Create(t.Context(), "/registry/secrets/a/"+name, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.List(t.Context(), storage.Range{Prefix: "/registry/secrets/"})
	if err != nil || len(page.Items) != 5 {
		t.Fatalf("got %d, %v", len(page.Items), err)
	}
	for _, kv := range page.Items {
		if good := kv.Revision == at; good != (kv.Unreadable == nil) || good != (len(kv.Value) > 0) {
			t.Errorf("%s: got %q, %v", kv.Key, kv.Value, kv.Unreadable)
		}
	}
	if _, err := s.Create(t.Context(), "/registry/ranges/x", []byte("open"), 0); err != nil {
		t.Fatal(err)
	}
	if kv, err := below.Get(t.Context(), "/registry/ranges/x"); err != nil || string(kv.Value) != "open" {
		t.Errorf("what is of no resource lies there as %q, %v", kv.Value, err)
	}
}

// lined is a store whose watches have batches lying, as those of etcd may when their context ends.
type lined struct {
	storage.Store
	events chan []storage.Event
}

func (l lined) Watch(context.Context, string, int64) storage.Watcher { return l }
func (l lined) Events() <-chan []storage.Event                       { return l.events }
func (l lined) Err() error                                           { return nil }

// TestWatchEndsWithoutGap: a watch whose context ends may leave out the last events, but none in between.
func TestWatchEndsWithoutGap(t *testing.T) {
	const batches = 64
	below := lined{events: make(chan []storage.Event, batches)}
	for i := range batches {
		below.events <- []storage.Event{
			{Type: storage.Delete, KeyValue: storage.KeyValue{Key: "/registry/pods/a", Revision: int64(i + 1)}}}
	}
	close(below.events)
	ctx, cancel := context.WithCancel(t.Context())
	w := NewStore(below, load(t, first).Transformers(), byPrefix).Watch(ctx, "/registry/", 0)
	seen := int64(0)
	for batch := range w.Events() {
		if seen++; batch[0].Revision != seen {
			t.Fatalf("revision %d follows %d", batch[0].Revision, seen-1)
		}
		if seen == 2 {
			cancel()
		}
	}
	cancel()
}

// hanging is a transformer that answers only after its callers have given up, if at all.
type hanging struct{ value.Transformer }

func (h hanging) TransformerForResource(schema.GroupResource) value.Transformer { return h }

func (hanging) TransformFromStorage(ctx context.Context, _ []byte, _ value.Context) ([]byte, bool, error) {
	if _, bounded := ctx.Deadline(); bounded {
		return nil, false, context.DeadlineExceeded
	}
	return nil, false, errors.New("he is waited for without end")
}

// TestHangingKeeper: events wait for who keeps the keys only so long.
func TestHangingKeeper(t *testing.T) {
	below := inMemory(t)
	if _, err := below.Create(t.Context(), "/registry/secrets/a/b", []byte("x"), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := NewStore(below, hanging{}, byPrefix).Watch(ctx, "/registry/", 1)
	if got := <-w.Events(); len(got) != 1 || !errors.Is(got[0].Unreadable, context.DeadlineExceeded) {
		t.Errorf("got %+v", got)
	}
	cancel()
	for range w.Events() {
	}
}

// keeper is asked for the key of each value, as the client of a key management service does it, but for those that are
// known.
type keeper struct {
	value.Transformer
	takes time.Duration
}

func (k keeper) TransformerForResource(schema.GroupResource) value.Transformer { return k }

func (k keeper) TransformFromStorage(ctx context.Context, sealed []byte, _ value.Context) ([]byte, bool, error) {
	if string(sealed) == "known" {
		return sealed, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	select {
	case <-time.After(k.takes):
		return sealed, false, nil
	case <-ctx.Done():
		return nil, false, fmt.Errorf("failed to decrypt DEK, error: %w", status.FromContextError(ctx.Err()).Err())
	}
}

// TestSlowKeeper: one who answers in his time is waited for, with each value; one who is late holds up a batch only
// once, and the next again.
func TestSlowKeeper(t *testing.T) {
	for _, c := range []struct{ takes, batch time.Duration }{{2 * time.Second, 8 * time.Second},
		{time.Hour, 3 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			below := lined{events: make(chan []storage.Event, 2)}
			for range cap(below.events) {
				var batch []storage.Event
				for _, v := range []string{"a", "known", "b", "", "c", "known", "d"} {
					e := storage.Event{Type: storage.Put,
						KeyValue: storage.KeyValue{Key: "/registry/secrets/a/b", Value: []byte(v)}}
					if v == "" {
						e.Type = storage.Delete
					}
					batch = append(batch, e)
				}
				below.events <- batch
			}
			close(below.events)
			began := time.Now()
			for batch := range NewStore(below, keeper{takes: c.takes}, byPrefix).Watch(t.Context(), "/registry/",
				0).Events() {
				if took := time.Since(began); took != c.batch {
					t.Errorf("one who takes %v holds up a batch for %v", c.takes, took)
				}
				began = time.Now()
				for i, e := range batch {
					if readable := c.takes < time.Minute || i%2 == 1; readable != (e.Unreadable == nil) {
						t.Errorf("value %d of one who takes %v: %q, %v", i, c.takes, e.Value, e.Unreadable)
					}
				}
			}
		})
	}
}

// TestEncrypted: it is known of which resources values lie encrypted, once one was found or written.
func TestEncrypted(t *testing.T) {
	secrets, maps := schema.GroupResource{Resource: "secrets"}, schema.GroupResource{Resource: "configmaps"}
	keys := load(t, head+"- resources: [secrets]\n  providers: [{aesgcm: {keys: [{name: one, secret: "+key1+"}]}}]\n")
	below := inMemory(t)
	s := NewStore(below, keys.Transformers(), byPrefix)
	want := func(when string, encrypted bool) {
		t.Helper()
		if s.Encrypted(secrets) != encrypted || s.Encrypted(maps) {
			t.Errorf("%s: secrets are encrypted: %v, and configmaps: %v", when, s.Encrypted(secrets), s.Encrypted(maps))
		}
	}
	want("at first", false)
	for _, key := range []string{"/registry/configmaps/a/x", "/registry/secrets/a/x"} {
		if _, err := s.Create(t.Context(), key, []byte("plain"), 0); err != nil {
			t.Fatal(err)
		}
		want("having written "+key, strings.Contains(key, "secrets"))
	}
	s = NewStore(below, keys.Transformers(), byPrefix)
	want("by another one", false)
	if _, err := s.List(t.Context(), storage.Range{Prefix: "/registry/"}); err != nil {
		t.Fatal(err)
	}
	want("having read", true)
}
