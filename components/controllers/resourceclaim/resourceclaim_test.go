package resourceclaim

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name, node string, entries ...v1.PodResourceClaim) *v1.Pod {
	return &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Spec:       v1.PodSpec{NodeName: node, ResourceClaims: entries}}
}

func ended(pod *v1.Pod) *v1.Pod {
	pod.Status.Phase = v1.PodSucceeded
	return pod
}

func claim(name string, by ...*v1.Pod) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" +
		name),
		Finalizers: []string{resourcev1.Finalizer, "other"}}}
	c.Status.Allocation = &resourcev1.AllocationResult{}
	for _, p := range by {
		c.Status.ReservedFor = append(c.Status.ReservedFor, reservation(p))
	}
	return c
}

var template = &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpu"},
	Spec: resourcev1.ResourceClaimTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}

func TestPlanClaim(t *testing.T) {
	here, gone := pod("here", "n"), pod("gone", "n")
	deleted := claim("c")
	deleted.DeletionTimestamp = &metav1.Time{}
	byOthers := claim("c")
	byOthers.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{APIGroup: "x", Resource: "y", UID: "z"}}
	for name, c := range map[string]struct {
		claim             *resourcev1.ResourceClaim
		owner             *v1.Pod
		reserved          int // -1: the status stays
		allocated, delete bool
		finalizers        []string
	}{
		"in use":              {claim: claim("c", here), reserved: -1},
		"partly in use":       {claim: claim("c", here, gone), reserved: 1, allocated: true},
		"free":                {claim: claim("c", gone), finalizers: []string{"other"}},
		"not reserved yet":    {claim: claim("c"), reserved: -1},
		"used by other kinds": {claim: byOthers, reserved: -1},
		"deleted":             {claim: deleted, finalizers: []string{"other"}},
		"of an ended pod": {claim: claim("c", gone), owner: ended(pod("gone", "n")), finalizers: []string{"other"},
			delete: true},
		"of a running pod": {claim: claim("c", here), owner: here, reserved: -1},
	} {
		plan := planClaim(c.claim, func(_ string, uid types.UID) bool { return uid == gone.UID }, c.owner)
		if (plan.status == nil) != (c.reserved < 0) || plan.delete != c.delete || !slices.Equal(plan.finalizers,
			c.finalizers) ||
			(plan.status != nil && (len(plan.status.ReservedFor) != c.reserved ||
				(plan.status.Allocation != nil) != c.allocated)) {
			t.Errorf("%s: %+v, want %+v", name, plan, c)
		}
	}
}

func TestClaimFor(t *testing.T) {
	long := pod(strings.Repeat("p", 60), "")
	for _, p := range []*v1.Pod{pod("p", ""), long} {
		made := claimFor(p, "e", template)
		if len(made.GenerateName) > maxGenerateName+1 || !strings.HasPrefix(made.GenerateName, "p") ||
			made.Labels["a"] != "b" ||
			existing(p, "e", []*resourcev1.ResourceClaim{made}) != made || existing(p, "f",
			[]*resourcev1.ResourceClaim{made}) != nil {
			t.Errorf("%+v", made.ObjectMeta)
		}
	}
	if template.Spec.Annotations != nil {
		t.Error("the template was changed")
	}
}

// TestPods makes a claim, tells the pod its name, reserves a claim that is allocated, and frees that of an ended pod.
func TestPods(t *testing.T) {
	byTemplate := v1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: ptr.To("gpu")}
	absent := v1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: ptr.To("nope")}
	byName := v1.PodResourceClaim{Name: "e", ResourceClaimName: ptr.To("shared")}
	over := ended(pod("over", "n"))
	client := runnertest.NewClient(template, pod("p", "", byTemplate), pod("q", "", absent), pod("r", "n", byName), over,
		claim("shared"), claim("freed", over))
	events := runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env, nil) })
	runnertest.Eventually(t, func() (bool, string) {
		p, err := client.CoreV1().Pods("ns").Get(t.Context(), "p", metav1.GetOptions{})
		if err != nil || len(p.Status.ResourceClaimStatuses) != 1 {
			return false, fmt.Sprint(p, err)
		}
		made, err := client.ResourceV1().ResourceClaims("ns").Get(t.Context(),
			*p.Status.ResourceClaimStatuses[0].ResourceClaimName,
			metav1.GetOptions{})
		return err == nil && metav1.IsControlledBy(made, p), fmt.Sprint(made, err)
	})
	runnertest.Saw(t, events, `FailedResourceClaimCreation PodResourceClaim e: resource claim template "nope": `)
	claims := client.ResourceV1().ResourceClaims("ns")
	runnertest.Eventually(t, func() (bool, string) {
		shared, err := claims.Get(t.Context(), "shared", metav1.GetOptions{})
		return err == nil && len(shared.Status.ReservedFor) == 1 && shared.Status.ReservedFor[0].UID == "uid-r",
			fmt.Sprint(shared, err)
	})
	runnertest.Eventually(t, func() (bool, string) {
		freed, err := claims.Get(t.Context(), "freed", metav1.GetOptions{})
		return err == nil && freed.Status.Allocation == nil && len(freed.Status.ReservedFor) == 0 &&
			slices.Equal(freed.Finalizers, []string{"other"}), fmt.Sprint(freed, err)
	})
	all, err := claims.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 3 {
		t.Errorf("%d claims: %v", len(all.Items), err)
	}
}
