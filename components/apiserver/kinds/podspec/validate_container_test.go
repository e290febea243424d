package podspec

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestContainers(t *testing.T) {
	type ctr = *corev1.Container
	checkSpecs(t, "spec.containers[0].", []specCase{
		{"no policies", inContainer(func(c ctr) { c.TerminationMessagePolicy, c.ImagePullPolicy = "", "" }),
			texts{"terminationMessagePolicy: Required value", "imagePullPolicy: Required value"}},
		{"bad policies", inContainer(func(c ctr) { c.TerminationMessagePolicy, c.ImagePullPolicy = "Log", "Maybe" }),
			texts{`terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"`,
				`imagePullPolicy: Unsupported value: "Maybe": supported values: "Always", "IfNotPresent", "Never"`}},
		{"fallback to logs", inContainer(func(c ctr) {
			c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}), nil},
		{"space before the image", inContainer(func(c ctr) { c.Image = " i" }),
			texts{`image: Invalid value: " i": must not have leading or trailing whitespace`}},
		{"space after the image", inContainer(func(c ctr) { c.Image = "i\n" }),
			texts{`image: Invalid value: "i\n": must not have leading or trailing whitespace`}},
		{"a name with dots", inContainer(func(c ctr) { c.Name = "a.b" }),
			texts{`name: Invalid value: "a.b": must not contain dots`}},
	})
	checkSpecs(t, "spec.", []specCase{
		{"two without a name", func(s *corev1.PodSpec) {
			s.Containers = append(s.Containers, named(""), named(""))
		}, texts{"containers[1].name: Required value", "containers[2].name: Required value",
			`containers[2].name: Duplicate value: ""`}},
		{"init container of the same name", withInit(false, func(c ctr) { c.Name = "c" }),
			texts{`initContainers[0].name: Duplicate value: "c"`}},
		{"init containers of one name", func(s *corev1.PodSpec) {
			s.InitContainers = []corev1.Container{named("a"), named("a")}
		}, texts{`initContainers[1].name: Duplicate value: "a"`}},
		{"init container without an image", withInit(false, func(c ctr) { c.Image = "" }),
			texts{"initContainers[0].image: Required value"}},
		{"init container with space around the image", withInit(false, func(c ctr) { c.Image = "i " }),
			texts{`initContainers[0].image: Invalid value: "i ": must not have leading or trailing whitespace`}},
	})
}

// TestInitContainers: only those that go on running are probed and have hooks.
func TestInitContainers(t *testing.T) {
	type ctr = *corev1.Container
	probe := func() *corev1.Probe {
		p := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(1)}}}
		defaultProbe(p)
		return p
	}
	all := func(c ctr) {
		c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe(), probe(), probe()
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	}
	const never = ": Forbidden: may not be set for init containers without restartPolicy=Always"
	checkSpecs(t, "spec.initContainers[0].", []specCase{
		{"sidecar", withInit(true, all), nil},
		{"init container", withInit(false, all), texts{"lifecycle" + never, "livenessProbe" + never,
			"readinessProbe" + never, "startupProbe" + never}},
		{"sidecar with a bad probe", withInit(true, func(c ctr) {
			c.StartupProbe = probe()
			c.StartupProbe.SuccessThreshold = 2
		}), texts{"startupProbe.successThreshold: Invalid value: 2: must be 1"}},
		{"sidecar with a bad hook", withInit(true, func(c ctr) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}), texts{"lifecycle.postStart: Required value: must specify a handler type"}},
		{"restarted on failure", withInit(false, func(c ctr) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
		}), nil},
		{"unknown restart policy", withInit(false, func(c ctr) {
			c.RestartPolicy = new(corev1.ContainerRestartPolicy("Once"))
		}), texts{`restartPolicy: Unsupported value: "Once": supported values: "Always", "Never", "OnFailure"`}},
		{"resized without a restart", withInit(false, func(c ctr) {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
		}), nil},
		{
			"resized by a restart",
			withInit(false, func(c ctr) {
				c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu",
					RestartPolicy: corev1.RestartContainer}}
			}),
			texts{
				`resizePolicy[0].restartPolicy: Invalid value: "RestartContainer": must not be set to 'RestartContainer' for non-sidecar initContainers`,
			},
		},
		{"sidecar resized by a restart", withInit(true, func(c ctr) {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu",
				RestartPolicy: corev1.RestartContainer}}
		}), nil},
	})
}

// TestRestartRules (KEP-5307).
func TestRestartRules(t *testing.T) {
	type rule = corev1.ContainerRestartRule
	on := func(action, op string, codes ...int32) rule {
		return rule{Action: corev1.ContainerRestartRuleAction(action),
			ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
				Operator: corev1.ContainerRestartRuleOnExitCodesOperator(op), Values: codes}}
	}
	with := func(policy string, rules ...rule) func(c *corev1.Container) {
		return func(c *corev1.Container) {
			if policy != "" {
				c.RestartPolicy = new(corev1.ContainerRestartPolicy(policy))
			}
			c.RestartPolicyRules = rules
		}
	}
	const none = "restartPolicy: Required value: must specify restartPolicy when restart rules are used"
	for _, c := range []struct {
		name   string
		change func(c *corev1.Container)
		want   texts
	}{
		{"none", with("Never"), nil},
		{"in", with("Never", on("Restart", "In", 42)), nil},
		{"not in", with("OnFailure", on("Restart", "NotIn", 1, 2)), nil},
		{"all containers", with("Never", on("RestartAllContainers", "In", 42)), nil},
		{"policy", with("Sometimes"),
			texts{`restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"`}},
		{"no policy", with("", on("Restart", "In", 42)), texts{none}},
		{"as many as may be", with("Never", slices.Repeat([]rule{on("Restart", "In", 1)}, 20)...), nil},
		{"too many", with("Never", slices.Repeat([]rule{on("Restart", "In", 1)}, 21)...),
			texts{"restartPolicyRules: Too many: 21: must have at most 20 items"}},
		{"action", with("Never", on("Stop", "In", 1)),
			texts{`restartPolicyRules[0].action: Unsupported value: "Stop": ` +
				`supported values: "Restart", "RestartAllContainers"`}},
		{"no codes", with("Never", on("Restart", "In", 1), rule{Action: "Restart"}),
			texts{"restartPolicyRules[1].exitCodes: Required value: must be specified"}},
		{"operator", with("Never", on("Restart", "Equals", 1)),
			texts{`restartPolicyRules[0].exitCodes.operator: Unsupported value: "Equals": supported values: "In", "NotIn"`}},
		{"too many codes", with("Never", on("Restart", "In", make([]int32, 256)...)),
			texts{"restartPolicyRules[0].exitCodes.values: Too many: 256: must have at most 255 items"}},
	} {
		checkSpecs(t, "spec.containers[0].", []specCase{{c.name, inContainer(c.change), c.want}})
		checkSpecs(t, "spec.initContainers[0].", []specCase{{c.name + ", init", withInit(false, c.change), c.want}})
	}
	// Without a policy nothing else is told of the rules of init containers.
	checkSpecs(t, "spec.initContainers[0].", []specCase{
		{"bad rules without a policy", withInit(false, with("", on("Stop", "In"))), texts{none}}})
}

// TestEphemeralContainers: what they may not have; TestEphemeralUpdate is about how they come.
func TestEphemeralContainers(t *testing.T) {
	type common = *corev1.EphemeralContainerCommon
	with := func(change func(c common)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			e := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(named("e"))}
			change(&e.EphemeralContainerCommon)
			s.EphemeralContainers = append(s.EphemeralContainers, e)
		}
	}
	const never = ": Forbidden: cannot be set for an Ephemeral Container"
	for _, c := range []struct {
		name   string
		change func(*corev1.PodSpec)
		want   texts
	}{
		{"minimal", with(func(common) {}), nil},
		{"name of another container", with(func(c common) { c.Name = "c" }), texts{`name: Duplicate value: "c"`}},
		{"no image", with(func(c common) { c.Image = "" }), texts{"image: Required value"}},
		{"image with space", with(func(c common) { c.Image = "i " }),
			texts{`image: Invalid value: "i ": must not have leading or trailing whitespace`}},
		{"target", func(s *corev1.PodSpec) {
			with(func(common) {})(s)
			s.EphemeralContainers[0].TargetContainerName = "c"
		}, nil},
		{"unknown target", func(s *corev1.PodSpec) {
			with(func(common) {})(s)
			s.EphemeralContainers[0].TargetContainerName = "e"
		}, texts{`targetContainerName: Not found: "e"`}},
		{"ports", with(func(c common) { c.Ports = []corev1.ContainerPort{} }), texts{"ports" + never}},
		{"limits", with(func(c common) { c.Resources.Limits = amounts("cpu", "1") }), texts{"resources" + never}},
		{"no requests", with(func(c common) { c.Resources.Requests = corev1.ResourceList{} }),
			texts{"resources" + never}},
		{"resize policy", with(func(c common) { c.ResizePolicy = []corev1.ContainerResizePolicy{} }),
			texts{"resizePolicy" + never}},
		{"restart policy", with(func(c common) { c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways) }),
			texts{"restartPolicy" + never}},
		{"restart rules", with(func(c common) { c.RestartPolicyRules = []corev1.ContainerRestartRule{} }),
			texts{"restartPolicyRules" + never}},
		{"probes and hooks", with(func(c common) {
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}
			c.Lifecycle = &corev1.Lifecycle{}
		}), texts{"livenessProbe" + never, "readinessProbe" + never, "startupProbe" + never, "lifecycle" + never}},
		{"a part of a volume", func(s *corev1.PodSpec) {
			withVolume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})(s)
			with(func(c common) {
				c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/a"},
					{Name: "v", MountPath: "/b", SubPath: "b"}, {Name: "v", MountPath: "/c", SubPathExpr: "c"}}
			})(s)
		}, texts{"volumeMounts[1].subPath" + never, "volumeMounts[2].subPathExpr" + never}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := minimal()
			p := old.DeepCopy()
			c.change(&p.Spec)
			old.Spec.Volumes = p.Spec.Volumes
			sameTexts(t, errorsBelow("spec.ephemeralContainers[0].", Rules{}.ValidateEphemeralUpdate(p, old, nil)),
				c.want)
			want := "spec.ephemeralContainers: Forbidden: cannot be set on create"
			if got := errorsBelow("", Rules{}.ValidateCreate(p)); !slices.Contains(got, want) {
				t.Errorf("on create: %q", got)
			}
		})
	}
}
