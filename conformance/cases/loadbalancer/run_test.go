package loadbalancer

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestOutsideGetKnowsItsOwnAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, r.RemoteAddr)
	}))
	local, attempt := outsideGet(server.URL)
	seen := map[string]bool{}
	for range 2 {
		result, err := attempt(t.Context())
		if err != nil || !result.OK || result.Text != local() || seen[result.Text] {
			t.Errorf("%+v, %v; made from %s after %v", result, err, local(), seen)
		}
		seen[result.Text] = true
	}
	server.Close()
	if result, err := attempt(t.Context()); err != nil || result.OK {
		t.Errorf("without a server: %+v, %v", result, err)
	}
}

func TestOutsideGetFailsOnErrors(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, attempt := outsideGet(server.URL)
	if result, err := attempt(t.Context()); err != nil || result.OK {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAddressOf(t *testing.T) {
	for want, ingress := range map[string][]corev1.LoadBalancerIngress{
		"":             nil,
		"192.0.2.1":    {{IP: "192.0.2.1"}, {IP: "192.0.2.2"}},
		"host.example": {{Hostname: "host.example"}},
	} {
		service := &corev1.Service{}
		service.Status.LoadBalancer.Ingress = ingress
		if got := addressOf(service); got != want {
			t.Errorf("%v: %q", ingress, got)
		}
	}
}
