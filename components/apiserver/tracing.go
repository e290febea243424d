package apiserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiserverapi "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/util/feature"
	basetracing "k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"

	"quintet.dev/quintet/components/apiserver/egress"
	"quintet.dev/quintet/components/apiserver/tracing"
)

// openTracing sends spans of requests, and of what they ask the store, to a collector of OpenTelemetry
// (https://kubernetes.io/docs/concepts/cluster-administration/system-traces/), by dial if that is not nil. Without a
// file there is none of it.
func openTracing(file, id string, dial egress.Dial) (basetracing.TracerProvider, error) {
	if file == "" {
		return nil, nil
	}
	config, err := readTracing(file)
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	provider, err := basetracing.NewProvider(context.Background(), config, collectorOptions(dial), []resource.Option{
		resource.WithAttributes(semconv.ServiceName("apiserver"), semconv.ServiceInstanceID(id)),
	})
	if err != nil {
		return nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	return provider, nil
}

// collectorOptions make spans go to their collector by the way to the control plane, if there is one.
func collectorOptions(dial egress.Dial) []otlptracegrpc.Option {
	if dial == nil {
		return nil
	}
	byDial := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dial(ctx, "tcp", address)
	})
	return []otlptracegrpc.Option{otlptracegrpc.WithDialOption(byDial)}
}

func readTracing(file string) (*tracingapi.TracingConfiguration, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	config := &apiserverapi.TracingConfiguration{}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	if err := runtime.DecodeInto(decoder, text, config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	errs := tracingapi.ValidateTracingConfiguration(&config.TracingConfiguration, feature.DefaultFeatureGate, nil)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", file, errs.ToAggregate())
	}
	return &config.TracingConfiguration, nil
}

// traceRequests is the filter that begins the span of a request.
func traceRequests(by basetracing.TracerProvider) func(http.Handler) http.Handler {
	if by == nil {
		return nil
	}
	return func(next http.Handler) http.Handler { return filters.WithTracing(withAuditID(next), by) }
}

// propagateTraces makes spans go on where requests are passed on to.
func propagateTraces(by basetracing.TracerProvider) func(http.RoundTripper) http.RoundTripper {
	if by == nil {
		return nil
	}
	return basetracing.WrapperFor(by)
}

// withAuditID writes into the span of a request by which identity it is audited, also where nothing is.
func withAuditID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		trace.SpanFromContext(r.Context()).SetAttributes(tracing.AuditID(w.Header()))
		next.ServeHTTP(w, r)
	})
}

// lastSpans is how long a stop may take because of a collector that doesn't answer.
const lastSpans = 3 * time.Second

// closeTracing sends the spans that are still here.
func closeTracing(ctx context.Context, provider basetracing.TracerProvider) {
	if provider != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		_ = provider.Shutdown(ctx)
	}
}
