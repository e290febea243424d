package podspec

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

func minimal() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	DefaultPod(p)
	return p
}

func TestValidateCreate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *corev1.Pod)
		want   []string // field: type
	}{
		{"minimal", func(p *corev1.Pod) {}, nil},
		{"no containers", func(p *corev1.Pod) { p.Spec.Containers = nil }, []string{"spec.containers: Required value"}},
		{"no name", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "" },
			[]string{"spec.containers[0].name: Required value"}},
		{"no image", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" },
			[]string{"spec.containers[0].image: Required value"}},
		{"upper case name", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "C" },
			[]string{`spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label`}},
		{"twice", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) },
			[]string{`spec.containers[1].name: Duplicate value: "c"`}},
		{"request above limit", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{
				Limits:   corev1.ResourceList{"cpu": resource.MustParse("1")},
				Requests: corev1.ResourceList{"cpu": resource.MustParse("2")},
			}
		},
			[]string{`spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1`}},
		{"negative", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("-1")}
		}, []string{`spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"unknown mount", func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}, []string{`spec.containers[0].volumeMounts[0].name: Not found: "v"`}},
		{"two sources", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{}, HostPath: &corev1.HostPathVolumeSource{Path: "/x"},
			}}}
		}, []string{"spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"}},
		{"bad policy", func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
			[]string{`spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never"`}},
		{"port range", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 70000, Protocol: "TCP"}}
		},
			[]string{"spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"}},
		{"host port twice", func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{
				{ContainerPort: 80, HostPort: 80, Protocol: "TCP"}, {ContainerPort: 81, HostPort: 80, Protocol: "TCP"}}
		}, []string{`spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"`}},
		{"host network", func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 81, Protocol: "TCP"}}
		},
			[]string{"spec.containers[0].ports[0].hostPort: Invalid value: 81: must match `containerPort` when `hostNetwork` " +
				"is true"}},
		{"liveness threshold", func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{SuccessThreshold: 2,
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		}, []string{"spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"}},
		{"probe without handler", func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = &corev1.Probe{} },
			[]string{"spec.containers[0].readinessProbe: Required value: must specify a handler type"}},
		{"init with probe", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{p.Spec.Containers[0]}
			p.Spec.InitContainers[0].Name = "i"
			p.Spec.InitContainers[0].Lifecycle = &corev1.Lifecycle{}
		},
			[]string{"spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without " +
				"restartPolicy=Always"}},
		{"env two ways", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}}}}
		}, []string{`spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when ` +
			"`value` is not empty"}},
		{"field ref", func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.phase"}}}}
		},
			[]string{`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: `}},
		{"toleration", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: "Equal", Value: "x"}}
		},
			[]string{`spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when`}},
		{"gated with node", func(p *corev1.Pod) {
			p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}}
			p.Spec.NodeName = "n"
		}, []string{"spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"}},
		{"privileged without escalation", func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true),
				AllowPrivilegeEscalation: ptr.To(false)}
		}, []string{"spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy",
			"spec.containers[0].securityContext: Invalid value: "}},
		{"spread", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
				{WhenUnsatisfiable: corev1.DoNotSchedule}}
		}, []string{"spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
			"spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := minimal()
			tc.change(p)
			expect(t, errorTexts(Rules{}.ValidateCreate(p).ToAggregate()), tc.want)
		})
	}
}

func errorTexts(err interface{ Errors() []error }) []string {
	if err == nil {
		return nil
	}
	var out []string
	for _, e := range err.Errors() {
		out = append(out, e.Error())
	}
	return out
}

func expect(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d errors:\n%s\nwant:\n%s", len(got), strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestValidateUpdate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(p *corev1.Pod)
		change func(p *corev1.Pod)
		want   []string
	}{
		{"nothing", nil, func(*corev1.Pod) {}, nil},
		{"image", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, nil},
		{"add toleration", nil, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "a", Operator: "Exists"})
		}, nil},
		{"remove toleration", func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}}
		},
			func(p *corev1.Pod) { p.Spec.Tolerations = nil },
			[]string{"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"}},
		{"command", nil, func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} },
			[]string{"spec: Forbidden: pod updates may not change fields other than " +
				"`spec.containers[*].image`,`spec.initContainers[*].image`,"}},
		{"node name", nil, func(p *corev1.Pod) { p.Spec.NodeName = "n" },
			[]string{"spec: Forbidden: pod updates may not change fields"}},
		{"add container", nil, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
			p.Spec.Containers[1].Name = "d"
		}, []string{"spec.containers: Forbidden: pod updates may not add or remove containers"}},
		{"remove gate", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, nil},
		{"add gate", nil, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			[]string{"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"}},
		{"gated selector", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, nil},
		{"gated affinity", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			func(p *corev1.Pod) {
				p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
					RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
						NodeSelectorTerms: []corev1.NodeSelectorTerm{{
							MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}}}}}}}
			}, nil},
		{"longer deadline", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(5)) },
			func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To(int64(6)) },
			[]string{"spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := minimal()
			if tc.before != nil {
				tc.before(old)
			}
			p := old.DeepCopy()
			tc.change(p)
			expect(t, errorTexts(Rules{}.ValidateUpdate(p, old).ToAggregate()), tc.want)
		})
	}
}

func TestResize(t *testing.T) {
	old := minimal()
	old.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	p := old.DeepCopy()
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("2")}
	if errs := (Rules{}).ValidateResize(p, old, nil); len(errs) > 0 {
		t.Error(errs)
	}
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("2"),
		"memory": resource.MustParse("1")}
	p.Spec.Containers[0].Resources.Requests["memory"] = resource.MustParse("1")
	if errs := (Rules{}).ValidateResize(p, old, nil); len(errs) != 1 || !strings.Contains(errs[0].Error(), "QOS") {
		t.Error(errs)
	}
	p = old.DeepCopy()
	p.Spec.Containers[0].Image = "other"
	if errs := (Rules{}).ValidateResize(p, old, nil); len(errs) != 1 {
		t.Error(errs)
	}
}

// TestResizeOfTheWhole: the resources of a pod as a whole are changed by the rules for those of its containers.
func TestResizeOfTheWhole(t *testing.T) {
	had := &corev1.ResourceRequirements{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "4")}
	const cannot = "only cpu and memory resources are mutable at pod-level"
	for name, c := range map[string]struct {
		old, new *corev1.ResourceRequirements
		want     []string
	}{
		"more": {had, &corev1.ResourceRequirements{Requests: amounts("cpu", "2"), Limits: amounts("cpu", "4")},
			nil},
		"memory too": {had, &corev1.ResourceRequirements{Requests: amounts("cpu", "1", "memory", "1Gi"),
			Limits: amounts("cpu", "4")}, nil},
		"none": {had, nil, []string{"spec.resources: Forbidden: pod-level resources cannot be removed"}},
		"no request": {had, &corev1.ResourceRequirements{Limits: amounts("cpu", "4")},
			[]string{"spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"}},
		"no limit": {had, &corev1.ResourceRequirements{Requests: amounts("cpu", "1")},
			[]string{"spec.resources.limits: Forbidden: pod-level resource limits cannot be removed"}},
		"pages": {had, &corev1.ResourceRequirements{Requests: amounts("cpu", "1", "hugepages-2Mi", "2Mi"),
			Limits: amounts("cpu", "4", "hugepages-2Mi", "2Mi")}, []string{"spec: Forbidden: " + cannot}},
	} {
		old := minimal()
		old.Spec.Containers[0].Resources.Requests = amounts("cpu", "500m")
		old.Spec.Resources = c.old
		p := old.DeepCopy()
		p.Spec.Resources = c.new.DeepCopy()
		var got []string
		for _, err := range (Rules{}).ValidateResize(p, old, nil) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	old := minimal()
	old.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{
		{ResourceClaimName: "x"}}
	if errs := (Rules{}).ValidateResize(old.DeepCopy(), old, nil); len(errs) != 1 ||
		!strings.Contains(errs[0].Error(), "node allocatable resource claims cannot be resized") {
		t.Error(errs)
	}
}

func TestDefaults(t *testing.T) {
	p := &corev1.Pod{Spec: corev1.PodSpec{
		ServiceAccountName: "sa",
		Volumes: []corev1.Volume{{Name: "none"},
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}},
		Containers: []corev1.Container{
			{Image: "a"}, {Image: "a:1"}, {Image: "h:5000/a"}, {Image: "a@sha256:00"}, {Image: "a:latest",
				Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}},
		},
	}}
	DefaultPod(p)
	for i, want := range []corev1.PullPolicy{"Always", "IfNotPresent", "Always", "IfNotPresent", "Always"} {
		if got := p.Spec.Containers[i].ImagePullPolicy; got != want {
			t.Errorf("container %d: %s, want %s", i, got, want)
		}
	}
	if q := p.Spec.Containers[4].Resources.Requests["cpu"]; q.String() != "1" {
		t.Error("requests don't follow limits")
	}
	if p.Spec.Volumes[0].EmptyDir == nil || *p.Spec.Volumes[1].Secret.DefaultMode != 0o644 {
		t.Error("volumes have no defaults")
	}
	if *p.Spec.TerminationGracePeriodSeconds != 30 || p.Spec.DNSPolicy != "ClusterFirst" ||
		!*p.Spec.EnableServiceLinks ||
		p.Spec.DeprecatedServiceAccount != "sa" || p.Spec.SchedulerName != "default-scheduler" {
		t.Errorf("%+v", p.Spec)
	}
}

// TestDoorsOfMirrorPods: what a kubelet shows of its own pods is changed nowhere, and of that alone clients are told.
func TestDoorsOfMirrorPods(t *testing.T) {
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}}}
	meta := field.ErrorList{field.Required(field.NewPath("metadata"), "")}
	for want, errs := range map[string]field.ErrorList{
		"static pods do not support ephemeral containers": Rules{}.ValidateEphemeralUpdate(old.DeepCopy(), old, meta),
		"static pods cannot be resized":                   Rules{}.ValidateResize(old.DeepCopy(), old, meta),
	} {
		if len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%v, want %s", errs, want)
		}
	}
	delete(old.Annotations, corev1.MirrorPodAnnotationKey)
	if errs := (Rules{}).ValidateEphemeralUpdate(old.DeepCopy(), old, meta); len(errs) < 2 || errs[0] != meta[0] {
		t.Errorf("%v, want the metadata's first", errs)
	}
}
