package podcertificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// rig is a manager, and the cluster that it works in.
type rig struct {
	*Manager
	t       *testing.T
	client  *fake.Clientset
	events  *record.FakeRecorder
	changed int
}

// newRig runs a manager in the bubble of a test, whose clock only goes on when all wait.
func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, events: record.NewFakeRecorder(10), client: fake.NewClientset(
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "sa-uid"}})}
	n := 0
	r.client.PrependReactor("create", "podcertificaterequests",
		func(a clienttesting.Action) (bool, runtime.Object, error) { // which the API server does
			made := a.(clienttesting.CreateAction).GetObject().(*certificatesv1beta1.PodCertificateRequest)
			n++
			made.Name = made.GenerateName + string(rune('0'+n))
			return false, nil, nil
		})
	r.Manager = New(Config{Client: r.client, Clock: clock.RealClock{}, Recorder: r.events, NodeName: "n1",
		Node:    func() *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}} },
		Changed: func(types.UID) { r.changed++ }, Jitter: func() time.Duration { return time.Minute }})
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { r.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	return r
}

func pod(keyType string) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: v1.PodSpec{ServiceAccountName: "sa", Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
			Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{}, {
				PodCertificate: &v1.PodCertificateProjection{SignerName: "a.b/c", KeyType: keyType,
					MaxExpirationSeconds: ptr.To[int32](7200), UserAnnotations: map[string]string{"a.b/x": "y"}}}}}}}}}}
}

// get is Get of the pod's one projection, once nothing goes on any more.
func (r *rig) get(p *v1.Pod) (key, chain []byte, err error) {
	synctest.Wait()
	return r.Get(p, "v", 1)
}

// ask is the first Get, and time for what comes of it.
func (r *rig) ask(p *v1.Pod) {
	r.t.Helper()
	if _, _, err := r.Get(p, "v", 1); !errors.Is(err, errNotIssued) {
		r.t.Errorf("before anything was issued: %v", err)
	}
	time.Sleep(time.Second)
}

// requests are those that there are, the newest last.
func (r *rig) requests() []certificatesv1beta1.PodCertificateRequest {
	r.t.Helper()
	synctest.Wait()
	all, err := r.client.CertificatesV1beta1().PodCertificateRequests("ns").List(r.t.Context(), metav1.ListOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return all.Items
}

func (r *rig) update(request *certificatesv1beta1.PodCertificateRequest) {
	r.t.Helper()
	if _, err := r.client.CertificatesV1beta1().PodCertificateRequests("ns").UpdateStatus(r.t.Context(), request,
		metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// sign issues a certificate that is good for two hours.
func (r *rig) sign(request *certificatesv1beta1.PodCertificateRequest) {
	r.t.Helper()
	csr, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := csr.CheckSignature(); err != nil {
		r.t.Fatal(err)
	}
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		r.t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now, NotAfter: now.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, authority)
	if err != nil {
		r.t.Fatal(err)
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: der})
	request.Status = certificatesv1beta1.PodCertificateRequestStatus{
		CertificateChain: "text\n" + string(block), NotAfter: ptr.To(metav1.NewTime(now.Add(2 * time.Hour))),
		BeginRefreshAt: ptr.To(metav1.NewTime(now.Add(time.Hour))),
		Conditions:     []metav1.Condition{{Type: "Issued", Status: metav1.ConditionTrue}}}
	r.update(request)
}

// TestIssue: the key is the one that the certificate is of, and the request tells the truth of the pod.
func TestIssue(t *testing.T) {
	for _, keyType := range []string{"ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072"} {
		synctest.Test(t, func(t *testing.T) {
			r, p := newRig(t), pod(keyType)
			r.ask(p)
			all := r.requests()
			if len(all) != 1 {
				t.Fatalf("%s: %d requests", keyType, len(all))
			}
			s := all[0].Spec
			if s.SignerName != "a.b/c" || s.PodName != "p" || s.PodUID != "u" || s.ServiceAccountName != "sa" ||
				s.ServiceAccountUID != "sa-uid" || s.NodeName != "n1" || s.NodeUID != "node-uid" ||
				*s.MaxExpirationSeconds != 7200 || s.UnverifiedUserAnnotations["a.b/x"] != "y" ||
				all[0].OwnerReferences[0].UID != "u" {
				t.Errorf("%s: asks for %+v", keyType, s)
			}
			r.sign(&all[0])
			key, chain, err := r.get(p)
			if err != nil || strings.Contains(string(chain), "text") || strings.Contains(string(chain), "a: b") ||
				r.changed != 1 {
				t.Fatalf("%s: %q, %v, %d changes", keyType, chain, err, r.changed)
			}
			if _, err := tls.X509KeyPair(chain, key); err != nil {
				t.Errorf("%s: %v", keyType, err)
			}
			if n := len(r.requests()); n != 1 {
				t.Errorf("%s: %d requests", keyType, n)
			}
		})
	}
}

// TestRefusal: what the signer denies or fails stays so, and the pod is told.
func TestRefusal(t *testing.T) {
	for condition, want := range map[string][2]string{
		"Denied": {`PodCertificateRequest was permanently denied: reason="No" message="never"`,
			`Warning Denied PodCertificateRequest ns/req-1 was denied, reason="No", message="never"`},
		"Failed": {`PodCertificateRequest was permanently failed: reason="No" message="never"`,
			`Warning Failed PodCertificateRequest ns/req-1 failed, reason="No", message="never"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, p := newRig(t), pod("ED25519")
			r.ask(p)
			request := r.requests()[0]
			request.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "No",
				Message: "never"}}
			r.update(&request)
			if _, _, err := r.get(p); err == nil || err.Error() != want[0] {
				t.Errorf("%s: %v", condition, err)
			}
			if got := <-r.events.Events; got != want[1] {
				t.Errorf("%s: event %q", condition, got)
			}
			time.Sleep(3 * time.Hour)
			if n := len(r.requests()); n != 1 {
				t.Errorf("%s: %d requests", condition, n)
			}
			if n := r.States()[State{"a.b/c", strings.ToLower(condition)}]; n != 1 {
				t.Errorf("%s: %v", condition, r.States())
			}
		})
	}
}

// TestRefresh: the next certificate is asked for in time; until it is there, the pod keeps what it has.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t), pod("ED25519")
		r.ask(p)
		r.sign(&r.requests()[0])
		first, _, err := r.get(p)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // and one of jitter
		if n := len(r.requests()); n != 1 {
			t.Errorf("%d requests before it is time", n)
		}
		time.Sleep(4 * time.Minute)
		all := r.requests()
		if len(all) != 2 {
			t.Fatalf("%d requests when it is time", len(all))
		}
		if again, _, err := r.get(p); err != nil || string(again) != string(first) {
			t.Errorf("meanwhile: %v", err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := <-r.events.Events; got != "Warning CertificateOverdueForRefresh PodCertificate refresh overdue" ||
			r.States()[State{"a.b/c", "overdue_for_refresh"}] != 1 {
			t.Errorf("event %q, states %v", got, r.States())
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := <-r.events.Events; got != "Warning CertificateExpired PodCertificate expired" ||
			r.States()[State{"a.b/c", "expired"}] != 1 {
			t.Errorf("event %q, states %v", got, r.States())
		}
		r.sign(&all[1])
		next, chain, err := r.get(p)
		if err != nil || string(next) == string(first) || r.States()[State{"a.b/c", "fresh"}] != 1 {
			t.Errorf("afterwards: %v, states %v", err, r.States())
		}
		if _, err := tls.X509KeyPair(chain, next); err != nil {
			t.Error(err)
		}
	})
}

// TestDeletedRequest: a request that went without an answer is made again, and a pod that went asks for nothing.
func TestDeletedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t), pod("ED25519")
		r.ask(p)
		remove := func(name string) {
			t.Helper()
			if err := r.client.CertificatesV1beta1().PodCertificateRequests("ns").Delete(t.Context(), name,
				metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		remove(r.requests()[0].Name)
		time.Sleep(5 * time.Minute)
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests at once", n)
		}
		time.Sleep(10 * time.Minute)
		all := r.requests()
		if len(all) != 1 || all[0].Name == "req-1" {
			t.Fatalf("%d requests after a while", len(all))
		}
		r.Forget(p.UID)
		remove(all[0].Name)
		time.Sleep(time.Hour)
		if n := len(r.requests()); n != 0 || len(r.States()) != 0 {
			t.Errorf("%d requests for a pod that is gone, states %v", n, r.States())
		}
	})
}

// TestRetries: what keeps a request from being made is tried again.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, p := newRig(t), pod("ED25519")
		p.Spec.ServiceAccountName = "late"
		r.ask(p)
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests without an account", n)
		}
		if _, err := r.client.CoreV1().ServiceAccounts("ns").Create(t.Context(),
			&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "late"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := len(r.requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}
