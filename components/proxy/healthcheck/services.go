package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// Service is what the health check node port of a Service answers.
type Service struct {
	Port           uint16
	LocalEndpoints int // ready ones on this node
}

// Services has a server for the health check node port of each Service. Its methods may be called concurrently.
type Services struct {
	addresses []netip.Addr
	healthy   func() bool

	mu   sync.Mutex
	open map[types.NamespacedName]*serviceServer
}

// NewServices returns a Services that listens on the addresses and calls healthy for the health of kube-proxy.
func NewServices(addresses []netip.Addr, healthy func() bool) *Services {
	return &Services{addresses: addresses, healthy: healthy, open: map[types.NamespacedName]*serviceServer{}}
}

// NodeAddresses are the addresses to listen on: those of the node within nodePortAddresses. They are the unspecified
// address if nodePortAddresses is empty, covers a whole family or has none of the node's.
func NodeAddresses(nodePortAddresses []netip.Prefix, ofNode []netip.Addr) []netip.Addr {
	all := []netip.Addr{netip.IPv4Unspecified()} // Go listens on both families there
	if slices.ContainsFunc(nodePortAddresses, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		return all
	}
	var within []netip.Addr
	for _, ip := range ofNode {
		if slices.ContainsFunc(nodePortAddresses, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			within = append(within, ip)
		}
	}
	if len(within) == 0 {
		return all
	}
	return within
}

// Sync opens and closes servers until there is one for each Service given, and sets what they answer. The servers that
// cannot be opened are in the error; the next call tries them again.
func (s *Services) Sync(ctx context.Context, services map[types.NamespacedName]Service) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for name, server := range s.open {
		if services[name].Port != server.port {
			errs = append(errs, server.close())
			delete(s.open, name)
		}
	}
	for name, service := range services {
		if service.Port == 0 {
			continue
		}
		server := s.open[name]
		if server == nil {
			server = &serviceServer{name: name, port: service.Port, healthy: s.healthy}
		}
		server.endpoints.Store(int64(service.LocalEndpoints))
		if s.open[name] != nil {
			continue
		}
		if err := server.listen(ctx, s.addresses); err != nil {
			errs = append(errs, fmt.Errorf("health check node port %d of Service %s: %w", service.Port, name, err))
			continue
		}
		s.open[name] = server
	}
	return errors.Join(errs...)
}

// Close closes all servers and waits for them.
func (s *Services) Close() error { return s.Sync(context.Background(), nil) }

// serviceServer answers for one Service. Its handler takes no lock, so that closing it may wait for the handler.
type serviceServer struct {
	name      types.NamespacedName
	port      uint16
	healthy   func() bool
	endpoints atomic.Int64
	servers   []*server
}

func (s *serviceServer) listen(ctx context.Context, addresses []netip.Addr) error {
	var config net.ListenConfig
	for _, ip := range addresses {
		listener, err := config.Listen(ctx, "tcp", netip.AddrPortFrom(ip, s.port).String())
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.servers = append(s.servers, startServer(klog.FromContext(ctx), listener, s))
	}
	return nil
}

func (s *serviceServer) close() error {
	var errs []error
	for _, server := range s.servers {
		errs = append(errs, server.close())
	}
	return errors.Join(errs...)
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

type serviceStatus struct {
	Service             serviceName `json:"service"`
	LocalEndpoints      int64       `json:"localEndpoints"`
	ServiceProxyHealthy bool        `json:"serviceProxyHealthy"`
}

// ServeHTTP implements http.Handler.
func (s *serviceServer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	status := serviceStatus{
		Service:        serviceName{Namespace: s.name.Namespace, Name: s.name.Name},
		LocalEndpoints: s.endpoints.Load(), ServiceProxyHealthy: s.healthy(),
	}
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(status.LocalEndpoints, 10))
	writeJSON(w, status.LocalEndpoints != 0 && status.ServiceProxyHealthy, indentedJSON(status))
}
