package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/internal/alike"
	"quintet.dev/quintet/internal/certs"
	"quintet.dev/quintet/internal/delegated"
	"quintet.dev/quintet/internal/diagnostics"
	"quintet.dev/quintet/internal/health"
	"quintet.dev/quintet/internal/informer"
	"quintet.dev/quintet/internal/kubeconfig"
	"quintet.dev/quintet/internal/leader"
	"quintet.dev/quintet/internal/zpages"
)

// Manager runs controllers.
type Manager struct {
	config   Config
	registry registry
	serving  certs.GetFunc // nil for a self-signed certificate
	requests *requests
	leading  *prometheus.GaugeVec // leader_election_master_status, by lease
	managed  *prometheus.GaugeVec // running_managed_controllers, by name and manager
	mu       sync.Mutex
	pings    []health.Check // of the controllers that run
}

// registry is where metrics are registered, and read.
type registry interface {
	prometheus.Registerer
	prometheus.Gatherer
}

// New checks c and makes a manager from it.
func New(c Config) (*Manager, error) {
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	serving, err := c.Serving.Certificates(managerName, c.Clock)
	if err != nil {
		return nil, err
	}
	if c.LeaderElection.Elect {
		c.LeaderElection.Watchdog = leader.NewWatchdog()
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m := &Manager{config: c, registry: metrics, serving: serving, requests: newRequests(metrics, c.Clock)}
	return m, m.tellOfItself()
}

// Run works until ctx ends, and returns after everything it started has ended. It may be called once.
func (m *Manager) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	if m.config.SecurePort != 0 || m.config.Listener != nil {
		server, err := m.diagnostics(ctx)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Run(ctx) })
	}
	group.Go(func() error { return m.elect(ctx) })
	return group.Wait()
}

func (m *Manager) diagnostics(ctx context.Context) (*diagnostics.Server, error) {
	c := &m.config
	gate, err := delegated.New(ctx, c.Access, c.Clock)
	if err != nil {
		return nil, err
	}
	var elected []health.Check
	if watchdog := c.LeaderElection.Watchdog; watchdog != nil {
		elected = []health.Check{{Name: watchdog.Name(), Probe: watchdog.Check}}
	}
	server := &diagnostics.Server{Gate: gate, Metrics: m.registry, Health: elected, Certificate: m.serving,
		Serving: c.Serving, Profiling: c.Profiling,
		Configuration: map[string]any{configz: c.configuration()}, Later: m.running, Listener: c.Listener,
		Program: m.program()}
	if server.Listener != nil {
		return server, nil
	}
	if server.Listener, err = c.Serving.Sharing.Listen(
		net.JoinHostPort(c.BindAddress, strconv.Itoa(c.SecurePort))); err != nil {
		return nil, fmt.Errorf("--secure-port: %w", err)
	}
	return server, nil
}

// program is what /statusz tells of, and /flagz if its gate is on.
func (m *Manager) program() *zpages.Program {
	flags := m.config.CommandLine
	if !m.config.on(flagz) {
		flags = nil
	}
	return zpages.New(managerName, m.config.Clock.Now, flags)
}

// running are checks of the controllers that run here, which is all that they tell.
func (m *Manager) running() []health.Check {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.pings)
}

// elect waits until this manager is the leader. A manager that loses the lease exits, as its state is stale.
func (m *Manager) elect(ctx context.Context) error {
	root, err := m.config.rest()
	if err != nil {
		return err
	}
	root.Wrap(m.requests.measure)
	name := m.config.LeaderElection.ResourceName
	lead := func(ctx context.Context) error {
		m.leading.WithLabelValues(name).Set(1)
		defer m.leading.WithLabelValues(name).Set(0)
		return m.lead(ctx, root)
	}
	config := kubeconfig.AddUserAgent(rest.CopyConfig(root), program, "leader-election")
	config.Timeout = m.config.LeaderElection.RenewDeadline // a renewal that hangs must not outlast the lease
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if !awaitServer(ctx, client) {
		return nil
	}
	return leader.Run(ctx, m.config.LeaderElection, client, "", lead)
}

// awaitServer waits until the API server says that it is ready, and tells false if ctx ended before: elections and
// informers that fail once pause for seconds.
func awaitServer(ctx context.Context, client kubernetes.Interface) bool {
	const pause = 20 * time.Millisecond
	for {
		err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		if err == nil || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) {
			return true // one that answers so is up
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
	}
}

// host is what all controllers of one run share.
type host struct {
	config    *Config
	clients   *clients
	informers informers.SharedInformerFactory
	events    record.EventBroadcaster
	metrics   workqueue.MetricsProvider
	registry  prometheus.Registerer
}

// lead runs the controllers until ctx ends or one of them fails.
func (m *Manager) lead(ctx context.Context, root *rest.Config) error {
	h, err := m.host(ctx, root)
	if err != nil {
		return err
	}
	defer h.events.Shutdown()
	entries, err := m.config.enabled()
	if err != nil {
		return err
	}
	migration, err := m.config.Migration.load()
	if err != nil {
		return err
	}
	own, moved := migration.split(entries)
	group, ctx := errgroup.WithContext(ctx)
	start := func() { h.informers.StartWithContext(ctx) }
	group.Go(func() error { return m.work(ctx, h, own, start) })
	if migration != nil {
		election := m.config.LeaderElection
		election.ResourceName, election.Watchdog = migration.lease, nil
		group.Go(func() error {
			return leader.Run(ctx, election, h.clients.client, "",
				func(ctx context.Context) error {
					m.leading.WithLabelValues(migration.lease).Set(1)
					defer m.leading.WithLabelValues(migration.lease).Set(0)
					return m.work(ctx, h, moved, start)
				})
		})
	}
	err = group.Wait()
	h.informers.Shutdown()
	return err
}

// host makes what the controllers share; the caller ends its events.
func (m *Manager) host(ctx context.Context, root *rest.Config) (*host, error) {
	h := &host{config: &m.config, metrics: runner.NewMetrics(m.registry), registry: m.registry}
	var err error
	if h.clients, err = newClients(root, m.requests.measure, m.config.Clock,
		m.config.UseServiceAccountCredentials); err != nil {
		return nil, err
	}
	h.informers = informer.NewFactory(h.clients.client, m.config.MinResyncPeriod, new(alike.Pool).Transform)
	h.events = record.NewBroadcaster(record.WithContext(ctx))
	h.events.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: h.clients.client.CoreV1().Events("")})
	return h, nil
}

// work runs controllers until ctx ends or one of them fails; start starts the informers of those that were made.
func (m *Manager) work(ctx context.Context, h *host, entries []entry, start func()) error {
	controllers, err := h.controllers(ctx, entries)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(controllers))
	m.addPings(names)
	group, ctx := errgroup.WithContext(ctx)
	for i, name := range names {
		group.Go(func() error {
			if !pause(ctx, m.config.Clock, time.Duration(i)*m.config.ControllerStartInterval) {
				dismiss(map[string]runner.Controller{name: controllers[name]})
				return nil
			}
			running := m.managed.WithLabelValues(name, managerName)
			running.Set(1)
			defer running.Set(0)
			if err := controllers[name].Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	group.Go(func() error { // also without any controller the lease is held
		<-ctx.Done()
		return nil
	})
	start()
	return m.await(ctx, group.Wait)
}

// await returns wait's error, or one of its own if that takes longer than controllers may take after the end of ctx.
func (m *Manager) await(ctx context.Context, wait func() error) error {
	done := make(chan error, 1)
	go func() { done <- wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	// the machine's time: a clock that tests move may stand still
	timeout := time.NewTimer(m.config.ControllerShutdownTimeout)
	defer timeout.Stop()
	select {
	case err := <-done:
		return err
	case <-timeout.C:
		return fmt.Errorf("controllers did not end within --controller-shutdown-timeout %v",
			m.config.ControllerShutdownTimeout)
	}
}

// pause tells false if ctx ended meanwhile.
func pause(ctx context.Context, clock clock.WithTicker, length time.Duration) bool {
	if length <= 0 {
		return true
	}
	timer := clock.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

func (m *Manager) addPings(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		m.pings = append(m.pings, health.Check{Name: name, Probe: health.Ping().Probe})
	}
}

// controllers makes those of entries that are served and configured, by name.
func (h *host) controllers(ctx context.Context, entries []entry) (map[string]runner.Controller, error) {
	made := map[string]runner.Controller{}
	for _, e := range entries {
		controller, err := h.controller(ctx, e)
		if err != nil {
			dismiss(made)
			return nil, fmt.Errorf("%s: %w", e.name, err)
		}
		if controller != nil {
			made[e.name] = controller
		}
	}
	return made, nil
}

// controller returns nil, nil if there is nothing to do for e.
func (h *host) controller(ctx context.Context, e entry) (runner.Controller, error) {
	if served, err := h.served(ctx, e.needs); err != nil {
		return nil, err
	} else if !served {
		klog.FromContext(ctx).Info("Controller is left out: the API server doesn't serve its resource", "controller",
			e.name, "resource", e.needs)
		return nil, nil
	}
	client, err := kubernetes.NewForConfig(h.clients.config(e.account))
	if err != nil {
		return nil, err
	}
	recorder := h.events.NewRecorder(scheme.Scheme, v1.EventSource{Component: e.source})
	controller, err := e.make(h, runner.Env{
		Client:    client,
		Informers: h.informers,
		Events:    recorder.WithLogger(klog.FromContext(ctx)),
		Clock:     h.config.Clock,
		Metrics:   h.metrics,
		Registry:  h.registry,
		Workers:   e.workers(h.config),
	})
	if err == nil && controller == nil {
		klog.FromContext(ctx).Info("Controller has nothing to do as configured", "controller", e.name)
	}
	return controller, err
}

// dismiss ends controllers that were made in vain: running one is what cleans up after it.
func dismiss(made map[string]runner.Controller) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, controller := range made {
		_ = controller.Run(ctx) // says that it was cancelled
	}
}

// served tells whether the API server serves a resource, group/version/resource; it retries until it gets a response.
func (h *host) served(ctx context.Context, needs string) (bool, error) {
	if needs == "" {
		return true, nil
	}
	at := strings.LastIndex(needs, "/")
	groupVersion, resource := needs[:at], needs[at+1:]
	for {
		list, err := h.clients.client.Discovery().ServerResourcesForGroupVersion(groupVersion)
		switch {
		case err == nil:
			return slices.ContainsFunc(list.APIResources,
				func(r metav1.APIResource) bool { return r.Name == resource }), nil
		case apierrors.IsNotFound(err):
			return false, nil
		}
		klog.FromContext(ctx).V(2).Info("Resources not discovered, will be tried again", "groupVersion",
			groupVersion, "err", err)
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-h.config.Clock.After(time.Second):
		}
	}
}
