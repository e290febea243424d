package trustbundles

import (
	"slices"
	"testing"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
)

func named(name, signer, text string) *bundle {
	return &bundle{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
}

func TestPlan(t *testing.T) {
	wanted := bundleOf([]byte("ca"))
	for name, test := range map[string]struct {
		all            []*bundle
		create, repair bool
		remove         []string
	}{
		"nothing there":    {nil, true, false, nil},
		"as it should be":  {[]*bundle{named(wanted.Name, signer, "ca")}, false, false, nil},
		"changed":          {[]*bundle{named(wanted.Name, signer, "other")}, false, true, nil},
		"of the last one":  {[]*bundle{named("old", signer, "old")}, true, false, []string{"old"}},
		"of other signers": {[]*bundle{named("old", "a.b/c", "old"), named("plain", "", "x")}, true, false, nil},
	} {
		create, repair, remove := plan(wanted, test.all)
		if create != test.create || (repair != nil) != test.repair || !slices.Equal(remove, test.remove) {
			t.Errorf("%s: %v, %v, %v", name, create, repair, remove)
		}
		if repair != nil && repair.Spec != wanted.Spec {
			t.Errorf("%s: %+v", name, repair.Spec)
		}
	}
}

func TestPublisherReconciles(t *testing.T) {
	client := fake.NewClientset(named("kubernetes.io:kube-apiserver-serving:old", signer, "old"))
	factory := informers.NewSharedInformerFactory(client, 0)
	p, err := NewPublisher(runner.Env{Client: client, Informers: factory, Clock: clock.RealClock{}}, []byte("ca"))
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSyncWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	if err := p.reconcile(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
	all, err := client.CertificatesV1beta1().ClusterTrustBundles().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].Spec.TrustBundle != "ca" ||
		all.Items[0].Name != p.wanted.Name {
		t.Errorf("%+v, %v", all.Items, err)
	}
}
