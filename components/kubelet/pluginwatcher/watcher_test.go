package pluginwatcher

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/clock"
)

// registration is a plug-in's end of its registration.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	info registerapi.PluginInfo

	mu       sync.Mutex
	statuses []*registerapi.RegistrationStatus
}

func (r *registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{Type: r.info.Type, Name: r.info.Name, Endpoint: r.info.Endpoint,
		SupportedVersions: r.info.SupportedVersions}, nil
}

func (r *registration) NotifyRegistrationStatus(_ context.Context,
	status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statuses = append(r.statuses, status)
	return &registerapi.RegistrationStatusResponse{}, nil
}

func (r *registration) last() *registerapi.RegistrationStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.statuses) == 0 {
		return nil
	}
	return r.statuses[len(r.statuses)-1]
}

// handler notes what it is told.
type handler struct {
	mu         sync.Mutex
	registered map[string]Plugin
	refuse     error
}

func (h *handler) Register(_ context.Context, p Plugin) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.refuse == nil {
		h.registered[p.Name] = p
	}
	return h.refuse
}

func (h *handler) Deregister(_ context.Context, p Plugin) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.registered, p.Name)
}

func (h *handler) has(name string) (Plugin, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.registered[name]
	return p, ok
}

func (h *handler) setRefusal(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refuse = err
}

// serve makes a socket of a plug-in and returns what removes it.
func serve(t *testing.T, path string, r *registration) func() {
	t.Helper()
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	registerapi.RegisterRegistrationServer(server, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	stop := sync.OnceFunc(func() {
		server.Stop() // which removes the socket
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func start(t *testing.T) (string, *handler) {
	t.Helper()
	base, err := os.MkdirTemp("", "reg") // short: the path of a socket is
	if err != nil {
		t.Fatal(err)
	}
	h := &handler{registered: map[string]Plugin{}}
	w := &Watcher{Dir: filepath.Join(base, "r"), Handlers: map[string]Handler{"CSIPlugin": h}, Clock: clock.RealClock{}}
	if err := os.MkdirAll(w.Dir, 0o750); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = os.RemoveAll(base)
	})
	return w.Dir, h
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out: %s", what)
		}
	}
}

func TestPluginsComeAndGo(t *testing.T) {
	dir, h := start(t)
	r := &registration{info: registerapi.PluginInfo{Type: "CSIPlugin", Name: "d", Endpoint: "/e",
		SupportedVersions: []string{"1.0.0"}}}
	path := filepath.Join(dir, "d.sock")
	for range 2 { // it may come again
		stop := serve(t, path, r)
		eventually(t, "the plug-in is told that it is registered", func() bool {
			return r.last() != nil && r.last().PluginRegistered
		})
		if p, ok := h.has("d"); !ok || p.Endpoint != "/e" || p.Versions[0] != "1.0.0" {
			t.Errorf("registered: %v, %+v", ok, p)
		}
		stop()
		eventually(t, "it is deregistered", func() bool { _, ok := h.has("d"); return !ok })
		r.mu.Lock()
		r.statuses = nil
		r.mu.Unlock()
	}
}

func TestRefusals(t *testing.T) {
	dir, h := start(t)
	h.setRefusal(errors.New("not now"))
	strange := &registration{info: registerapi.PluginInfo{Type: "StrangePlugin", Name: "s"}}
	refused := &registration{info: registerapi.PluginInfo{Type: "CSIPlugin", Name: "d"}}
	serve(t, filepath.Join(dir, "s"), strange)
	path := filepath.Join(dir, "d")
	serve(t, path, refused)
	for r, want := range map[*registration]string{
		strange: "no handler registered for plugin type: StrangePlugin at socket " + filepath.Join(dir, "s"),
		refused: "not now",
	} {
		eventually(t, "the plug-in is told why it is not registered", func() bool { return r.last() != nil })
		if got := r.last(); got.PluginRegistered || got.Error != want {
			t.Errorf("told %+v, want %q", got, want)
		}
	}
	h.setRefusal(nil)
	eventually(t, "it is tried again", func() bool { p, ok := h.has("d"); return ok && p.Endpoint == path })
}
