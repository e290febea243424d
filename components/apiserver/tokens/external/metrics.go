package external

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	externaljwtv1 "k8s.io/externaljwt/apis/v1"
)

// Register takes metrics.
type Register func(prometheus.Collector) error

// metrics have upstream's names.
type metrics struct {
	fetchedAt, dataAt *prometheus.GaugeVec
	fetches, signs    *prometheus.CounterVec
	duration          *prometheus.HistogramVec
}

func newMetrics(register Register) (*metrics, error) {
	m := &metrics{
		fetchedAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_externaljwt_fetch_keys_success_timestamp",
			Help: "When keys were last fetched with success, in seconds since 1970.",
		}, nil),
		dataAt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_externaljwt_fetch_keys_data_timestamp",
			Help: "How new the external signer says that its keys are, in seconds since 1970.",
		}, nil),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_externaljwt_fetch_keys_request_total",
			Help: "Questions for keys, by the gRPC code of the answer.",
		}, []string{"code"}),
		signs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_externaljwt_sign_request_total",
			Help: "Tokens that were to be signed, by the gRPC code of the answer.",
		}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_externaljwt_request_duration_seconds",
			Help:    "Time that calls of the external signer took.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "code"}),
	}
	return m, errors.Join(register(m.fetchedAt), register(m.dataAt), register(m.fetches), register(m.signs),
		register(m.duration))
}

func (m *metrics) measure(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn,
	call grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	start := time.Now()
	err := call(ctx, method, req, reply, conn, opts...)
	m.duration.WithLabelValues(method, codeOf(err)).Observe(time.Since(start).Seconds())
	return err
}

func (m *metrics) signed(err error) { m.signs.WithLabelValues(codeOf(err)).Inc() }

func (m *metrics) fetched(got *externaljwtv1.FetchKeysResponse, err error, now time.Time) {
	m.fetches.WithLabelValues(codeOf(err)).Inc()
	if err != nil {
		return
	}
	m.fetchedAt.WithLabelValues().Set(seconds(now))
	m.dataAt.WithLabelValues().Set(seconds(got.DataTimestamp.AsTime()))
}

func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }

func codeOf(err error) string {
	var answered interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil:
		return codes.OK.String()
	case errors.As(err, &answered):
		return answered.GRPCStatus().Code().String()
	}
	return "unknown-non-grpc"
}
