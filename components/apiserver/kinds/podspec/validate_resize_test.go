package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestResizeRules: CPU and memory of containers that there are, in the same class of service.
func TestResizeRules(t *testing.T) {
	type pod = *corev1.Pod
	sized := func(p pod) {
		p.Spec.InitContainers = []corev1.Container{named("i"), named("s")}
		p.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				list[i].Resources = corev1.ResourceRequirements{Requests: amounts("cpu", "1"),
					Limits: amounts("cpu", "4")}
			}
		}
	}
	also := func(changes ...func(p pod)) func(p pod) {
		return func(p pod) {
			sized(p)
			for _, change := range changes {
				change(p)
			}
		}
	}
	ctr := func(change func(c *corev1.Container)) func(p pod) {
		return func(p pod) { change(&p.Spec.Containers[0]) }
	}
	const compute = "spec: Forbidden: only cpu and memory resources are mutable"
	const initCompute = "Forbidden: only cpu and memory resources for init or sidecar containers are mutable"
	running := func(reported *corev1.ResourceRequirements) func(p pod) {
		return func(p pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", Resources: reported,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}
	}
	nothing := func(pod) {}
	restarting := func(p pod) {
		p.Spec.InitContainers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu",
			RestartPolicy: "RestartContainer"}}
	}
	for _, c := range []struct {
		name        string
		before, now func(p pod)
		want        texts
	}{
		{"nothing", sized, nothing, nil},
		{"more", sized, ctr(func(c *corev1.Container) { c.Resources.Requests = amounts("cpu", "2", "memory", "1Gi") }),
			nil},
		{"less", sized, ctr(func(c *corev1.Container) { c.Resources.Limits = amounts("cpu", "2") }), nil},
		{"no request", sized, ctr(func(c *corev1.Container) { c.Resources.Requests = nil }),
			texts{"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"}},
		{"no limit", sized, ctr(func(c *corev1.Container) { c.Resources.Limits = nil }),
			texts{"spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"}},
		{"storage", sized,
			ctr(func(c *corev1.Container) { c.Resources.Requests["ephemeral-storage"] = amounts("a", "1")["a"] }),
			texts{compute}},
		{"resize policy", sized, ctr(func(c *corev1.Container) {
			c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: "NotRequired"}}
		}), texts{compute}},
		{"another image", sized, ctr(func(c *corev1.Container) { c.Image = "j" }), texts{compute}},
		{"another node", sized, func(p pod) { p.Spec.NodeName = "n" }, texts{compute}},
		{"another container", sized, func(p pod) { p.Spec.Containers = append(p.Spec.Containers, named("d")) },
			texts{"spec.containers: Forbidden: containers may not be added or removed on resize"}},
		{"no init containers", sized, func(p pod) { p.Spec.InitContainers = nil },
			texts{"spec.initContainers: Forbidden: initContainers may not be added or removed on resize"}},
		{"another order", sized, func(p pod) {
			list := p.Spec.InitContainers
			list[0], list[1] = list[1], list[0]
		}, texts{"spec.initContainers[0].name: Forbidden: initContainers may not be renamed or reordered on resize",
			"spec.initContainers[1].name: Forbidden: initContainers may not be renamed or reordered on resize"}},
		{"sidecar", sized, func(p pod) { p.Spec.InitContainers[1].Resources.Requests = amounts("cpu", "2") }, nil},
		{"init container", sized, func(p pod) { p.Spec.InitContainers[0].Resources.Requests = amounts("cpu", "2") },
			nil},
		{"init container without a limit", sized, func(p pod) { p.Spec.InitContainers[0].Resources.Limits = nil },
			texts{"spec.initContainers[0].resources.limits: Forbidden: resource limits cannot be removed"}},
		{"image of an init container", sized, func(p pod) { p.Spec.InitContainers[1].Image = "j" },
			texts{"spec.initContainers[1]: " + initCompute}},
		{"init container that would be restarted", also(restarting),
			func(p pod) { p.Spec.InitContainers[0].Resources.Requests = amounts("cpu", "2") },
			texts{"spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer " +
				"cannot be resized"}},
		{"other than one that would be restarted", also(restarting),
			ctr(func(c *corev1.Container) { c.Resources.Requests = amounts("cpu", "2") }), nil},
		{"on Windows", also(func(p pod) { p.Spec.OS = &corev1.PodOS{Name: "windows"} }),
			ctr(func(c *corev1.Container) { c.Resources.Requests = amounts("cpu", "2") }),
			texts{"[]: Forbidden: windows pods cannot be resized"}},
		{"class of service", sized, func(p pod) {
			for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for i := range list {
					r := amounts("cpu", "4", "memory", "1Gi")
					list[i].Resources = corev1.ResourceRequirements{Requests: r, Limits: r.DeepCopy()}
				}
			}
		}, texts{`spec: Invalid value: "": Pod QOS Class may not change as a result of resizing`}},
		{"node that can't", also(running(nil)), nothing,
			texts{"spec: Forbidden: Pod running on node without support for resize"}},
		{"node that can", also(running(&corev1.ResourceRequirements{})), nothing, nil},
		{"invalid amount", sized, ctr(func(c *corev1.Container) { c.Resources.Requests = amounts("cpu", "5") }),
			texts{`spec.containers[0].resources.requests: Invalid value: "5": must be less than or equal to cpu limit of 4`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			old := minimal()
			c.before(old)
			p := old.DeepCopy()
			c.now(p)
			sameTexts(t, errorsBelow("", Rules{}.ValidateResize(p, old, nil)), c.want)
		})
	}
}

// TestResized: what /resize takes of what is wanted.
func TestResized(t *testing.T) {
	has := []corev1.Container{{Name: "a", Image: "i"}, {Name: "b", Image: "j"}}
	policy := []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: "NotRequired"}}
	wanted := []corev1.Container{{Name: "a", Image: "k", ResizePolicy: policy},
		{Name: "b", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "1")}}}
	got := Resized(has, wanted)
	if got[0].Image != "i" || len(got[0].ResizePolicy) != 1 || got[1].Image != "j" || len(got[1].Resources.Requests) != 1 {
		t.Errorf("got %+v", got)
	}
	wanted[1].Name = "c"
	if got := Resized(has, wanted); got[0].Image != "k" {
		t.Errorf("of another name: got %+v", got)
	}
}
