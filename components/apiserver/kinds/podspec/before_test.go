package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// bad is a value that no label has.
const bad = "a b"

func badSelector() *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{bad}}}}
}

// stored are changes that make pods such as older or more daring servers stored them.
func stored() map[string]func(p *corev1.Pod) {
	return map[string]func(p *corev1.Pod){
		"cost": func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: "01"} },
		"pages": func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Limits:   amounts("hugepages-2Mi", "3Mi", "cpu", "1"),
				Requests: amounts("hugepages-2Mi", "3Mi", "cpu", "1")}
		},
		"pages besides": func(p *corev1.Pod) { p.Spec.Overhead = amounts("hugepages-2Mi", "3Mi", "cpu", "1") },
		"affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: "k", LabelSelector: badSelector()}}}}
		},
		"anti-affinity": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{
				PodAntiAffinity: &corev1.PodAntiAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
						{Weight: 1, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "k",
							NamespaceSelector: badSelector()}}}}}
		},
		"nodes": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{
				NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{
						{MatchExpressions: []corev1.NodeSelectorRequirement{
							{Key: "k", Operator: corev1.NodeSelectorOpIn, Values: []string{bad}}}}}}}}
		},
		"spread": func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{MaxSkew: 1, TopologyKey: "k", WhenUnsatisfiable: corev1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": bad}}}}
		},
		"token": func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "../t"}}}}}}}
		},
		"kernel parameter of the host": func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.SecurityContext = &corev1.PodSecurityContext{
				Sysctls: []corev1.Sysctl{{Name: "net/ipv4.x", Value: "1"}}}
		},
		"resized init container": func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{
				{Name: "i", Image: "i", ResizePolicy: []corev1.ContainerResizePolicy{
					{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}}}
		},
		"devices of mapped users": func(p *corev1.Pod) {
			p.Spec.HostUsers = ptr.To(false)
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "v", DevicePath: "/d"}}
		},
		"host network of mapped users": func(p *corev1.Pod) {
			p.Spec.HostUsers, p.Spec.HostNetwork = ptr.To(false),
				true
		},
		"comparison": func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpGt, Value: "5"}}
		},
	}
}

// TestStoredFaults: what is refused in new pods and templates may stay in those that have it, and doesn't come by a
// change.
func TestStoredFaults(t *testing.T) {
	path := field.NewPath("template")
	for name, change := range stored() {
		t.Run(name, func(t *testing.T) {
			good := minimal()
			good.Spec.ServiceAccountName = "default"
			p := good.DeepCopy()
			change(p)
			DefaultPod(p)
			if errs := (Rules{}).ValidateCreate(p); len(errs) == 0 {
				t.Error("a new pod may have it")
			}
			old := p.DeepCopy()
			p.Labels = map[string]string{"a": "b"}
			if errs := (Rules{}).ValidateUpdate(p, old); len(errs) > 0 {
				t.Error(errs)
			}
			if errs := (Rules{}).ValidateResize(p, old, nil); len(errs) > 0 {
				t.Error(errs)
			}
			is, was := template(p), template(good)
			if len(Rules{}.ValidateTemplate(is, nil, path)) == 0 || len(Rules{}.ValidateTemplate(is, was, path)) == 0 {
				t.Error("a template may get it")
			}
			if errs := (Rules{}).ValidateTemplate(is, template(old), path); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

func template(p *corev1.Pod) *corev1.PodTemplateSpec {
	return &corev1.PodTemplateSpec{ObjectMeta: *p.ObjectMeta.DeepCopy(), Spec: *p.Spec.DeepCopy()}
}

// TestStoredSpreadKeys: where the selector speaks of a key already, it may not speak of any.
func TestStoredSpreadKeys(t *testing.T) {
	p := template(minimal())
	is := metav1.LabelSelectorRequirement{Key: "k", Operator: metav1.LabelSelectorOpIn, Values: []string{"a"}}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: "k", WhenUnsatisfiable: corev1.DoNotSchedule,
			MatchLabelKeys: []string{"k"},
			LabelSelector:  &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{is}}}}
	old := p.DeepCopy()
	if errs := (Rules{}).ValidateTemplate(p, old, nil); len(errs) > 0 {
		t.Error(errs)
	}
	s := old.Spec.TopologySpreadConstraints[0].LabelSelector
	s.MatchExpressions = append(s.MatchExpressions, is)
	errs := Rules{}.ValidateTemplate(p, old, field.NewPath("template"))
	expect(t, errorTexts(errs.ToAggregate()), []string{
		`template.spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "k": exists in both matchLabelKeys and labelSelector`,
	})
	p.Spec.TopologySpreadConstraints[0].LabelSelector = nil
	errs = Rules{}.ValidateTemplate(p, old, field.NewPath("template"))
	expect(t, errorTexts(errs.ToAggregate()), []string{
		"template.spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is " +
			"not set"})
}

// TestWhatIsNotLetBe: with what was there come no other faults of the same field, and addresses were never asked about.
func TestWhatIsNotLetBe(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s *corev1.PodSpec)
		want   []string
	}{
		{"selector", func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{
				PodAffinity: &corev1.PodAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
						{TopologyKey: "k", LabelSelector: badSelector(),
							NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": bad}}}}}}
		},
			[]string{`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespaceSelector.matchLabels: Invalid value: "a b"`}},
		{"comparison", func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpLt, Value: "x"}}
		}, []string{
			`spec.tolerations[0].value: Invalid value: "x": must be a valid decimal integer`,
			`spec.tolerations[0].value: Invalid value: "x": strconv.ParseInt: parsing "x": invalid syntax`}},
		{"address", func(s *corev1.PodSpec) {
			s.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"010.0.0.1"}}
			s.HostAliases = []corev1.HostAlias{{IP: "010.0.0.2"}}
		}, []string{`spec.dnsConfig.nameservers[0]: Invalid value: "010.0.0.1"`,
			`spec.hostAliases[0].ip: Invalid value: "010.0.0.2"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := template(minimal())
			tc.change(&p.Spec)
			expect(t, errorTexts(Rules{}.ValidateTemplate(p, p.DeepCopy(), nil).ToAggregate()), tc.want)
		})
	}
}
