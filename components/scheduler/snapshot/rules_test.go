package snapshot_test

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/scheduler/schedulertest"
	"quintet.dev/quintet/components/scheduler/snapshot"
)

func asks(cpu, memory string) v1.ResourceRequirements {
	r := v1.ResourceList{}
	if cpu != "" {
		r[v1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		r[v1.ResourceMemory] = resource.MustParse(memory)
	}
	return v1.ResourceRequirements{Requests: r}
}

// TestRequests: containers add up, of init containers the largest counts, sidecars run along, and overhead and
// pod-level requests apply. What scores assume of containers that ask for nothing is 100m and 200Mi.
func TestRequests(t *testing.T) {
	always := ptr.To(v1.ContainerRestartPolicyAlways)
	const mi = 1 << 20
	for name, c := range map[string]struct {
		change               func(*v1.Pod)
		cpu, memory          int64
		scoredCPU, scoredMem int64
	}{
		"nothing": {nil, 0, 0, 100, 200 * mi},
		"two containers": {func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{{Resources: asks("1", "1Mi")}, {Resources: asks("500m", "2Mi")}}
		}, 1500, 3 * mi, 1500, 3 * mi},
		"one asks for cpu only": {func(p *v1.Pod) {
			p.Spec.Containers = []v1.Container{{Resources: asks("1", "")}, {Resources: asks("", "2Mi")}}
		}, 1000, 2 * mi, 1100, 202 * mi},
		"a larger init container": {func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("2", "1Mi")}, {Resources: asks("1", "9Mi")}}
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 2000, 9 * mi, 2000, 9 * mi},
		"a sidecar": {func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("1", "1Mi"), RestartPolicy: always}}
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 2000, 2 * mi, 2000, 2 * mi},
		"an init container beside a sidecar": {func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("1", "1Mi"), RestartPolicy: always},
				{Resources: asks("3", "1Mi")}}
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 4000, 2 * mi, 4000, 2 * mi},
		"an init container before a sidecar": {func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Resources: asks("3", "1Mi")},
				{Resources: asks("1", "1Mi"), RestartPolicy: always}}
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 3000, 2 * mi, 3000, 2 * mi},
		"overhead": {func(p *v1.Pod) {
			p.Spec.Overhead = asks("250m", "10Mi").Requests
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 1250, 11 * mi, 1250, 11 * mi},
		"of the pod as a whole": {func(p *v1.Pod) {
			p.Spec.Resources = ptr.To(asks("3", "5Mi"))
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
		}, 3000, 5 * mi, 3000, 5 * mi},
		"a resize under way": {func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = asks("1", "1Mi")
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Resources: ptr.To(asks("2", "1Mi")),
				AllocatedResources: asks("2", "1Mi").Requests}}
		}, 2000, 1 * mi, 2000, 1 * mi},
		"a resize that can't be": {func(p *v1.Pod) {
			p.Spec.Containers[0].Resources = asks("8", "1Mi")
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Status: v1.ConditionTrue,
				Reason: v1.PodReasonInfeasible}}
			p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", Resources: ptr.To(asks("2", "1Mi")),
				AllocatedResources: asks("2", "1Mi").Requests}}
		}, 2000, 1 * mi, 2000, 1 * mi},
	} {
		p := snapshot.NewPod(schedulertest.Pod("p", "", c.change))
		got := []int64{p.Requests.CPU, p.Requests.Memory, p.Scored.CPU, p.Scored.Memory}
		if want := []int64{c.cpu, c.memory, c.scoredCPU, c.scoredMem}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestResourcesOf(t *testing.T) {
	r := snapshot.ResourcesOf(v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1500m"), v1.ResourceMemory: resource.MustParse("1Ki"),
		v1.ResourceEphemeralStorage: resource.MustParse("2Ki"), v1.ResourcePods: resource.MustParse("7"),
		"hugepages-2Mi": resource.MustParse("4Mi"), "example.com/gpu": resource.MustParse("3"),
	})
	for name, want := range map[v1.ResourceName]int64{v1.ResourceCPU: 1500, v1.ResourceMemory: 1024,
		v1.ResourceEphemeralStorage: 2048, "hugepages-2Mi": 4 << 20, "example.com/gpu": 3, v1.ResourcePods: 0, "x": 0} {
		if got := r.Of(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestTerms: a term selects pods by their labels, in the namespaces that it names or selects, or in its own pod's.
func TestTerms(t *testing.T) {
	namespaces := func(name string) labels.Set {
		return map[string]labels.Set{"default": {"team": "a"}, "other": {"team": "b"}}[name]
	}
	term := v1.PodAffinityTerm{TopologyKey: "zone",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}}
	for name, c := range map[string]struct {
		change    func(*v1.PodAffinityTerm)
		namespace string
		app       string
		want, may bool
	}{
		"its own namespace": {nil, "default", "x", true, true},
		"another namespace": {nil, "other", "x", false, false},
		"other labels":      {nil, "default", "y", false, false},
		"a named namespace": {func(t *v1.PodAffinityTerm) { t.Namespaces = []string{"other"} }, "other", "x", true, true},
		"no more its own": {func(t *v1.PodAffinityTerm) { t.Namespaces = []string{"other"} },
			"default", "x", false, false},
		"any namespace": {func(t *v1.PodAffinityTerm) { t.NamespaceSelector = &metav1.LabelSelector{} },
			"third", "x", true, true},
		"a selected namespace": {selecting("b"), "other", "x", true, true},
		"one not selected":     {selecting("b"), "default", "x", false, true}, // labels are not at hand to MayMatch
		"named or selected": {func(t *v1.PodAffinityTerm) {
			selecting("b")(t)
			t.Namespaces = []string{"default"}
		}, "default", "x", true, true},
		"no selector selects none": {func(t *v1.PodAffinityTerm) { t.LabelSelector = nil }, "default", "x", false, false},
		"an empty one selects all": {func(t *v1.PodAffinityTerm) { t.LabelSelector = &metav1.LabelSelector{} },
			"default", "y", true, true},
	} {
		made := term
		if c.change != nil {
			c.change(&made)
		}
		p := snapshot.NewPod(schedulertest.Pod("p", "", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{made}}}
		}))
		if p.Invalid != nil || p.Affinity.Empty() {
			t.Fatalf("%s: %v", name, p.Invalid)
		}
		parsed := &p.Affinity.Required[0]
		if got := parsed.Matches(c.namespace, labels.Set{"app": c.app}, namespaces); got != c.want {
			t.Errorf("%s: matches %v", name, got)
		}
		if got := parsed.MayMatch(c.namespace, labels.Set{"app": c.app}); got != c.may {
			t.Errorf("%s: may match %v", name, got)
		}
	}
}

func selecting(team string) func(*v1.PodAffinityTerm) {
	return func(t *v1.PodAffinityTerm) {
		t.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": team}}
	}
}

// TestInvalidTerms: a selector that can't be parsed is told, wherever it is.
func TestInvalidTerms(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Odd"}}}
	term := v1.PodAffinityTerm{TopologyKey: "zone", LabelSelector: bad}
	weighted := []v1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}
	inNamespaces := v1.PodAffinityTerm{TopologyKey: "zone", NamespaceSelector: bad}
	for name, c := range map[string]struct {
		affinity v1.Affinity
		want     string
	}{
		"near": {v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}, "label selector"},
		"preferred": {v1.Affinity{PodAffinity: &v1.PodAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: weighted}}, "label selector"},
		"away": {v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{inNamespaces}}}, "namespace selector"},
		"preferred away": {v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: weighted}}, "label selector"},
	} {
		p := snapshot.NewPod(schedulertest.Pod("p", "", func(p *v1.Pod) { p.Spec.Affinity = &c.affinity }))
		want := fmt.Sprintf(`pod affinity term on "zone": %s: "Odd" is not a valid label selector operator`, c.want)
		if p.Invalid == nil || p.Invalid.Error() != want {
			t.Errorf("%s: %v, want %q", name, p.Invalid, want)
		}
	}
}

// TestAssumedVolumes: an assumption hides what the API server said, until that changes or the assumption is taken back.
func TestAssumedVolumes(t *testing.T) {
	name := types.NamespacedName{Namespace: "default", Name: "c"}
	version := func(v, label string) *v1.PersistentVolumeClaim {
		c := schedulertest.Claim("c", "fast", "1Gi", nil)
		c.ResourceVersion, c.Labels = v, map[string]string{"is": label}
		return c
	}
	is := func(s *snapshot.Snapshot) string {
		if c := s.Claim(name); c != nil {
			return c.Labels["is"]
		}
		return ""
	}
	for what, c := range map[string]struct {
		then func(*snapshot.Snapshot)
		want string
	}{
		"assumed":              {func(*snapshot.Snapshot) {}, "assumed"},
		"said again":           {func(s *snapshot.Snapshot) { s.SetClaim(version("1", "again")) }, "assumed"},
		"changed meanwhile":    {func(s *snapshot.Snapshot) { s.SetClaim(version("2", "new")) }, "new"},
		"taken back":           {func(s *snapshot.Snapshot) { s.RestoreClaim(name) }, "old"},
		"deleted":              {func(s *snapshot.Snapshot) { s.RemoveClaim(name) }, ""},
		"deleted and restored": {func(s *snapshot.Snapshot) { s.RemoveClaim(name); s.RestoreClaim(name) }, ""},
	} {
		s := schedulertest.Snapshot(version("1", "old"))
		if !s.AssumeClaim(version("1", "assumed")) {
			t.Fatalf("%s: the assumption was refused", what)
		}
		if c.then(s); is(s) != c.want {
			t.Errorf("%s: %q, want %q", what, is(s), c.want)
		}
	}
	s := schedulertest.Snapshot(version("2", "old"))
	if s.AssumeClaim(version("1", "late")) || is(s) != "old" {
		t.Error("an assumption about an older version was made")
	}
	if s.RemoveClaim(name); s.AssumeClaim(version("2", "late")) {
		t.Error("an assumption about a deleted claim was made")
	}
}

// TestVolumeIndex: free volumes are found by class and label, the others by their claim, also while that is assumed.
func TestVolumeIndex(t *testing.T) {
	zoned := func(name, class string, zones ...string) *v1.PersistentVolume {
		return schedulertest.Volume(name, class, "1Gi", "zone", zones...)
	}
	for what, c := range map[string]struct {
		then func(*snapshot.Snapshot)
		want []string
	}{
		"at first":     {func(*snapshot.Snapshot) {}, []string{"any", "both", "here"}},
		"gone":         {func(s *snapshot.Snapshot) { s.RemoveVolume("here"); s.RemoveVolume("unknown") }, []string{"any", "both"}},
		"other class":  {func(s *snapshot.Snapshot) { s.SetVolume(zoned("any", "slow")) }, []string{"both", "here"}},
		"moved here":   {func(s *snapshot.Snapshot) { s.SetVolume(zoned("there", "fast", "a")) }, []string{"any", "both", "here", "there"}},
		"taken":        {func(s *snapshot.Snapshot) { s.AssumeVolume(to(zoned("both", "fast", "a", "b"), "other")) }, []string{"any", "here"}},
		"its own":      {func(s *snapshot.Snapshot) { s.AssumeVolume(to(zoned("there", "fast", "b"), "mine")) }, []string{"any", "both", "here", "there"}},
		"its own slow": {func(s *snapshot.Snapshot) { s.SetVolume(to(zoned("there", "slow", "b"), "mine")) }, []string{"any", "both", "here"}},
		"given back": {func(s *snapshot.Snapshot) {
			s.AssumeVolume(to(zoned("both", "fast", "a", "b"), "other"))
			s.RestoreVolume("both")
			s.RestoreVolume("unknown")
		}, []string{"any", "both", "here"}},
	} {
		s := schedulertest.Snapshot(schedulertest.Volume("any", "fast", "1Gi", ""), zoned("here", "fast", "a"),
			zoned("there", "fast", "b"), zoned("both", "fast", "b", "a"), zoned("slow", "slow", "a"),
			to(zoned("used", "fast", "a"), "other"))
		c.then(s)
		var got []string
		take := func(pv *v1.PersistentVolume) bool {
			if pv.Spec.StorageClassName == "fast" {
				got = append(got, pv.Name)
			}
			return true
		}
		s.OpenVolumes("fast", take)
		s.LocalVolumes("fast", schedulertest.Node("n", "zone=a"), func(pv *v1.PersistentVolume, matches bool) bool {
			if !matches {
				t.Errorf("%s: %s is not known to match", what, pv.Name)
			}
			return take(pv)
		})
		s.VolumesOfClaim(types.NamespacedName{Namespace: "default", Name: "mine"},
			func(pv *v1.PersistentVolume) { take(pv) })
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

func to(pv *v1.PersistentVolume, claim string) *v1.PersistentVolume {
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: claim}
	return pv
}

func TestAttachments(t *testing.T) {
	attachment := func(name, node string) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: node}}
	}
	s := schedulertest.Snapshot(attachment("1", "a"), attachment("2", "a"), attachment("3", "b"))
	s.RemoveAttachment(attachment("1", "a"))
	s.RemoveAttachment(attachment("3", "b"))
	s.RemoveAttachment(attachment("none", "c"))
	for node, want := range map[string][]string{"a": {"2"}, "b": nil, "c": nil} {
		var got []string
		s.Attachments(node, func(a *storagev1.VolumeAttachment) { got = append(got, a.Name) })
		if !slices.Equal(got, want) {
			t.Errorf("on %s: %v, want %v", node, got, want)
		}
	}
}

// TestClaimUsers counts pods on nodes by the claims that they use, made from a template or not.
func TestClaimUsers(t *testing.T) {
	template := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
	}
	s := schedulertest.Snapshot(schedulertest.Pod("1", "node=a", schedulertest.Using("x", "y")),
		schedulertest.Pod("2", "node=b", schedulertest.Using("x")), schedulertest.Pod("3", "node=a", template))
	users := func(name string) int {
		return s.ClaimUsers(types.NamespacedName{Namespace: "default", Name: name})
	}
	if users("x") != 2 || users("y") != 1 || users("3-v") != 1 || users("z") != 0 {
		t.Errorf("users %d, %d, %d, %d", users("x"), users("y"), users("3-v"), users("z"))
	}
	s.RemovePod("1")
	if users("x") != 1 || users("y") != 0 {
		t.Errorf("users after one went: %d, %d", users("x"), users("y"))
	}
}

// TestSiblings: the pods that belong to a pod are those of its services and its controller together.
func TestSiblings(t *testing.T) {
	named := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	s := snapshot.New()
	s.SetService(named("default", "one"), labels.Set{"app": "x"})
	s.SetService(named("default", "two"), labels.Set{"tier": "web"})
	s.SetService(named("default", "everything"), nil) // endpoints are set by hand: it selects no pods
	s.SetService(named("other", "one"), labels.Set{"app": "y"})
	rs := snapshot.Owner{Kind: "ReplicaSet", Namespace: "default", Name: "rs"}
	s.SetOwner(rs, labels.SelectorFromSet(labels.Set{"hash": "1"}))
	owned := func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "rs", Controller: ptr.To(true)}}
	}
	for name, c := range map[string]struct {
		spec   string
		change func(*v1.Pod)
		want   string
	}{
		"of no service":            {"app=z", nil, ""},
		"of a service":             {"app=x", nil, "app=x"},
		"of two":                   {"app=x tier=web", nil, "app=x,tier=web"},
		"like another namespace's": {"app=y", nil, ""},
		"of a controller":          {"app=z hash=1", owned, "hash=1"},
		"of both":                  {"app=x hash=1", owned, "app=x,hash=1"},
	} {
		got := ""
		if selector := s.Siblings(snapshot.NewPod(schedulertest.Pod("p", c.spec, c.change))); selector != nil {
			got = selector.String()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	s.RemoveService(named("default", "one"))
	s.RemoveOwner(rs)
	if got := s.Siblings(snapshot.NewPod(schedulertest.Pod("p", "app=x hash=1", owned))); got != nil {
		t.Errorf("after both went: %v", got)
	}
}

// TestImages counts on how many nodes an image is, as images and nodes come and go.
func TestImages(t *testing.T) {
	with := func(name string, images ...string) *v1.Node {
		n := schedulertest.Node(name, "")
		for _, image := range images {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{image}, SizeBytes: 1})
		}
		return n
	}
	s := schedulertest.Snapshot(with("a", "x", "y"), with("b", "x"))
	spread := func() []int { return []int{s.ImageSpread("x"), s.ImageSpread("y"), s.ImageSpread("z")} }
	if got := spread(); !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("spread %v", got)
	}
	s.SetNode(with("a", "x", "z"))
	if got := spread(); !slices.Equal(got, []int{2, 0, 1}) {
		t.Errorf("after images changed: %v", got)
	}
	s.RemoveNode("b")
	s.RemoveNode("b")
	if got := spread(); !slices.Equal(got, []int{1, 0, 1}) {
		t.Errorf("after a node went: %v", got)
	}
}

// TestShape changes with what selects nodes, and not with what is taken of them.
func TestShape(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=1 zone=1"))
	for _, c := range []struct {
		name string
		do   func()
		want bool
	}{
		{"more room", func() { s.SetNode(schedulertest.Node("a", "cpu=2 zone=1")) }, false},
		{"a pod", func() { s.SetPod(snapshot.NewPod(schedulertest.Pod("p", "node=a", nil))) }, false},
		{"a label", func() { s.SetNode(schedulertest.Node("a", "cpu=2 zone=2")) }, true},
		{"a taint", func() { s.SetNode(schedulertest.Node("a", "cpu=2 zone=2 taint=NoSchedule")) }, true},
		{"its effect", func() { s.SetNode(schedulertest.Node("a", "cpu=2 zone=2 taint=NoExecute")) }, true},
		{"a cordon", func() { s.SetNode(schedulertest.Node("a", "cpu=2 zone=2 taint=NoExecute unschedulable")) }, true},
		{"a node", func() { s.SetNode(schedulertest.Node("b", "")) }, true},
		{"a node that goes", func() { s.RemoveNode("b") }, true},
		{"a node that was not there", func() { s.RemoveNode("b") }, false},
	} {
		before := s.Shape()
		if c.do(); (s.Shape() != before) != c.want {
			t.Errorf("%s: shape %d, then %d", c.name, before, s.Shape())
		}
	}
}

// TestClone: what is done to a copy of a node does not reach the node.
func TestClone(t *testing.T) {
	s := schedulertest.Snapshot(schedulertest.Node("a", "cpu=4 example.com/gpu=4"),
		schedulertest.Pod("1", "node=a cpu=1 example.com/gpu=1 port=80", nil),
		schedulertest.Pod("2", "node=a cpu=1 port=81", nil))
	n := s.Node("a")
	c := n.Clone()
	if !c.Remove("1") || c.Remove("1") {
		t.Error("a pod is removed once")
	}
	c.Add(snapshot.NewPod(schedulertest.Pod("3", "cpu=3 example.com/gpu=2 port=82", nil)))
	is := func(n *snapshot.Node) string {
		return fmt.Sprintf("%d %d %d %d %s", n.Requested.CPU, n.Requested.Of("example.com/gpu"), len(n.Pods), len(n.Ports),
			n.Pods[0].UID())
	}
	if got, want := is(n), "2000 1 2 2 1"; got != want {
		t.Errorf("the node: %s, want %s", got, want)
	}
	if got, want := is(c), "4000 2 2 2 2"; got != want {
		t.Errorf("its copy: %s, want %s", got, want)
	}
	if c.Generation <= n.Generation {
		t.Error("the copy's generation did not grow")
	}
}
