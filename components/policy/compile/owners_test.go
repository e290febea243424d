package compile

import (
	"net/netip"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"quintet.dev/quintet/components/policy/model"
	"quintet.dev/quintet/components/policy/policytest"
)

// An address that two pods have for a moment belongs to the one that stays.
func TestAddressOfTwoPods(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	at := model.PodAddress{Direction: model.Ingress, Addr: addr}
	leaving := Pod{
		NamespacedName: types.NamespacedName{Namespace: "a", Name: "old"}, Addrs: []netip.Addr{addr},
		Local: true, Leaving: true, Created: time.Unix(2, 0),
	}
	starting := leaving
	starting.Namespace, starting.Leaving, starting.Created = "b", false, time.Unix(1, 0)
	x := New()
	for _, namespace := range []string{"a", "b"} {
		object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
		if err := x.SetPolicy(object); err != nil {
			t.Fatal(err)
		}
	}
	want := func(namespace string) {
		t.Helper()
		if got := x.Current().Pods[at].Namespace; got != namespace {
			t.Errorf("the address is in namespace %q, want %q", got, namespace)
		}
	}
	x.SetPod(leaving)
	want("a")
	x.SetPod(starting)
	want("b")
	x.DeletePod(leaving.NamespacedName)
	want("b")
	x.DeletePod(starting.NamespacedName)
	want("")
}

// The address of a peer that leaves is not a peer's any more as soon as another pod has it.
func TestAddressOfTwoPeers(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	friend := Pod{
		NamespacedName: types.NamespacedName{Namespace: "a", Name: "old"}, Addrs: []netip.Addr{addr},
		Labels: labels.Set{"app": "friend"}, Leaving: true, Created: time.Unix(1, 0),
	}
	stranger := friend
	stranger.Name, stranger.Labels, stranger.Leaving, stranger.Created = "new", nil, false, time.Unix(2, 0)
	x := New()
	object := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	object.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "friend"}},
	}}}}
	if err := x.SetPolicy(object); err != nil {
		t.Fatal(err)
	}
	peers := x.Current().Policies[model.PolicyKey{Direction: model.Ingress, Namespace: "a", Name: "p"}][0].Peer
	want := func(what string, want int) {
		t.Helper()
		if got := x.Current().Sets[peers][model.Element{Addr: addr}]; got != want {
			t.Errorf("%s: the address is a peer's %d times, want %d", what, got, want)
		}
	}
	x.SetPod(friend)
	want("a peer", 1)
	x.SetPod(stranger)
	want("another pod has the address", 0)
	x.SetNamespace("a", labels.Set{"team": "x"})
	want("the namespace changed", 0)
	x.DeletePod(stranger.NamespacedName)
	want("the peer has it again", 1)
	x.SetPod(stranger)
	x.DeletePod(friend.NamespacedName)
	want("the peer is gone", 0)
}

// Addresses of terminating pods of this node are released, unless another pod has them.
func TestEndedAddresses(t *testing.T) {
	addr := netip.MustParseAddr("10.0.0.1")
	pod := Pod{NamespacedName: types.NamespacedName{Namespace: "a", Name: "p"}, Addrs: []netip.Addr{addr}, Local: true}
	next := pod
	next.Name = "next"
	deny := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	for name, test := range map[string]struct {
		change func(*Index)
		want   bool
	}{
		"none":            {func(*Index) {}, false},
		"deleted":         {func(x *Index) { x.DeletePod(pod.NamespacedName) }, true},
		"another has it":  {func(x *Index) { x.SetPod(next); x.DeletePod(pod.NamespacedName) }, false},
		"another gets it": {func(x *Index) { x.DeletePod(pod.NamespacedName); x.SetPod(next) }, false},
		"a new pod of the name": {func(x *Index) {
			x.SetPod(Pod{NamespacedName: pod.NamespacedName, UID: "2", Local: true})
		}, true},
		"no address for a moment": {func(x *Index) {
			x.SetPod(Pod{NamespacedName: pod.NamespacedName, Local: true})
		}, false},
		"no policies": {func(x *Index) {
			x.DeletePolicy(types.NamespacedName{Namespace: "a", Name: "p"})
			x.DeletePod(pod.NamespacedName)
		}, false},
	} {
		x := New()
		if err := x.SetPolicy(deny); err != nil {
			t.Fatal(err)
		}
		x.SetPod(pod)
		x.Take()
		test.change(x)
		if _, got := x.Take().Ended[addr]; got != test.want {
			t.Errorf("%s: the address is left: %v, want %v", name, got, test.want)
		}
	}
}

// A pod that is deleted before its address is known may run, so that it stays isolated until it is gone.
func TestStartingPodThatLeaves(t *testing.T) {
	x := New()
	deny := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
	if err := x.SetPolicy(deny); err != nil {
		t.Fatal(err)
	}
	object := policytest.Pod("a", "p", policytest.Node, nil, 80, 53)
	object.Status.Phase, object.DeletionTimestamp = v1.PodPending, &metav1.Time{}
	pod, ok := PodOf(object, policytest.Node)
	if !ok {
		t.Fatal("the pod has no part in policies")
	}
	x.SetPod(pod)
	if !x.Current().Starting[model.Ingress] {
		t.Error("the pod is not isolated")
	}
	x.DeletePod(pod.NamespacedName)
	if x.Current().Starting[model.Ingress] {
		t.Error("a deleted pod is isolated")
	}
}
