package podspec

import (
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateProbes(c *corev1.Container, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if c.LivenessProbe == nil && c.ReadinessProbe == nil && c.StartupProbe == nil {
		return nil
	}
	grace := s.TerminationGracePeriodSeconds
	errs := validateProbe(c.LivenessProbe, grace, at.Child("livenessProbe"))
	errs = append(errs, once(c.LivenessProbe, at.Child("livenessProbe"))...)
	errs = append(errs, validateProbe(c.ReadinessProbe, grace, at.Child("readinessProbe"))...)
	if p := c.ReadinessProbe; p != nil && p.TerminationGracePeriodSeconds != nil {
		errs = append(errs, field.Invalid(at.Child("readinessProbe", "terminationGracePeriodSeconds"),
			p.TerminationGracePeriodSeconds, "must not be set for readinessProbes"))
	}
	errs = append(errs, validateProbe(c.StartupProbe, grace, at.Child("startupProbe"))...)
	return append(errs, once(c.StartupProbe, at.Child("startupProbe"))...)
}

func once(p *corev1.Probe, at *field.Path) field.ErrorList {
	if p == nil || p.SuccessThreshold == 1 {
		return nil
	}
	return field.ErrorList{field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, "must be 1")}
}

func validateProbe(p *corev1.Probe, grace *int64, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := validateHandler(handler{p.Exec, p.HTTPGet, p.TCPSocket, p.GRPC, nil}, grace, at)
	for _, f := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds}, {"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, nonNegative(int64(f.value), at.Child(f.name))...)
	}
	if t := p.TerminationGracePeriodSeconds; t != nil && *t <= 0 {
		errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *t, "must be greater than 0"))
	}
	return errs
}

func validateLifecycle(l *corev1.Lifecycle, s *corev1.PodSpec, at *field.Path) field.ErrorList {
	if l == nil {
		return nil
	}
	var errs field.ErrorList
	for _, hook := range []struct {
		name string
		does *corev1.LifecycleHandler
	}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
		if h := hook.does; h != nil {
			errs = append(errs, validateHandler(handler{h.Exec, h.HTTPGet, h.TCPSocket, nil, h.Sleep},
				s.TerminationGracePeriodSeconds, at.Child(hook.name))...)
		}
	}
	if l.StopSignal != nil {
		errs = append(errs, stopSignal(*l.StopSignal, s.OS, at.Child("stopSignal"))...)
	}
	return errs
}

// handler is an action of a probe or of a life cycle hook; exactly one is set.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

func validateHandler(h handler, grace *int64, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	add := func(name string, check func(*field.Path) field.ErrorList) {
		if n > 0 {
			errs = append(errs, field.Forbidden(at.Child(name), "may not specify more than 1 handler type"))
			return
		}
		n++
		errs = append(errs, check(at.Child(name))...)
	}
	if h.exec != nil {
		add("exec", func(p *field.Path) field.ErrorList {
			return requiredList(h.exec.Command, p.Child("command"))
		})
	}
	if h.http != nil {
		add("httpGet", func(p *field.Path) field.ErrorList { return validateHTTPGet(h.http, p) })
	}
	if h.tcp != nil {
		add("tcpSocket", func(p *field.Path) field.ErrorList { return portNumberOrName(h.tcp.Port, p.Child("port")) })
	}
	if h.grpc != nil {
		add("grpc", func(p *field.Path) field.ErrorList { return portNumber(h.grpc.Port, p.Child("port")) })
	}
	if h.sleep != nil {
		add("sleep", func(p *field.Path) field.ErrorList {
			if h.sleep.Seconds < 0 || grace != nil && h.sleep.Seconds > *grace {
				return field.ErrorList{field.Invalid(p, h.sleep.Seconds,
					"must be non-negative and less than terminationGracePeriodSeconds ("+graceText(grace)+")")}
			}
			return nil
		})
	}
	if n == 0 {
		errs = append(errs, field.Required(at, "must specify a handler type"))
	}
	return errs
}

func validateHTTPGet(a *corev1.HTTPGetAction, at *field.Path) field.ErrorList {
	errs := required1(a.Path, at.Child("path"))
	errs = append(errs, portNumberOrName(a.Port, at.Child("port"))...)
	errs = append(errs, supported(a.Scheme, at.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, h := range a.HTTPHeaders {
		errs = append(errs, problems(h.Name, at.Child("httpHeaders"), utilvalidation.IsHTTPHeaderName)...)
	}
	return errs
}
