package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// TestPrivilege: of containers of every list, and in its place among the faults, whichever way a pod takes.
func TestPrivilege(t *testing.T) {
	const (
		denied = "securityContext.privileged: Forbidden: disallowed by cluster policy"
		host   = "spec: Forbidden: hostProcess containers are disallowed by cluster policy"
	)
	privileged := &corev1.SecurityContext{Privileged: ptr.To(true)}
	windows := &corev1.WindowsSecurityContextOptions{HostProcess: ptr.To(true)}
	debugger := func(sc *corev1.SecurityContext) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
			Name: "d", Image: "i", ImagePullPolicy: "Always", TerminationMessagePolicy: "File", SecurityContext: sc}}
	}
	for name, c := range map[string]struct {
		change  func(s *corev1.PodSpec)
		allowed []string // where it is
		want    []string
	}{
		"container": {func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = privileged }, nil,
			[]string{"spec.containers[0]." + denied}},
		"init container": {func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{*s.Containers[0].DeepCopy()}
			s.InitContainers[0].Name, s.InitContainers[0].SecurityContext = "i", privileged
		}, nil, []string{"spec.initContainers[0]." + denied}},
		"ephemeral container": {func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{debugger(privileged)}
		}, nil,
			[]string{"spec.ephemeralContainers[0]." + denied}},
		"among others": {func(s *corev1.PodSpec) {
			s.Containers[0].Image = ""
			s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true),
				RunAsUser: ptr.To(int64(-1))}
		}, []string{"spec.containers[0].image", "spec.containers[0].securityContext.runAsUser"},
			[]string{"spec.containers[0].image", "spec.containers[0]." + denied,
				"spec.containers[0].securityContext.runAsUser"}},
		"process of the host": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: windows}
			s.Hostname = "A"
		}, []string{"spec.hostNetwork", "spec.hostname"}, []string{"spec.hostNetwork", host, "spec.hostname"}},
		"processes of the host": {
			func(s *corev1.PodSpec) { s.HostNetwork, s.SecurityContext.WindowsOptions = true, windows }, nil,
			[]string{host}},
		"only the debugger": {func(s *corev1.PodSpec) {
			s.HostNetwork = true
			s.EphemeralContainers = []corev1.EphemeralContainer{
				debugger(&corev1.SecurityContext{WindowsOptions: windows})}
		}, []string{"spec: Invalid value"}, []string{"spec: Invalid value", host}},
	} {
		t.Run(name, func(t *testing.T) {
			p := minimal()
			c.change(&p.Spec)
			for _, rules := range []Rules{{}, {Privileged: true}} {
				want := c.want
				if rules.Privileged {
					want = c.allowed
				}
				expect(t, errorTexts(rules.validatePod(p, nil).ToAggregate()), want)
				expect(t, errorTexts(rules.validatePod(p, oldPodState(p)).ToAggregate()), want)
				expect(t, errorTexts(rules.validateSpec(&p.Spec, nil, nil, field.NewPath("spec")).ToAggregate()), want)
			}
		})
	}
}

// TestPrivilegeByEveryDoor: also of what came in while it was allowed.
func TestPrivilegeByEveryDoor(t *testing.T) {
	p := minimal()
	p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	template := &corev1.PodTemplateSpec{Spec: p.Spec}
	for _, rules := range []Rules{{}, {Privileged: true}} {
		for name, errs := range map[string]field.ErrorList{
			"create":               rules.ValidateCreate(p),
			"update":               rules.ValidateUpdate(p.DeepCopy(), p),
			"ephemeral containers": rules.ValidateEphemeralUpdate(p.DeepCopy(), p, nil),
			"resize":               rules.ValidateResize(p.DeepCopy(), p, nil),
			"template":             rules.ValidateTemplate(template, nil, field.NewPath("template")),
			"stored template":      rules.ValidateTemplate(template, template, field.NewPath("template")),
		} {
			if rules.Privileged && len(errs) > 0 ||
				!rules.Privileged && (len(errs) != 1 || errs[0].Detail != "disallowed by cluster policy") {
				t.Errorf("%s, allowed %t: %v", name, rules.Privileged, errs)
			}
		}
	}
}
