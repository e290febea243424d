package trustbundles

import (
	"context"
	"encoding/pem"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func certificate(content string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(content)}))
}

func bundle(name, signer, text string, labels ...string) *certificatesv1beta1.ClusterTrustBundle {
	b := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: text}}
	for _, label := range labels {
		b.Labels[label] = "yes"
	}
	return b
}

// run follows the bundles of a client until the test ends.
func run(t *testing.T, client *fake.Clientset, changed func()) *Bundles {
	t.Helper()
	b := New(client, changed)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { b.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return b
}

func TestLookUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two, three := certificate("1"), certificate("2"), certificate("3")
		client := fake.NewClientset(bundle("plain", "", "text\n"+two+one+two),
			bundle("a", "a.b/c", one+three, "live"), bundle("b", "a.b/c", three+two), bundle("other", "x.y/z", one))
		_, err := New(client, func() {}).ByName("plain", true)
		if err == nil || !strings.Contains(err.Error(), "not yet synced") {
			t.Errorf("before the first list: %v", err)
		}
		b := run(t, client, func() {})
		_, _ = b.ByName("plain", true) // from the first question on, bundles are watched
		synctest.Wait()
		everything, live := &metav1.LabelSelector{}, &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}
		by := func(signer string, s *metav1.LabelSelector, optional bool) func() ([]byte, error) {
			return func() ([]byte, error) { return b.BySigner(signer, s, optional) }
		}
		named := func(name string, optional bool) func() ([]byte, error) {
			return func() ([]byte, error) { return b.ByName(name, optional) }
		}
		for name, test := range map[string]struct {
			get       func() ([]byte, error)
			want, err string
		}{
			"by name, each once":       {named("plain", false), one + two, ""},
			"of a signer, by its name": {named("a", false), one + three, ""},
			"no such name": {named("none", false), "",
				`while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "none" not found`},
			"no such name, but optional": {named("none", true), "", ""},
			"all of a signer":            {by("a.b/c", everything, false), one + two + three, ""},
			"some of a signer":           {by("a.b/c", live, false), one + three, ""},
			"no selector":                {by("a.b/c", nil, false), "", "matched zero ClusterTrustBundles"},
			"no selector, but optional":  {by("a.b/c", nil, true), "", ""},
			"no such signer":             {by("n.n/n", everything, false), "", "matched zero ClusterTrustBundles"},
			"no selector at all": {by("a.b/c", &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Odd"}}}, true), "",
				"while parsing label selector"},
		} {
			got, err := test.get()
			if string(got) != test.want || (err == nil) != (test.err == "") ||
				err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
	})
}

func TestChangesAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		n := 0
		b := run(t, client, func() { n++ })
		synctest.Wait()
		if len(client.Actions()) > 0 {
			t.Errorf("bundles are watched before one is needed: %v", client.Actions())
		}
		if _, err := b.ByName("a", true); err == nil {
			t.Error("known before it was asked for")
		}
		synctest.Wait()
		bundles := client.CertificatesV1beta1().ClusterTrustBundles()
		one := bundle("a", "", certificate("1"))
		if _, err := bundles.Create(t.Context(), one, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		one.Spec.TrustBundle = certificate("2")
		if _, err := bundles.Update(t.Context(), one, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, err := b.ByName("a", false); err != nil || string(got) != certificate("2") || n != 2 {
			t.Errorf("%q, %v after %d changes", got, err, n)
		}
		if err := bundles.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := b.ByName("a", false); err == nil || n != 3 {
			t.Errorf("a bundle that is gone: %v after %d changes", err, n)
		}
	})
}

// TestMergeIsStable: neither the order of bundles nor that of certificates in them shows.
func TestMergeIsStable(t *testing.T) {
	all := []string{certificate("1"), certificate("2"), certificate("3"), certificate("4")}
	want := strings.Join(all, "")
	for range 50 {
		var bundles []*certificatesv1beta1.ClusterTrustBundle
		for range 1 + rand.IntN(4) {
			text := ""
			for _, i := range rand.Perm(len(all)) {
				text += all[i] + "\n# between\n"
			}
			bundles = append(bundles, bundle("x", "", text))
		}
		if got := string(merge(bundles)); got != want {
			t.Fatalf("%q", got)
		}
	}
}
