package podcertificates

import (
	"testing"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/controllers/runner"
)

func TestOldRequestsGo(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	aged := func(name string, age time.Duration) *certificatesv1beta1.PodCertificateRequest {
		return &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			UID: "u", CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	}
	client := fake.NewClientset(aged("old", 15*time.Minute), aged("young", 15*time.Minute-time.Second))
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := NewCleaner(runner.Env{Client: client, Informers: factory, Clock: clocktesting.NewFakeClock(now)})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	factory.WaitForCacheSyncWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	if all, err := c.requests.List(labels.Everything()); err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	c.clean(t.Context())
	left, err := client.CertificatesV1beta1().PodCertificateRequests("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "young" {
		t.Errorf("left: %+v, %v", left.Items, err)
	}
}
