package resourceclaim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func deleted[T metav1.Object](o T) T {
	o.SetDeletionTimestamp(&metav1.Time{})
	return o
}

func TestDone(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"waits for a node":      {pod("p", ""), false},
		"runs":                  {pod("p", "n"), false},
		"ended":                 {ended(pod("p", "n")), true},
		"deleted, never bound":  {deleted(pod("p", "")), true},
		"deleted, still on one": {deleted(pod("p", "n")), false},
		"deleted and ended":     {deleted(ended(pod("p", "n"))), true},
	} {
		if got := done(c.pod); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestGeneratedNames are upstream's: in a name that would get too long, both parts give up in proportion.
func TestGeneratedNames(t *testing.T) {
	for _, c := range []struct{ pod, entry, want string }{
		{"p", "e", "p-e-"},
		{strings.Repeat("p", 53), "ee", strings.Repeat("p", 53) + "-ee-"},
		{strings.Repeat("p", 54), "ee", strings.Repeat("p", 53) + "-e"},
		{strings.Repeat("p", 100), strings.Repeat("e", 12), strings.Repeat("p", 50) + "-" + strings.Repeat("e", 6)},
		{strings.Repeat("p", 5), strings.Repeat("e", 63), "pppp-" + strings.Repeat("e", 51)},
	} {
		p := pod(c.pod, "")
		if got := claimFor(p, c.entry, template).GenerateName; got != c.want || len(got) > 58 {
			t.Errorf("%s, %s: %s, want %s", c.pod, c.entry, got, c.want)
		}
	}
}

func TestClaimCarriesItsTemplate(t *testing.T) {
	rich := template.DeepCopy()
	rich.Spec.Annotations = map[string]string{"c": "d"}
	rich.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu"}}
	p := pod("p", "")
	made := claimFor(p, "e", rich)
	ref := made.OwnerReferences
	if made.Namespace != "ns" || made.Annotations["c"] != "d" || made.Annotations[podClaimAnnotation] != "e" ||
		len(made.Spec.Devices.Requests) != 1 || len(ref) != 1 || ref[0].Kind != "Pod" || ref[0].APIVersion != "v1" ||
		!ptr.Deref(ref[0].Controller, false) || !ptr.Deref(ref[0].BlockOwnerDeletion, false) || ref[0].UID != p.UID {
		t.Errorf("%+v", made)
	}
	made.Spec.Devices.Requests[0].Name = "x"
	if rich.Spec.Spec.Devices.Requests[0].Name != "gpu" || len(rich.Spec.Annotations) != 1 {
		t.Error("the template was changed")
	}
}

func TestMissesReservation(t *testing.T) {
	here := pod("here", "n")
	unallocated := claim("c")
	unallocated.Status.Allocation = nil
	for name, c := range map[string]struct {
		claim *resourcev1.ResourceClaim
		pod   *v1.Pod
		want  bool
	}{
		"bound by hand":         {claim("c"), here, true},
		"shared":                {claim("c", pod("other", "n")), here, true},
		"reserved":              {claim("c", here), here, false},
		"not bound":             {claim("c"), pod("here", ""), false},
		"ended":                 {claim("c"), ended(pod("here", "n")), false},
		"pod deleted":           {claim("c"), deleted(pod("here", "n")), false},
		"claim deleted":         {deleted(claim("c")), here, false},
		"the claim has nothing": {unallocated, here, false},
	} {
		if got := missesReservation(c.claim, c.pod); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMergedStatuses(t *testing.T) {
	entries := func(names ...string) []v1.PodResourceClaim {
		var all []v1.PodResourceClaim
		for _, name := range names {
			all = append(all, v1.PodResourceClaim{Name: name})
		}
		return all
	}
	for name, c := range map[string]struct {
		entries []string
		status  map[string]string // "-": no claim needed
		made    map[string]string
		want    string
	}{
		"nothing":   {entries: []string{"a"}},
		"the first": {entries: []string{"a", "b"}, made: map[string]string{"a": "x"}, want: "a=x"},
		"another": {entries: []string{"a", "b"}, status: map[string]string{"a": "x"},
			made: map[string]string{"b": "y"}, want: "a=x b=y"},
		"in the spec's order": {entries: []string{"b", "a"}, status: map[string]string{"a": "x"},
			made: map[string]string{"b": "y"}, want: "b=y a=x"},
		"known already": {entries: []string{"a"}, status: map[string]string{"a": "x"},
			made: map[string]string{"a": "x"}},
		"renewed": {entries: []string{"a"}, status: map[string]string{"a": "x"},
			made: map[string]string{"a": "y"}, want: "a=y"},
		"none needed stays": {entries: []string{"a", "b"}, status: map[string]string{"a": "-"},
			made: map[string]string{"b": "y"}, want: "a=- b=y"},
		"a strange entry": {entries: []string{"a"}, status: map[string]string{"z": "x"},
			made: map[string]string{"a": "y"}, want: "a=y"},
	} {
		p := pod("p", "", entries(c.entries...)...)
		for entry, of := range c.status {
			s := v1.PodResourceClaimStatus{Name: entry}
			if of != "-" {
				s.ResourceClaimName = &of
			}
			p.Status.ResourceClaimStatuses = append(p.Status.ResourceClaimStatuses, s)
		}
		var got []string
		for _, s := range mergedStatuses(p, c.made) {
			got = append(got, s.Name+"="+ptr.Deref(s.ResourceClaimName, "-"))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}

func TestClaimNames(t *testing.T) {
	p := pod("p", "", v1.PodResourceClaim{Name: "a", ResourceClaimName: ptr.To("x")},
		v1.PodResourceClaim{Name: "b", ResourceClaimTemplateName: ptr.To("t")},
		v1.PodResourceClaim{Name: "c", ResourceClaimTemplateName: ptr.To("t")},
		v1.PodResourceClaim{Name: "d", ResourceClaimTemplateName: ptr.To("t")})
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "b", ResourceClaimName: ptr.To("y")}, {Name: "c"}}
	if got := fmt.Sprint(claimNames(p)); got != "[x y]" {
		t.Error(got)
	}
}

// TestReservationsOutliveNoPod: whatever holds a claim, a plan takes off the pods that are gone and nothing else, and a
// claim that is free in the end has no allocation and is not protected.
func TestReservationsOutliveNoPod(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		c := claim("c")
		goneUIDs := map[types.UID]bool{}
		left := 0
		for i := range random.IntN(5) {
			p := pod(fmt.Sprint("p", i), "n")
			by := reservation(p)
			switch random.IntN(3) {
			case 0:
				goneUIDs[p.UID] = true
			case 1:
				by.APIGroup = "x.dev" // of a kind that only others can decide on
				goneUIDs[p.UID] = true
				left++
			default:
				left++
			}
			c.Status.ReservedFor = append(c.Status.ReservedFor, by)
		}
		if random.IntN(2) == 0 {
			c.Finalizers = nil
		}
		if random.IntN(3) == 0 {
			c = deleted(c)
		}
		if random.IntN(4) == 0 {
			c.Status.Allocation = nil
		}
		before := c.DeepCopy()
		plan := planClaim(c, func(_ string, uid types.UID) bool { return goneUIDs[uid] }, nil)
		status := c.Status
		if plan.status != nil {
			status = *plan.status
		}
		finalizers := c.Finalizers
		if plan.finalizers != nil {
			finalizers = plan.finalizers
		}
		protected := slices.Contains(finalizers, resourcev1.Finalizer)
		switch {
		case fmt.Sprint(c) != fmt.Sprint(before):
			t.Fatal("the informer's claim was changed")
		case len(status.ReservedFor) != left || plan.delete:
			t.Fatalf("%d reservations, want %d: %+v", len(status.ReservedFor), left, plan)
		case left > 0 && ((status.Allocation == nil) != (before.Status.Allocation == nil) ||
			!slices.Equal(finalizers, before.Finalizers)):
			t.Fatalf("in use, but loses what it has: %+v", plan)
		case left == 0 && len(before.Status.ReservedFor) > 0 && len(before.Finalizers) > 0 && (status.Allocation != nil ||
			protected):
			t.Fatalf("free, but keeps its devices: %+v", plan)
		case left == 0 && c.DeletionTimestamp != nil && protected:
			t.Fatalf("deleted and free, but protected: %+v", plan)
		case slices.Contains(before.Finalizers, "other") != slices.Contains(finalizers, "other"):
			t.Fatalf("another's finalizer: %+v", plan)
		}
	}
}

func run(t *testing.T, client *fake.Clientset) func(text string) {
	t.Helper()
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, prometheus.NewRegistry()) })
	return func(text string) {
		t.Helper()
		runnertest.Saw(t, events, text)
	}
}

// TestForeignClaim: a claim of the name that the pod's status has, but of another pod, is not used.
func TestForeignClaim(t *testing.T) {
	p := pod("p", "", v1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: ptr.To("gpu")})
	p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "e", ResourceClaimName: ptr.To("foreign")}}
	client := runnertest.NewClient(template, p, claim("foreign"))
	saw := run(t, client)
	saw("Warning FailedResourceClaimCreation PodResourceClaim e: ResourceClaim ns/foreign was not created for Pod ns/p " +
		"(Pod is not owner)")
}

// TestClaimIsFoundAgain uses the claim that was made before the pod's status told of it, and makes one again that was
// deleted under the pod.
func TestClaimIsFoundAgain(t *testing.T) {
	entry := v1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: ptr.To("gpu")}
	known := pod("known", "", entry)
	lost := pod("lost", "", entry)
	lost.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "e", ResourceClaimName: ptr.To("lost-e-0")}}
	made := claimFor(known, "e", template)
	made.Name, made.UID = "known-e-0", "made"
	client := runnertest.NewClient(template, known, lost, made)
	run(t, client)
	name := func(of string) string {
		p, err := client.CoreV1().Pods("ns").Get(t.Context(), of, metav1.GetOptions{})
		if err != nil || len(p.Status.ResourceClaimStatuses) != 1 {
			return fmt.Sprint(p, err)
		}
		return ptr.Deref(p.Status.ResourceClaimStatuses[0].ResourceClaimName, "")
	}
	runnertest.Eventually(t, func() (bool, string) { return name("known") == "known-e-0", name("known") })
	runnertest.Eventually(t, func() (bool, string) {
		return strings.HasPrefix(name("lost"), "lost-e-") && name("lost") != "lost-e-0", name("lost")
	})
	all, err := client.ResourceV1().ResourceClaims("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 2 {
		t.Errorf("%d claims: %v", len(all.Items), err)
	}
}

// TestTemplateComesLate: a pod gets its claim once the template is there; the claim of an ended pod is deleted.
func TestTemplateComesLate(t *testing.T) {
	entry := v1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: ptr.To("gpu")}
	over := ended(pod("over", "n", entry))
	old := claimFor(over, "e", template)
	old.Name, old.UID, old.Finalizers = "over-e-0", "old", nil
	client := runnertest.NewClient(pod("p", "", entry), over, old)
	saw := run(t, client)
	saw(`FailedResourceClaimCreation PodResourceClaim e: resource claim template "gpu": `)
	if _, err := client.ResourceV1().ResourceClaimTemplates("ns").Create(t.Context(), template,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	runnertest.Eventually(t, func() (bool, string) {
		all, err := client.ResourceV1().ResourceClaims("ns").List(t.Context(), metav1.ListOptions{})
		return err == nil && len(all.Items) == 1 && metav1.IsControlledBy(&all.Items[0], pod("p", "")), fmt.Sprint(all, err)
	})
}
