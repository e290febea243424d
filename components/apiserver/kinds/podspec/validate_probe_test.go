package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestProbeHandlers(t *testing.T) {
	type handler = corev1.ProbeHandler
	with := func(h handler) func(*corev1.PodSpec) {
		return inContainer(func(c *corev1.Container) {
			c.LivenessProbe = &corev1.Probe{SuccessThreshold: 1,
				ProbeHandler: h}
		})
	}
	get := func(change func(a *corev1.HTTPGetAction)) func(*corev1.PodSpec) {
		a := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80), Scheme: "HTTP"}
		change(a)
		return with(handler{HTTPGet: a})
	}
	exec, tcp := &corev1.ExecAction{Command: texts{"a"}}, &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}
	const second = ": Forbidden: may not specify more than 1 handler type"
	checkSpecs(t, "spec.containers[0].livenessProbe", []specCase{
		{"none", with(handler{}), texts{": Required value: must specify a handler type"}},
		{"exec", with(handler{Exec: exec}), nil},
		{"exec of nothing", with(handler{Exec: &corev1.ExecAction{}}), texts{".exec.command: Required value"}},
		{"socket", with(handler{TCPSocket: tcp}), nil},
		{"named socket", with(handler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("http")}}), nil},
		{"no socket", with(handler{TCPSocket: &corev1.TCPSocketAction{}}),
			texts{".tcpSocket.port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{"bad name", with(handler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("-a")}}),
			texts{`.tcpSocket.port: Invalid value: "-a": must not begin or end with a hyphen`}},
		{"GRPC", with(handler{GRPC: &corev1.GRPCAction{Port: 1}}), nil},
		{"GRPC nowhere", with(handler{GRPC: &corev1.GRPCAction{Port: 65536}}),
			texts{".grpc.port: Invalid value: 65536: must be between 1 and 65535, inclusive"}},
		{"HTTP", get(func(a *corev1.HTTPGetAction) { a.HTTPHeaders = []corev1.HTTPHeader{{Name: "X-A", Value: "b"}} }),
			nil},
		{"HTTPS", get(func(a *corev1.HTTPGetAction) { a.Scheme = "HTTPS" }), nil},
		{"no path", get(func(a *corev1.HTTPGetAction) { a.Path = "" }), texts{".httpGet.path: Required value"}},
		{"no port", get(func(a *corev1.HTTPGetAction) { a.Port = intstr.FromInt32(0) }),
			texts{".httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive"}},
		{"scheme", get(func(a *corev1.HTTPGetAction) { a.Scheme = "" }),
			texts{`.httpGet.scheme: Unsupported value: "": supported values: "HTTP", "HTTPS"`}},
		{"header", get(func(a *corev1.HTTPGetAction) { a.HTTPHeaders = []corev1.HTTPHeader{{Name: "X A"}} }),
			texts{`.httpGet.httpHeaders: Invalid value: "X A": a valid HTTP header must consist of…`}},
		{"all", with(handler{Exec: exec, HTTPGet: &corev1.HTTPGetAction{}, TCPSocket: tcp, GRPC: &corev1.GRPCAction{}}),
			texts{".httpGet" + second, ".tcpSocket" + second, ".grpc" + second}},
	})
}

func TestProbeNumbers(t *testing.T) {
	of := func(change func(p *corev1.Probe)) *corev1.Probe {
		p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: texts{"a"}}}}
		defaultProbe(p)
		change(p)
		return p
	}
	liveness := func(change func(p *corev1.Probe)) func(*corev1.PodSpec) {
		return inContainer(func(c *corev1.Container) { c.LivenessProbe = of(change) })
	}
	const least = "must be greater than or equal to 0"
	checkSpecs(t, "spec.containers[0].", []specCase{
		{"negative", liveness(func(p *corev1.Probe) {
			p.InitialDelaySeconds, p.TimeoutSeconds, p.PeriodSeconds, p.FailureThreshold = -1, -2, -3, -4
		}), texts{"livenessProbe.initialDelaySeconds: Invalid value: -1: " + least,
			"livenessProbe.timeoutSeconds: Invalid value: -2: " + least,
			"livenessProbe.periodSeconds: Invalid value: -3: " + least,
			"livenessProbe.failureThreshold: Invalid value: -4: " + least}},
		{"zero", liveness(func(p *corev1.Probe) { p.TimeoutSeconds, p.PeriodSeconds, p.FailureThreshold = 0, 0, 0 }),
			nil},
		{"successes", liveness(func(p *corev1.Probe) { p.SuccessThreshold = -1 }),
			texts{"livenessProbe.successThreshold: Invalid value: -1: " + least,
				"livenessProbe.successThreshold: Invalid value: -1: must be 1"}},
		{"successes of readiness", inContainer(func(c *corev1.Container) {
			c.ReadinessProbe = of(func(p *corev1.Probe) { p.SuccessThreshold = 5 })
		}), nil},
		{"successes of a start", inContainer(func(c *corev1.Container) {
			c.StartupProbe = of(func(p *corev1.Probe) { p.SuccessThreshold = 0 })
		}), texts{"startupProbe.successThreshold: Invalid value: 0: must be 1"}},
		{"grace", liveness(func(p *corev1.Probe) { p.TerminationGracePeriodSeconds = new(int64(1)) }), nil},
		{"no grace", liveness(func(p *corev1.Probe) { p.TerminationGracePeriodSeconds = new(int64(0)) }),
			texts{"livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0"}},
		{"grace of readiness", inContainer(func(c *corev1.Container) {
			c.ReadinessProbe = of(func(p *corev1.Probe) { p.TerminationGracePeriodSeconds = new(int64(5)) })
		}), texts{"readinessProbe.terminationGracePeriodSeconds: Invalid value: 5: must not be set for readinessProbes"}},
	})
}

func TestLifecycle(t *testing.T) {
	type handler = corev1.LifecycleHandler
	with := func(start, stop *handler, grace *int64) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: start, PreStop: stop}
			s.TerminationGracePeriodSeconds = grace
		}
	}
	sleep := func(seconds int64) *handler { return &handler{Sleep: &corev1.SleepAction{Seconds: seconds}} }
	const range1 = "must be non-negative and less than terminationGracePeriodSeconds "
	checkSpecs(t, "spec.containers[0].lifecycle.", []specCase{
		{"neither", with(nil, nil, nil), nil},
		{"exec", with(&handler{Exec: &corev1.ExecAction{Command: texts{"a"}}}, nil, nil), nil},
		{"empty", with(&handler{}, &handler{}, nil), texts{"postStart: Required value: must specify a handler type",
			"preStop: Required value: must specify a handler type"}},
		{"two", with(&handler{Exec: &corev1.ExecAction{Command: texts{"a"}}, Sleep: &corev1.SleepAction{}}, nil, nil),
			texts{"postStart.sleep: Forbidden: may not specify more than 1 handler type"}},
		{"sleep of nothing", with(nil, sleep(0), new(int64(5))), nil},
		{"sleep as long as the grace", with(nil, sleep(5), new(int64(5))), nil},
		{"longer sleep", with(nil, sleep(6), new(int64(5))),
			texts{"preStop.sleep: Invalid value: 6: " + range1 + "(5)"}},
		{"sleep backwards", with(sleep(-1), nil, new(int64(5))),
			texts{"postStart.sleep: Invalid value: -1: " + range1 + "(5)"}},
		{"sleep backwards without a grace", with(sleep(-1), nil, nil),
			texts{"postStart.sleep: Invalid value: -1: " + range1 + "(<nil>)"}},
	})
}
