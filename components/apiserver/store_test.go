package apiserver_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/components/apiserver/storage"
	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

func onEtcdAt(endpoint string) func(*options.Config) {
	return func(c *options.Config) { c.Storage, c.EtcdServers = options.StorageEtcd, []string{endpoint} }
}

const configMaps = "/api/v1/namespaces/default/configmaps"

// TestStoreIsFull: an etcd without space refuses writes, of which clients are told in its words; reads and deletions go
// on, and writes too when there is space again.
func TestStoreIsFull(t *testing.T) {
	e := etcdtest.Run(t, func(c *embed.Config) { c.QuotaBackendBytes = 6 << 20 })
	f := start(t, onEtcdAt(etcdtest.Endpoint(e)), withSigningKey(t))
	create := func(name string, bytes int) (int, string) {
		body := fmt.Sprintf(`{"metadata":{"name":%q},"data":{"a":%q}}`, name, strings.Repeat("x", bytes))
		resp, text := f.with(t, "POST", configMaps, body, "Content-Type", "application/json")
		return resp.StatusCode, text
	}
	n, code, text := 0, 201, ""
	for code == 201 && n < 20 {
		code, text = create(fmt.Sprint("large-", n), 900<<10)
		n++
	}
	const want = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"etcdserver: mvcc: database space exceeded","code":500}`
	if code != 500 || strings.TrimSpace(text) != want {
		t.Fatalf("after %d: %d %.300s", n, code, text)
	}
	if code, text := create("small", 1); code != 500 || strings.TrimSpace(text) != want {
		t.Errorf("a small one: %d %s", code, text)
	}
	calls := []struct{ method, path string }{{"GET", configMaps + "/large-0"}, {"GET", "/readyz"}}
	for i := range n - 1 { // the last one was refused
		calls = append(calls, struct{ method, path string }{"DELETE", fmt.Sprint(configMaps, "/large-", i)})
	}
	for _, c := range calls {
		if resp, text := f.with(t, c.method, c.path, ""); resp.StatusCode != 200 {
			t.Errorf("%s %s: %d %.300s", c.method, c.path, resp.StatusCode, text)
		}
	}
	makeSpace(t, e)
	if code, text := create("small", 1); code != 201 {
		t.Errorf("with space again: %d %s", code, text)
	}
}

// silent is a store that can stop to answer.
type silent struct {
	storage.Store
	// quiet is closed when it answers again; nil while it does.
	quiet atomic.Pointer[chan struct{}]
}

func (s *silent) answers(ctx context.Context) error {
	quiet := s.quiet.Load()
	if quiet == nil {
		return nil
	}
	select {
	case <-*quiet:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *silent) Revision(ctx context.Context) (int64, error) {
	if err := s.answers(ctx); err != nil {
		return 0, err
	}
	return s.Store.Revision(ctx)
}

func (s *silent) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (int64, error) {
	if err := s.answers(ctx); err != nil {
		return 0, err
	}
	return s.Store.Create(ctx, key, value, ttl)
}

// TestStoreIsSilent: who asks while the store doesn't answer waits as long as the request may last, is told so then,
// and is answered if the store comes back before. What is at hand is served meanwhile.
func TestStoreIsSilent(t *testing.T) {
	store := &silent{Store: memory.New(nil)}
	t.Cleanup(func() { _ = store.Close() })
	f := start(t, func(c *options.Config) { c.Store = store }, withSigningKey(t))
	voice := make(chan struct{})
	store.quiet.Store(&voice)
	const timeout = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}`
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", configMaps + "/kube-root-ca.crt?timeout=500ms", "", 504, timeout},
		{"GET", configMaps + "?timeout=500ms", "", 504, timeout},
		{"POST", configMaps + "?timeout=500ms", `{"metadata":{"name":"a"}}`, 504, timeout},
		{"GET", configMaps + "?watch=1&timeoutSeconds=1", "", 200,
			`"message":"context deadline exceeded","reason":"InternalError","code":500`},
		{"GET", configMaps + "?resourceVersion=0", "", 200, "ConfigMapList"},
	} {
		resp, text := f.with(t, c.method, c.path, c.body, "Content-Type", "application/json")
		if resp.StatusCode != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s", c.method, c.path, resp.StatusCode, text)
		}
	}
	answered := make(chan int)
	go func() {
		resp, _ := f.with(t, "GET", configMaps, "")
		answered <- resp.StatusCode
	}()
	time.Sleep(50 * time.Millisecond)
	store.quiet.Store(nil)
	close(voice)
	if code := <-answered; code != 200 {
		t.Errorf("when it answers again: %d", code)
	}
}

// makeSpace does what administrators do about an alarm of etcd.
func makeSpace(t *testing.T, e *embed.Etcd) {
	t.Helper()
	now, err := e.Server.Range(t.Context(), &etcdserverpb.RangeRequest{Key: []byte("none")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Server.Compact(t.Context(),
		&etcdserverpb.CompactionRequest{Revision: now.Header.Revision, Physical: true}); err != nil {
		t.Fatal(err)
	}
	if err := e.Server.Backend().Defrag(); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Server.Alarm(t.Context(), &etcdserverpb.AlarmRequest{
		Action: etcdserverpb.AlarmRequest_DEACTIVATE, Alarm: etcdserverpb.AlarmType_NOSPACE,
		MemberID: uint64(e.Server.MemberID()),
	}); err != nil {
		t.Fatal(err)
	}
}

// link passes connections on, and can hold everything that goes through.
type link struct {
	net.Listener
	to   string
	open sync.RWMutex // held for writing while nothing passes
}

func linkTo(t *testing.T, endpoint string) *link {
	t.Helper()
	at, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: listener, to: at.Host}
	t.Cleanup(func() { _ = l.Close() })
	go l.run()
	return l
}

func (l *link) run() {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		pass := func(out, in net.Conn) {
			_, _ = io.Copy(held{out, l}, in)
			_ = out.Close()
			_ = in.Close()
		}
		go pass(to, from)
		go pass(from, to)
	}
}

// held waits with writes while the link is held.
type held struct {
	io.Writer
	link *link
}

func (h held) Write(p []byte) (int, error) {
	h.link.open.RLock()
	defer h.link.open.RUnlock()
	return h.Writer.Write(p)
}

// TestStoreStalls: requests that wait for an etcd that doesn't answer end when their time is over, in upstream's words.
// What needs no answer is served meanwhile, and all is when it answers again.
func TestStoreStalls(t *testing.T) {
	l := linkTo(t, etcdtest.Start(t))
	f := start(t, onEtcdAt("http://"+l.Addr().String()), withSigningKey(t), func(c *options.Config) {
		c.EtcdHealthTimeout, c.EtcdReadyTimeout = 50*time.Millisecond, 50*time.Millisecond
	})
	json := []string{"Content-Type", "application/json"}
	if resp, text := f.with(t, "POST", configMaps, `{"metadata":{"name":"a"}}`, json...); resp.StatusCode != 201 {
		t.Fatal(text)
	}
	if resp, text := f.with(t, "GET", configMaps+"/a", ""); resp.StatusCode != 200 { // it is in memory then
		t.Fatal(text)
	}
	l.open.Lock()
	const want = `{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}` + "\n"
	for _, c := range []struct{ method, path, body string }{
		{"POST", configMaps, `{"metadata":{"name":"b"}}`}, {"GET", configMaps + "/a", ""}, {"GET", configMaps, ""},
		{"DELETE", configMaps + "/a", ""},
		{"PUT", configMaps + "/a", `{"metadata":{"name":"a"},"data":{"x":"y"}}`},
	} {
		resp, text := f.with(t, c.method, c.path+"?timeout=200ms", c.body, json...)
		if resp.StatusCode != 504 || text != want || resp.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s %s: %d %s %v", c.method, c.path, resp.StatusCode, text, resp.Header)
		}
	}
	if resp, text := f.with(t, "GET", configMaps+"?resourceVersion=0", ""); resp.StatusCode != 200 ||
		!strings.Contains(text, `"name":"a"`) {
		t.Errorf("what may be old: %d %s", resp.StatusCode, text)
	}
	for _, path := range []string{"/readyz", "/livez"} {
		if resp, text := f.with(t, "GET", path, ""); resp.StatusCode != 500 ||
			!strings.Contains(text, "[-]etcd failed") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	l.open.Unlock()
	eventually(t, "the server serves again", func() bool {
		resp, _ := f.with(t, "POST", configMaps+"?timeout=2s", `{"metadata":{"name":"c"}}`, json...)
		return resp.StatusCode == 201 || resp.StatusCode == 409
	})
}
