package approve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
)

func newNode(name string, ips ...string) *v1.Node {
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: v1.NodeStatus{Addresses: []v1.NodeAddress{{Type: v1.NodeHostName, Address: name}}}}
	for _, ip := range ips {
		node.Status.Addresses = append(node.Status.Addresses, v1.NodeAddress{Type: v1.NodeInternalIP, Address: ip})
	}
	return node
}

// newRequest is what the kubelet of a node asks for, after change.
func newRequest(t *testing.T, node string, ips []string, change func(*x509.CertificateRequest),
) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	template := &x509.CertificateRequest{DNSNames: []string{node},
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}
	for _, ip := range ips {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(ip))
	}
	if change != nil {
		change(template)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "csr-" + node},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeletServingSignerName, Username: "system:node:" + node,
			Groups:  []string{"system:nodes", "system:authenticated"},
			Usages:  []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	}
}

func TestCheck(t *testing.T) {
	a, b := newNode("a", "10.0.0.1", "fd00::1"), newNode("b", "10.0.0.2")
	thief := newNode("thief", "10.0.0.2", "10.0.0.3")
	nodes := []*v1.Node{a, b, thief}
	for name, test := range map[string]struct {
		node   *v1.Node
		ips    []string
		change func(*x509.CertificateRequest)
		usages []certificatesv1.KeyUsage
		want   string // "" is approved
	}{
		"its own":         {node: a, ips: []string{"10.0.0.1", "fd00::1"}},
		"foreign address": {node: a, ips: []string{"10.0.0.9"}, want: "10.0.0.9"},
		"another's too":   {node: thief, ips: []string{"10.0.0.2"}, want: "of the node b"},
		"foreign name": {node: a, change: func(r *x509.CertificateRequest) {
			r.DNSNames = []string{"kubernetes"}
		}, want: "kubernetes"},
		"another's name": {node: a, change: func(r *x509.CertificateRequest) {
			r.DNSNames = []string{"b"}
		}, want: `"b"`},
		"foreign subject": {node: a, change: func(r *x509.CertificateRequest) {
			r.Subject.CommonName = "system:node:b"
		}, want: "subject"},
		"foreign groups": {node: a, change: func(r *x509.CertificateRequest) {
			r.Subject.Organization = []string{"system:masters"}
		}, want: "subject"},
		"nothing": {node: a, change: func(r *x509.CertificateRequest) {
			r.DNSNames = nil
		}, want: "nothing else"},
		"a URI": {node: a, change: func(r *x509.CertificateRequest) {
			r.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}}
		}, want: "nothing else"},
		"for clients": {node: a, usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageClientAuth, certificatesv1.UsageServerAuth}, want: "client auth"},
		"not for serving": {node: a, usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature}, want: "not for serving"},
		"with RSA's usage": {node: a, usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageKeyEncipherment, certificatesv1.UsageServerAuth}},
	} {
		t.Run(name, func(t *testing.T) {
			csr := newRequest(t, test.node.Name, test.ips, test.change)
			if test.usages != nil {
				csr.Spec.Usages = test.usages
			}
			err := check(csr, test.node, nodes)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	malformed := newRequest(t, "a", nil, nil)
	malformed.Spec.Request = []byte("nonsense")
	if check(malformed, a, nodes) == nil {
		t.Error("nonsense is approved")
	}
}

// The controller waits until a node has registered the address, and leaves what is not a node's.
func TestController(t *testing.T) {
	client := fake.NewClientset(newRequest(t, "a", []string{"10.0.0.1"}, nil))
	stranger := newRequest(t, "b", nil, nil)
	stranger.Spec.Username = "jane"
	if err := client.Tracker().Add(stranger); err != nil {
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	c, err := New(Config{Client: client.CertificatesV1().CertificateSigningRequests(), Factory: factory,
		Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	go func() { _ = c.Run(t.Context()) }()
	_, err = client.CoreV1().Nodes().Create(t.Context(), newNode("a", "10.0.0.1"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		csr, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(csr.Status.Conditions) == 1 && csr.Status.Conditions[0].Type == certificatesv1.CertificateApproved {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not approved")
		}
		time.Sleep(10 * time.Millisecond)
	}
	left, err := client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "csr-b", metav1.GetOptions{})
	if err != nil || len(left.Status.Conditions) > 0 {
		t.Errorf("a request of no node: %v, %v", left.Status.Conditions, err)
	}
}
