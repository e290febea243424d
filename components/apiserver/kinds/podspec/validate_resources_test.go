package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestContainerResources(t *testing.T) {
	with := func(requests, limits texts) func(*corev1.PodSpec) {
		return inContainer(func(c *corev1.Container) {
			c.Resources = corev1.ResourceRequirements{Requests: amounts(requests...), Limits: amounts(limits...)}
		})
	}
	const gpu, pages = "example.com/gpu", "hugepages-2Mi"
	const needed = "Required value: Limit must be set for non overcommitable resources"
	checkSpecs(t, "spec.containers[0].resources", []specCase{
		{"all", with(texts{"cpu", "1m", "memory", "1", "ephemeral-storage", "1Gi"},
			texts{"cpu", "1", "memory", "1Gi", "ephemeral-storage", "1Gi", gpu, "2"}), nil},
		{"as much", with(texts{"cpu", "1"}, texts{"cpu", "1000m"}), nil},
		{"more memory", with(texts{"memory", "2Gi"}, texts{"memory", "1Gi"}),
			texts{`.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi`}},
		{"negative request", with(texts{"memory", "-1"}, nil),
			texts{`.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"devices", with(texts{gpu, "2"}, texts{gpu, "2"}), nil},
		{"fewer devices", with(texts{gpu, "1"}, texts{gpu, "2"}),
			texts{`.requests: Invalid value: "1": must be equal to example.com/gpu limit of 2`}},
		{"devices without a limit", with(texts{gpu, "1"}, nil), texts{".limits: " + needed}},
		{"half a device", with(nil, texts{gpu, "500m"}),
			texts{`.limits[example.com/gpu]: Invalid value: "500m": must be an integer`}},
		{"pages", with(texts{"memory", "1"}, texts{pages, "4Mi"}), nil},
		{"pages alone", with(texts{pages, "4Mi"}, texts{pages, "4Mi"}),
			texts{": Forbidden: HugePages require cpu or memory"}},
		{"pages without a limit", with(texts{"cpu", "1", pages, "2Mi"}, nil), texts{".limits: " + needed}},
		{"parts of pages", with(texts{"cpu", "1"}, texts{pages, "3Mi"}),
			texts{`.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`}},
		{"pages of no size", with(texts{"cpu", "1"}, texts{"hugepages-x", "3Mi"}),
			texts{`.limits[hugepages-x]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-x`}},
		{"no resource of containers", with(texts{"pods", "1"}, texts{"pods", "1"}),
			texts{`.limits[pods]: Invalid value: "pods": must be a standard resource for containers`,
				`.requests[pods]: Invalid value: "pods": must be a standard resource for containers`}},
		{"storage", with(texts{"storage", "1Gi"}, nil),
			texts{`.requests[storage]: Invalid value: "storage": must be a standard resource for containers`}},
		{"unknown", with(nil, texts{"gpu", "1"}), texts{
			`.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
			`.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers`}},
		{
			"prefix of quotas",
			with(nil, texts{"requests.example.com/gpu", "1"}),
			texts{
				`.limits[requests.example.com/gpu]: Invalid value: "requests.example.com/gpu": doesn't follow extended resource name standard`,
			},
		},
		{"kubernetes' own", with(texts{"kubernetes.io/gpu", "1"}, nil), nil},
	})
}

func TestOverhead(t *testing.T) {
	with := func(pairs ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.Overhead = amounts(pairs...) }
	}
	checkSpecs(t, "spec.overhead.", []specCase{
		{"good", with("cpu", "1m", "memory", "1Mi"), nil},
		{"negative", with("cpu", "-1"), texts{`limits[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
		{"bad name", with("pods", "1"),
			texts{`limits[pods]: Invalid value: "pods": must be a standard resource for containers`}},
	})
	sameTexts(t, errorsBelow("", Overhead(amounts("a b", "1"), field.NewPath("o"))), texts{
		`o.limits[a b]: Invalid value: "a b": name part must consist of…`,
		`o.limits[a b]: Invalid value: "a b": must be a standard resource for containers`})
}

// TestPodResources (KEP-2837).
func TestPodResources(t *testing.T) {
	type amountsOf = corev1.ResourceRequirements
	with := func(pod amountsOf, containers ...amountsOf) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			s.Resources = &pod
			s.Containers = nil
			for i, r := range containers {
				c := named(string(rune('a' + i)))
				c.Resources = r
				s.Containers = append(s.Containers, c)
			}
		}
	}
	one := amountsOf{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "2")}
	checkSpecs(t, "spec.resources", []specCase{
		{"enough", with(amountsOf{Requests: amounts("cpu", "2"), Limits: amounts("cpu", "2")}, one, one), nil},
		{"not enough", with(amountsOf{Requests: amounts("cpu", "1500m"), Limits: amounts("cpu", "4")}, one, one), texts{
			`.requests[cpu]: Invalid value: "1500m": must be greater than or equal to aggregate container requests of 2`}},
		{"less than one container's", with(amountsOf{Requests: amounts("cpu", "1"), Limits: amounts("cpu", "1")}, one),
			texts{
				`.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1`}},
		{"more than the limit", with(amountsOf{Requests: amounts("memory", "2"), Limits: amounts("memory", "1")},
			amountsOf{}),
			texts{`.requests: Invalid value: "2": must be less than or equal to memory limit of 1`}},
		{
			"pages",
			with(amountsOf{Limits: amounts("cpu", "4", "hugepages-2Mi", "2Mi")},
				amountsOf{Limits: amounts("hugepages-2Mi", "2Mi", "cpu", "1"),
					Requests: amounts("hugepages-2Mi", "2Mi", "cpu", "1")},
				amountsOf{Limits: amounts("hugepages-2Mi", "2Mi", "cpu", "1"),
					Requests: amounts("hugepages-2Mi", "2Mi", "cpu", "1")}),
			texts{
				`.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container limits of 4Mi`,
			},
		},
		{"claims", with(amountsOf{Claims: []corev1.ResourceClaim{}}, one),
			texts{".claims: Forbidden: claims may not be set for Resources at pod-level"}},
		{
			"storage",
			with(amountsOf{Requests: amounts("ephemeral-storage", "1")}, one),
			texts{
				`.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"`,
			},
		},
		{"unknown", with(amountsOf{Requests: amounts("gpu", "1"), Limits: amounts("gpu", "1")}, one), texts{
			`.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`,
			`.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`}},
	})
}

func TestResizePolicies(t *testing.T) {
	policy := func(name corev1.ResourceName, restart corev1.ResourceResizeRestartPolicy) corev1.ContainerResizePolicy {
		return corev1.ContainerResizePolicy{ResourceName: name, RestartPolicy: restart}
	}
	with := func(pod corev1.RestartPolicy, list ...corev1.ContainerResizePolicy) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { s.RestartPolicy, s.Containers[0].ResizePolicy = pod, list }
	}
	checkSpecs(t, "spec.containers[0].resizePolicy", []specCase{
		{"both", with("Always", policy("cpu", "NotRequired"), policy("memory", "RestartContainer")), nil},
		{"twice", with("Always", policy("cpu", "NotRequired"), policy("cpu", "NotRequired")),
			texts{`[1]: Duplicate value: "cpu"`}},
		{"another resource", with("Always", policy("ephemeral-storage", "NotRequired")),
			texts{`: Unsupported value: "ephemeral-storage": supported values: "cpu", "memory"`}},
		{"nothing", with("Always", policy("", "")), texts{": Required value", ": Required value"}},
		{"another policy", with("Always", policy("cpu", "Restart")),
			texts{`: Unsupported value: "Restart": supported values: "NotRequired", "RestartContainer"`}},
		{"restart of a pod that never does", with("Never", policy("cpu", "RestartContainer")),
			texts{`: Invalid value: "RestartContainer": must be 'NotRequired' when pod ` +
				"`restartPolicy` is 'Never'"}},
		{"none of such a pod", with("Never", policy("cpu", "NotRequired")), nil},
	})
}

func TestQuantities(t *testing.T) {
	const least, whole = "must be greater than or equal to 0", "must be an integer"
	for _, c := range []struct {
		name, amount string
		want         texts
	}{
		{"cpu", "1500m", nil}, {"cpu", "0", nil}, {"cpu", "-1m", texts{least}}, {"memory", "1500m", nil},
		{"pods", "3", nil},
		{"pods", "1500m", texts{whole}}, {"services.loadbalancers", "1m", texts{whole}},
		{"example.com/gpu", "1500m", texts{whole}}, {"example.com/gpu", "-500m", texts{least, whole}},
		{"kubernetes.io/x", "1500m", nil}, {"requests.cpu", "1500m", nil},
	} {
		for i := range c.want {
			c.want[i] = `p: Invalid value: "` + c.amount + `": ` + c.want[i]
		}
		q := resource.MustParse(c.amount)
		sameTexts(t, errorsBelow("", Quantity(corev1.ResourceName(c.name), q, field.NewPath("p"))), c.want)
		if q.IsZero() {
			c.want = texts{`p: Invalid value: "0": must be greater than zero`}
		}
		sameTexts(t, errorsBelow("", PositiveQuantity(corev1.ResourceName(c.name), q, field.NewPath("p"))), c.want)
	}
}

// TestOvercommit: of what the request may be below the limit.
func TestOvercommit(t *testing.T) {
	for name, want := range map[corev1.ResourceName]bool{"cpu": true, "ephemeral-storage": true,
		"kubernetes.io/x": true,
		"hugepages-1Gi":   false, "example.com/gpu": false} {
		if got := Overcommit(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
