package services

import (
	"context"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// metrics of what is taken, under upstream's names.
type metrics struct {
	allocator *Allocator

	ips, ipErrors     *prometheus.CounterVec
	duration          *prometheus.HistogramVec
	ports, portErrors *prometheus.CounterVec
	portRepairs       *prometheus.CounterVec
	repairErrors      prometheus.Counter
}

// The two ways in which something is taken: that which was asked for, or any.
const (
	static  = "static"
	dynamic = "dynamic"
)

var (
	ipsTaken = prometheus.NewDesc("kube_apiserver_clusterip_allocator_allocated_ips",
		"Cluster IPs that are taken, by range.", []string{"cidr"}, nil)
	ipsFree = prometheus.NewDesc("kube_apiserver_clusterip_allocator_available_ips",
		"Cluster IPs that are free, by range.", []string{"cidr"}, nil)
	portsTaken = prometheus.NewDesc("kube_apiserver_nodeport_allocator_allocated_ports", "Node ports that are taken.",
		nil, nil)
	portsFree = prometheus.NewDesc("kube_apiserver_nodeport_allocator_available_ports", "Node ports that are free.",
		nil, nil)
)

// Metrics returns a collector of the allocator's operations, and of what is allocated at the moment of the scrape.
func (a *Allocator) Metrics() prometheus.Collector { return a.metrics }

func newMetrics(a *Allocator) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kube_apiserver_" + name, Help: help}, labels)
	}
	return &metrics{
		allocator: a,
		ips:       counter("clusterip_allocator_allocation_total", "Cluster IPs that were given.", "cidr", "scope"),
		ipErrors: counter("clusterip_allocator_allocation_errors_total", "Cluster IPs that could not be given.",
			"cidr", "scope"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
			Help: "Time that giving a cluster IP took.", Buckets: prometheus.DefBuckets,
		}, []string{"cidr"}),
		ports: counter("nodeport_allocator_allocation_total", "Node ports that were given.", "scope"),
		portErrors: counter("nodeport_allocator_allocation_errors_total", "Node ports that could not be given.",
			"scope"),
		portRepairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_nodeport_repair_port_errors_total",
			Help: "Node ports that repairs found not to be in order, by what was wrong.",
		}, []string{"type"}),
		repairErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "apiserver_nodeport_repair_reconcile_errors_total", Help: "Repairs of node ports that failed.",
		}),
	}
}

// tookIP notes an address of a range that was, or was not, given.
func (m *metrics) tookIP(in netip.Prefix, scope string, start time.Time, err error) {
	if err != nil {
		m.ipErrors.WithLabelValues(in.String(), scope).Inc()
		return
	}
	m.duration.WithLabelValues(in.String()).Observe(time.Since(start).Seconds())
	m.ips.WithLabelValues(in.String(), scope).Inc()
}

// tookPorts notes ports that were, or were not, given.
func (m *metrics) tookPorts(requests []*request, err error) {
	for _, r := range requests {
		scope := dynamic
		if r.want != 0 {
			scope = static
		}
		if err != nil {
			m.portErrors.WithLabelValues(scope).Inc()
			return // the rest was not tried
		}
		m.ports.WithLabelValues(scope).Inc()
	}
}

func (m *metrics) parts() []prometheus.Collector {
	return []prometheus.Collector{m.ips, m.ipErrors, m.duration, m.ports, m.portErrors, m.portRepairs, m.repairErrors}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{ipsTaken, ipsFree, portsTaken, portsFree} {
		ch <- d
	}
	for _, p := range m.parts() {
		p.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.parts() {
		p.Collect(ch)
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	a := m.allocator
	if list, err := a.Objects.List(ctx, ipAddresses, ""); err == nil {
		for _, family := range a.configured() {
			for _, r := range a.addresses.ranges(ctx, family) {
				m.count(ch, r, list)
			}
		}
	}
	if bits, err := a.ports.ranges.Get(ctx); err == nil {
		taken := 0
		for i := range a.ports.size {
			taken += int(bits.Bit(i))
		}
		ch <- prometheus.MustNewConstMetric(portsTaken, prometheus.GaugeValue, float64(taken))
		ch <- prometheus.MustNewConstMetric(portsFree, prometheus.GaugeValue, float64(a.ports.size-taken))
	}
}

// collectTimeout bounds the question what is taken.
const collectTimeout = 2 * time.Second

func (m *metrics) count(ch chan<- prometheus.Metric, in netip.Prefix, list []api.Object) {
	taken := uint64(0)
	for _, o := range list {
		if ip, err := netip.ParseAddr(o.GetName()); err == nil && in.Contains(ip) {
			taken++
		}
	}
	ch <- prometheus.MustNewConstMetric(ipsTaken, prometheus.GaugeValue, float64(taken), in.String())
	ch <- prometheus.MustNewConstMetric(ipsFree, prometheus.GaugeValue, float64(hosts(in)-min(taken, hosts(in))),
		in.String())
}
