package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

type updateCase struct {
	name        string
	before, now func(p *corev1.Pod) // before is optional
	want        texts
}

func checkUpdates(t *testing.T, cases []updateCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			old := minimal()
			if c.before != nil {
				c.before(old)
			}
			p := old.DeepCopy()
			c.now(p)
			sameTexts(t, errorsBelow("", Rules{}.ValidateUpdate(p, old)), c.want)
		})
	}
}

// TestMutableFields: everything that may change in a pod, and how.
func TestMutableFields(t *testing.T) {
	type pod = *corev1.Pod
	type spec = *corev1.PodSpec
	seconds := func(n int64) func(p pod) { return func(p pod) { p.Spec.ActiveDeadlineSeconds = &n } }
	tolerate := func(list ...corev1.Toleration) func(p pod) { return func(p pod) { p.Spec.Tolerations = list } }
	init := func(p pod) { withInit(false, func(*corev1.Container) {})(&p.Spec) }
	const onlyAdd = "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
	a := corev1.Toleration{Key: "a", Operator: "Exists", Effect: "NoExecute"}
	timed := a
	timed.TolerationSeconds = new(int64(5))
	checkUpdates(t, []updateCase{
		{"labels", nil, func(p pod) { p.Labels = map[string]string{"a": "b"} }, nil},
		{"image of an init container", init, func(p pod) { p.Spec.InitContainers[0].Image = "j" }, nil},
		{"no image", nil, func(p pod) { p.Spec.Containers[0].Image = "" }, // told twice, as upstream does
			texts{"spec.containers[0].image: Required value", "spec.containers[0].image: Required value"}},
		{"init container", nil, init,
			texts{"spec.initContainers: Forbidden: pod updates may not add or remove containers"}},
		{"init container's command", init, func(p pod) { p.Spec.InitContainers[0].Args = texts{"a"} },
			texts{"spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`," +
				"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing " +
				"tolerations)," +
				"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n…"}},
		{"deadline", nil, seconds(5), nil},
		{"earlier deadline", seconds(5), seconds(4), nil},
		{"the same deadline", seconds(5), seconds(5), nil},
		{"no deadline", seconds(5), func(p pod) { p.Spec.ActiveDeadlineSeconds = nil },
			texts{"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"}},
		{"negative deadline", seconds(5), seconds(-1), texts{
			"spec.activeDeadlineSeconds: Invalid value: -1: must be between 1 and 2147483647, inclusive",
			"spec.activeDeadlineSeconds: Invalid value: -1: must be between 0 and 2147483647, inclusive"}},
		{"tolerations", tolerate(a), tolerate(corev1.Toleration{Operator: "Exists"}, a), nil},
		{"time of a toleration", tolerate(a), tolerate(timed), nil},
		{"no time of a toleration", tolerate(timed), tolerate(a), nil},
		{"effect of a toleration", tolerate(a),
			tolerate(corev1.Toleration{Key: "a", Operator: "Exists", Effect: "NoSchedule"}),
			texts{onlyAdd}},
		{"grace", nil, func(p pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(5)) },
			texts{"spec: Forbidden: pod updates may not change fields…"}},
		{"resources", nil, func(p pod) { p.Spec.Containers[0].Resources.Requests = amounts("cpu", "1") },
			texts{"spec: Forbidden: pod updates may not change fields…"}},
		{"empty for nothing", nil, func(p pod) {
			p.Spec.Volumes, p.Spec.NodeSelector = []corev1.Volume{},
				map[string]string{}
		}, nil},
		{"the same amount in another form", func(p pod) { p.Spec.Overhead = amounts("cpu", "1") },
			func(p pod) { p.Spec.Overhead = amounts("cpu", "1000m") }, nil},
		{"new fault", nil, func(p pod) { p.Spec.ServiceAccountName = "A" },
			texts{`spec.serviceAccountName: Invalid value: "A": a lowercase RFC 1123 subdomain must…`,
				"spec: Forbidden: pod updates…"}},
	})
	// Every other field of the spec stays.
	for name, change := range map[string]func(s spec){
		"volumes":            withVolume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}),
		"restartPolicy":      func(s spec) { s.RestartPolicy = "Never" },
		"dnsPolicy":          func(s spec) { s.DNSPolicy = "Default" },
		"nodeSelector":       func(s spec) { s.NodeSelector = map[string]string{"a": "b"} },
		"serviceAccountName": func(s spec) { s.ServiceAccountName = "b" },
		"hostname":           func(s spec) { s.Hostname = "b" },
		"hostNetwork":        func(s spec) { s.HostNetwork = true },
		"securityContext":    func(s spec) { s.SecurityContext.RunAsNonRoot = new(true) },
		"imagePullSecrets":   func(s spec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "a"}} },
		"schedulerName":      func(s spec) { s.SchedulerName = "b" },
		"hostAliases":        func(s spec) { s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.1"}} },
		"priority":           func(s spec) { s.Priority = new(int32(1)) },
		"enableServiceLinks": func(s spec) { s.EnableServiceLinks = new(false) },
		"overhead":           func(s spec) { s.Overhead = amounts("cpu", "1") },
		"os":                 func(s spec) { s.OS = &corev1.PodOS{Name: "linux"} },
		"container name":     func(s spec) { s.Containers[0].Name = "d" },
		"pull policy":        func(s spec) { s.Containers[0].ImagePullPolicy = "Never" },
		"working directory":  func(s spec) { s.Containers[0].WorkingDir = "/a" },
	} {
		checkUpdates(t, []updateCase{{name, nil, func(p pod) { change(&p.Spec) },
			texts{"spec: Forbidden: pod updates may not change fields…"}}})
	}
}

// TestGatedPods: until its gates are gone the choice of nodes may become stricter.
func TestGatedPods(t *testing.T) {
	type pod = *corev1.Pod
	gated := func(selector map[string]string) func(p pod) {
		return func(p pod) {
			p.Spec.SchedulingGates, p.Spec.NodeSelector = []corev1.PodSchedulingGate{{Name: "g"}}, selector
		}
	}
	const onlyAdd = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
	nodes := func(terms ...corev1.NodeSelectorTerm) func(p pod) {
		return func(p pod) {
			gated(nil)(p)
			p.Spec.Affinity = nodesOf(terms...)
		}
	}
	const terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	one := expressionTerm(nodeReq("a", "Exists"))
	checkUpdates(t, []updateCase{
		{"more labels", gated(map[string]string{"a": "b"}), func(p pod) { p.Spec.NodeSelector["c"] = "d" }, nil},
		{"another value", gated(map[string]string{"a": "b"}), func(p pod) { p.Spec.NodeSelector["a"] = "c" },
			texts{`spec.nodeSelector: Invalid value: {"a":"c"}: ` + onlyAdd}},
		{"no labels", gated(map[string]string{"a": "b"}), func(p pod) { p.Spec.NodeSelector = nil },
			texts{"spec.nodeSelector: Invalid value: null: " + onlyAdd}},
		{"stricter, as the last gate goes", gated(nil), func(p pod) {
			p.Spec.SchedulingGates, p.Spec.NodeSelector = nil, map[string]string{"a": "b"}
		}, nil},
		{"another term", nodes(one), func(p pod) {
			r := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			r.NodeSelectorTerms = append(r.NodeSelectorTerms, one)
		}, texts{terms + ": Invalid value: [{…"}},
		{"no terms", nodes(one), func(p pod) { p.Spec.Affinity = nil },
			texts{terms +
				": Invalid value: null: no additions/deletions to non-empty NodeSelectorTerms list are allowed"}},
		{"preferred nodes", nodes(one), func(p pod) {
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{
				{Weight: 1, Preference: one}}
		}, nil},
		{"a command", gated(nil), func(p pod) { p.Spec.Containers[0].Command = texts{"a"} },
			texts{"spec: Forbidden: pod updates may not change fields…"}},
	})
}

// TestKeptAnnotations: what a pod is stays, through all endpoints.
func TestKeptAnnotations(t *testing.T) {
	const mirror, armor = corev1.MirrorPodAnnotationKey, "container.apparmor.security.beta.kubernetes.io/c"
	const at = "metadata.annotations["
	type notes = map[string]string
	for name, c := range map[string]struct {
		was, is notes
		want    texts
	}{
		"nothing": {nil, notes{}, nil},
		"others":  {notes{"a": "b", "c": "d"}, notes{"a": "c", "e": "f"}, nil},
		"mirror":  {notes{mirror: "x"}, notes{mirror: "x"}, nil},
		"not a mirror": {notes{mirror: "x"}, nil,
			texts{at + mirror + "]: Forbidden: may not remove or update mirror pod annotation"}},
		"another mirror": {notes{mirror: "x"}, notes{mirror: "y"},
			texts{at + mirror + "]: Forbidden: may not remove or update mirror pod annotation"}},
		"a mirror": {nil, notes{mirror: "x"},
			texts{at + mirror + "]: Forbidden: may not add mirror pod annotation"}},
		"profile": {nil, notes{armor: "unconfined"},
			texts{at + armor + "]: Forbidden: may not add AppArmor annotations"}},
		"another profile": {notes{armor: "unconfined"}, notes{armor: "runtime/default"},
			texts{at + armor + "]: Forbidden: may not remove or update AppArmor annotations"}},
		"no profile": {notes{armor: "unconfined"}, notes{"a": "b"},
			texts{at + armor + "]: Forbidden: may not remove or update AppArmor annotations"}},
		"of a new fault": {nil, notes{corev1.PodDeletionCost: "x"},
			texts{at + corev1.PodDeletionCost + `]: Invalid value: "x": must be a 32bit integer`}},
		"of an old fault": {notes{corev1.PodDeletionCost: "x"}, notes{corev1.PodDeletionCost: "y"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			old := minimal()
			old.Spec.NodeName, old.Annotations = "n", c.was
			p := old.DeepCopy()
			p.Annotations = c.is
			sameTexts(t, errorsBelow("", keptAnnotations(p, oldPodState(old))), c.want)
		})
	}
}
