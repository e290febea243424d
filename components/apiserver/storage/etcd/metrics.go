package etcd

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// Metrics count the calls of etcd and what its leases hold, under upstream's names.
type Metrics struct {
	started, handled, received, sent *prometheus.CounterVec
	leaseKeys                        prometheus.Histogram
}

// NewMetrics registers the metrics; one of them is for all stores.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	labels := []string{"grpc_type", "grpc_service", "grpc_method"}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "grpc_client_" + name, Help: help},
			append(labels[:3:3], more...))
	}
	m := &Metrics{
		started:  counter("started_total", "Calls that were begun."),
		handled:  counter("handled_total", "Calls that have ended, by their code.", "grpc_code"),
		received: counter("msg_received_total", "Messages that came."),
		sent:     counter("msg_sent_total", "Messages that were sent."),
		leaseKeys: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "etcd_lease_object_counts", Help: "Keys that a lease was given to, when another takes its place.",
			Buckets: []float64{10, 50, 100, 500, 1000, 2500, 5000},
		}),
	}
	return m, errors.Join(registry.Register(m.started), registry.Register(m.handled), registry.Register(m.received),
		registry.Register(m.sent), registry.Register(m.leaseKeys))
}

// options make a client count.
func (m *Metrics) options() []grpc.DialOption {
	if m == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithChainUnaryInterceptor(m.unary), grpc.WithChainStreamInterceptor(m.stream)}
}

// names takes a method apart: /service/method.
func names(full string) (service, method string) {
	service, method, _ = strings.Cut(strings.TrimPrefix(full, "/"), "/")
	return service, method
}

func (m *Metrics) unary(ctx context.Context, full string, request, reply any, conn *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	service, method := names(full)
	const kind = "unary"
	m.started.WithLabelValues(kind, service, method).Inc()
	m.sent.WithLabelValues(kind, service, method).Inc()
	err := call(ctx, full, request, reply, conn, opts...)
	if err == nil {
		m.received.WithLabelValues(kind, service, method).Inc()
	}
	m.handled.WithLabelValues(kind, service, method, status.Code(err).String()).Inc()
	return err
}

func (m *Metrics) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, full string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	service, method := names(full)
	kind := "bidi_stream"
	switch {
	case !desc.ClientStreams:
		kind = "server_stream"
	case !desc.ServerStreams:
		kind = "client_stream"
	}
	m.started.WithLabelValues(kind, service, method).Inc()
	s, err := open(ctx, desc, conn, full, opts...)
	if err != nil {
		m.handled.WithLabelValues(kind, service, method, status.Code(err).String()).Inc()
		return nil, err
	}
	return &countedStream{ClientStream: s, sent: m.sent.WithLabelValues(kind, service, method),
		received: m.received.WithLabelValues(kind, service, method),
		ended:    func(code string) { m.handled.WithLabelValues(kind, service, method, code).Inc() }}, nil
}

// countedStream counts its messages; the receiver sees its end.
type countedStream struct {
	grpc.ClientStream
	sent, received prometheus.Counter
	ended          func(code string)
}

func (s *countedStream) SendMsg(m any) error {
	err := s.ClientStream.SendMsg(m)
	if err == nil {
		s.sent.Inc()
	}
	return err
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case err == nil:
		s.received.Inc()
	case errors.Is(err, io.EOF):
		s.ended(status.Code(nil).String())
	default:
		s.ended(status.Code(err).String())
	}
	return err
}
