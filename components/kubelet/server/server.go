// Package server is the kubelet's API: logs, exec, attach, port-forward, health, pods, metrics and statistics.
// Everything but the protocol is asked of the engine.
package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/kubelet/cgroups"
	"quintet.dev/quintet/components/kubelet/metrics"
	"quintet.dev/quintet/components/kubelet/runtime"
	"quintet.dev/quintet/components/kubelet/volumes"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/profiles"
	"quintet.dev/quintet/internal/zpages"
)

// Pods are those of the node, with their present status.
type Pods interface {
	List() []*v1.Pod
	Find(namespace, name string) *v1.Pod
}

// Config holds the dependencies of a server and its authentication and authorization settings.
type Config struct {
	Pods     Pods
	Engine   runtime.Engine
	Volumes  Volumes // nil for engines that simulate files
	Clock    clock.PassiveClock
	NodeName string
	// Guard authenticates and authorizes requests.
	Guard *Guard
	// Debug serves logs, exec, attach and port-forward.
	Debug bool
	// LogDir is where the machine's logs are, which are served with the rest of Debug; "" serves none.
	LogDir      string
	IdleTimeout time.Duration
	// Metrics are answered, and take in the requests; nil: neither.
	Metrics *metrics.Metrics
	// Machine measures what the whole node uses.
	Machine func(ctx context.Context) (runtime.Usage, error)
	// Swap tells what a container of a pod has swapped; nil where there are no control groups to ask.
	Swap func(pod *v1.Pod, id string) cgroups.SwapUsage
	// Disk tells how full the disk of the node's pods is; nil for engines that simulate files.
	Disk func() (volumes.Usage, error)
	// System is what the machine tells of itself; nil for engines that simulate it.
	System func(now time.Time) System
	// Configuration is what /configz shows, with the rest of Debug; nil shows none.
	Configuration *kubeletconfig.KubeletConfiguration
	// Health are the checks of /healthz beside that it answers.
	Health []health.Check
	// Program is what /statusz and /flagz tell of; nil serves neither. New sets its paths.
	Program *zpages.Program
}

// Server serves the kubelet's API.
type Server struct {
	Config
	handler http.Handler
	rates   rates
	disks   disks
}

// New makes a server.
func New(config Config) *Server {
	s := &Server{Config: config}
	mux := http.NewServeMux()
	addHealth(mux, config.Health)
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/{$}", s.pods)
	mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	mux.HandleFunc("GET /stats/summary", s.summary)
	mux.HandleFunc("GET /metrics/resource", s.resourceMetrics)
	mux.HandleFunc("GET /metrics/cadvisor", s.cadvisorMetrics)
	if config.Metrics != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(config.Metrics.Registry, promhttp.HandlerOpts{}))
		mux.Handle("GET /metrics/probes", promhttp.HandlerFor(config.Metrics.Probes, promhttp.HandlerOpts{}))
	}
	if config.Debug {
		mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", s.checkpoint)
		mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.logs)
		for _, method := range []string{"GET", "POST"} {
			mux.HandleFunc(method+" /exec/{namespace}/{pod}/{container}", s.exec)
			mux.HandleFunc(method+" /exec/{namespace}/{pod}/{uid}/{container}", s.exec)
			mux.HandleFunc(method+" /attach/{namespace}/{pod}/{container}", s.attach)
			mux.HandleFunc(method+" /attach/{namespace}/{pod}/{uid}/{container}", s.attach)
			mux.HandleFunc(method+" /portForward/{namespace}/{pod}", s.portForward)
			mux.HandleFunc(method+" /portForward/{namespace}/{pod}/{uid}", s.portForward)
		}
		if config.LogDir != "" {
			mux.Handle("GET /logs/", http.StripPrefix("/logs/", http.FileServer(http.Dir(config.LogDir))))
		}
		if config.Configuration != nil {
			mux.HandleFunc("GET /configz", s.configz)
		}
		for path, handler := range profiles.Handlers() {
			mux.Handle(path, handler)
		}
		mux.HandleFunc("POST /run/{namespace}/{pod}/{container}", s.run)
		mux.HandleFunc("POST /run/{namespace}/{pod}/{uid}/{container}", s.run)
	}
	s.addPages(mux)
	s.handler = s.observed(config.Guard.protect(mux))
	return s
}

// addPages serves the debugging pages of the program.
func (s *Server) addPages(mux *http.ServeMux) {
	p := s.Program
	if p == nil {
		return
	}
	paths := []string{"/healthz", "/pods", "/runningpods", "/stats", "/metrics", zpages.StatusPath}
	if s.Debug {
		paths = append(paths, "/containerLogs", "/exec", "/attach", "/portForward", "/run", "/checkpoint", "/debug")
	}
	if s.Debug && s.Configuration != nil {
		paths = append(paths, "/configz")
	}
	if s.Debug && s.LogDir != "" {
		paths = append(paths, "/logs")
	}
	mux.Handle(zpages.StatusPath, p.Status())
	if p.Flags != nil {
		paths = append(paths, zpages.FlagsPath)
		mux.Handle(zpages.FlagsPath, p.CommandLine())
	}
	p.Paths = func() []string { return paths }
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Run serves on listener, which it closes, until ctx ends; streams end with it.
func (s *Server) Run(ctx context.Context, listener net.Listener, tlsConfig *tls.Config) error {
	server := &http.Server{
		Handler: s, TLSConfig: tlsConfig, ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:    log.New(silent{}, "", 0), // handshakes that fail are the client's affair
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

type silent struct{}

func (silent) Write(p []byte) (int, error) { return len(p), nil }

func (s *Server) pods(w http.ResponseWriter, _ *http.Request) {
	writePods(w, s.Pods.List())
}

func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, map[string]any{"kubeletconfig": s.Configuration})
}

func (s *Server) runningPods(w http.ResponseWriter, _ *http.Request) {
	var running []*v1.Pod
	for _, pod := range s.Pods.List() {
		if pod.Status.Phase == v1.PodRunning {
			running = append(running, pod)
		}
	}
	writePods(w, running)
}

func writePods(w http.ResponseWriter, pods []*v1.Pod) {
	list := v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items: make([]v1.Pod, 0, len(pods))}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	writeJSON(w, list)
}

func writeJSON(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // a client that went away is no error of ours
}
