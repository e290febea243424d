package apiserver_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// projecting is a pod that uses all features of pods that are off by default.
func projecting() corev1.PodSpec {
	return corev1.PodSpec{
		OS: &corev1.PodOS{Name: corev1.Linux}, ServiceAccountName: "a",
		Containers: []corev1.Container{{Name: "c", Image: "i",
			Lifecycle: &corev1.Lifecycle{StopSignal: ptr.To(corev1.SIGUSR1)}}},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Name: ptr.To("b"), Path: "ca.pem"}},
				{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519",
					CredentialBundlePath: "bundle.pem"}},
			}}}}},
	}
}

// kept tells which of the features a pod still uses.
func kept(s *corev1.PodSpec) string {
	var out []string
	if s.Containers[0].Lifecycle != nil {
		out = append(out, "signal")
	}
	for _, p := range s.Volumes[0].Projected.Sources {
		if p.ClusterTrustBundle != nil {
			out = append(out, "bundle")
		}
		if p.PodCertificate != nil {
			out = append(out, "certificate")
		}
	}
	return strings.Join(out, " ")
}

// TestGatesOfPodFeatures: what a gate that is off is for is dropped from pods and templates, and kept where it is on.
func TestGatesOfPodFeatures(t *testing.T) {
	for gate, want := range map[string]string{
		"": "", "ContainerStopSignals": "signal", "ClusterTrustBundleProjection": "bundle",
		"PodCertificateRequest": "certificate",
	} {
		set := map[string]bool{"ClusterTrustBundle": true}
		if gate != "" {
			set[gate] = true
		}
		client := start(t, withoutServiceAccounts, gated(set)).client(t)
		pod, err := client.CoreV1().Pods("default").Create(t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: projecting()}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := kept(&pod.Spec); got != want {
			t.Errorf("%q: a pod keeps %q", gate, got)
		}
		labels := map[string]string{"a": "b"}
		daemons := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: projecting()}}}
		daemons, err = client.AppsV1().DaemonSets("default").Create(t.Context(), daemons, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := kept(&daemons.Spec.Template.Spec); got != want {
			t.Errorf("%q: a template keeps %q", gate, got)
		}
	}
}

// signerTest is a server with a node, a pod on it, and a user who may sign for example.com/s.
type signerTest struct {
	*fixture
	admin, node, signer kubernetes.Interface
	request             *certificatesv1beta1.PodCertificateRequest // as the node makes it
	key                 *ecdsa.PrivateKey
}

func newSignerTest(t *testing.T) *signerTest {
	t.Helper()
	authority, err := certs.NewAuthority("nodes")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	f := start(t, gated(map[string]bool{"PodCertificateRequest": true}), func(c *options.Config) {
		c.ClientCAFile, c.EnableAdmission = file, []string{"NodeRestriction"}
		c.RuntimeConfig = map[string]string{"certificates.k8s.io/v1beta1/podcertificaterequests": "true"}
	})
	s := &signerTest{fixture: f, admin: f.client(t), signer: f.clientOf(t, f.as("alice"))}
	s.node = f.clientOf(t, &rest.Config{Host: "https://" + f.server.Addr().String(),
		TLSClientConfig: withUID(t, authority, "system:node:n1", "7")})
	node, err := s.admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := s.admin.CoreV1().ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec := projecting()
	spec.NodeName = "n1"
	pod, err := s.admin.CoreV1().Pods("default").Create(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, s.key)
	if err != nil {
		t.Fatal(err)
	}
	s.request = &certificatesv1beta1.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "req-"},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{SignerName: "example.com/s", PodName: "p", PodUID: pod.UID,
			ServiceAccountName: "a", ServiceAccountUID: account.UID, NodeName: "n1", NodeUID: node.UID,
			StubPKCS10Request: stub}}
	s.grant(t)
	return s
}

// grant lets alice write the status of requests, and sign for one signer.
func (s *signerTest) grant(t *testing.T) {
	t.Helper()
	group := []string{"certificates.k8s.io"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "signer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"podcertificaterequests", "podcertificaterequests/status"},
			Verbs: []string{"get", "list", "watch", "update"}},
		{APIGroups: group, Resources: []string{"signers"}, ResourceNames: []string{"example.com/s"},
			Verbs: []string{"sign"}},
	}}
	if _, err := s.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "signer"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "signer"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "alice"}}}
	if _, err := s.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// issue fills in the status with a real certificate of the requested key.
func issue(t *testing.T, r *certificatesv1beta1.PodCertificateRequest) {
	t.Helper()
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		t.Fatal(err)
	}
	r.Status = chainFor(t, csr.PublicKey)
}

func chainFor(t *testing.T, key crypto.PublicKey) certificatesv1beta1.PodCertificateRequestStatus {
	t.Helper()
	authority, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	begins := time.Now().Truncate(time.Second)
	template := &x509.Certificate{SerialNumber: big.NewInt(7), NotBefore: begins, NotAfter: begins.Add(2 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key, authority)
	if err != nil {
		t.Fatal(err)
	}
	return certificatesv1beta1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{Type: certificatesv1beta1.PodCertificateRequestConditionTypeIssued,
			Status: metav1.ConditionTrue, Reason: "Signed"}},
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        ptr.To(metav1.NewTime(begins)), NotAfter: ptr.To(metav1.NewTime(template.NotAfter)),
		BeginRefreshAt: ptr.To(metav1.NewTime(begins.Add(time.Hour))),
	}
}

// TestPodCertificateRequests: a node asks for its pod's certificate, the signer issues it, and neither can more.
func TestPodCertificateRequests(t *testing.T) {
	s := newSignerTest(t)
	type spec = certificatesv1beta1.PodCertificateRequestSpec
	kubelet := creator{t, s.node}
	for name, test := range map[string]struct {
		change func(*spec)
		want   string
	}{
		"another node": {func(r *spec) { r.NodeName = "n2" },
			`NodeName="n2", which is not the requesting node "n1"`},
		"another pod's UID": {func(r *spec) { r.PodUID = "u" },
			"which differs from running pod"},
		"another node's UID": {func(r *spec) { r.NodeUID = "u" },
			"inconsistent with the running node"},
		"another account": {func(r *spec) { r.ServiceAccountName = "b" },
			"that differs from running pod"},
		"no such pod": {func(r *spec) { r.PodName = "q" },
			`while retrieving pod "default/q"`},
		"a key that isn't there": {
			func(r *spec) { r.StubPKCS10Request = []byte{1} },
			"must be a valid PKCS#10 CSR"},
	} {
		r := s.request.DeepCopy()
		test.change(&r.Spec)
		if _, err := kubelet.Create(r); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	made, err := kubelet.Create(s.request)
	if err != nil {
		t.Fatal(err)
	}
	if made.Spec.MaxExpirationSeconds == nil || *made.Spec.MaxExpirationSeconds != 86400 {
		t.Errorf("asks for %v seconds", made.Spec.MaxExpirationSeconds)
	}
	requests := s.node.CertificatesV1beta1().PodCertificateRequests("default")
	eventually(t, "the node may read its request", func() bool {
		_, err := requests.Get(t.Context(), made.Name, metav1.GetOptions{})
		return err == nil
	})
	all := s.node.CertificatesV1beta1().PodCertificateRequests("")
	if list, err := all.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n1"}); err != nil ||
		len(list.Items) != 1 {
		t.Errorf("the node lists %v, %v", list, err)
	}
	for _, selector := range []string{"", "spec.nodeName=n2"} {
		if _, err := all.List(t.Context(), metav1.ListOptions{FieldSelector: selector}); !apierrors.IsForbidden(err) {
			t.Errorf("the node lists by %q: %v", selector, err)
		}
	}
	if _, err := requests.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the node writes the status: %v", err)
	}
	s.sign(t, made)
}

type creator struct {
	t *testing.T
	c kubernetes.Interface
}

func (c creator) Create(r *certificatesv1beta1.PodCertificateRequest) (*certificatesv1beta1.PodCertificateRequest,
	error) {
	return c.c.CertificatesV1beta1().PodCertificateRequests("default").Create(c.t.Context(), r, metav1.CreateOptions{})
}

// sign issues the certificate of a request, after what can't be done to it.
func (s *signerTest) sign(t *testing.T, made *certificatesv1beta1.PodCertificateRequest) {
	t.Helper()
	signing := s.signer.CertificatesV1beta1().PodCertificateRequests("default")
	other := made.DeepCopy()
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other.Status = chainFor(t, &stranger.PublicKey)
	if _, err := signing.UpdateStatus(t.Context(), other, metav1.UpdateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "leaf certificate was not issued to the requested public key") {
		t.Errorf("a certificate of another key: %v", err)
	}
	foreign := s.request.DeepCopy()
	foreign.Spec.SignerName = "example.org/other"
	foreign, err = creator{t, s.admin}.Create(foreign)
	if err != nil {
		t.Fatal(err)
	}
	issue(t, foreign)
	const refused = `spec.signerName: Forbidden: User "alice" is not permitted to "sign" for signer "example.org/other"`
	eventually(t, "alice may write statuses, but not sign for others", func() bool {
		_, err := signing.UpdateStatus(t.Context(), foreign, metav1.UpdateOptions{})
		return err != nil && strings.Contains(err.Error(), refused)
	})
	issue(t, made)
	issued, err := signing.UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if issued.Status.Conditions[0].LastTransitionTime.IsZero() || issued.Status.CertificateChain == "" {
		t.Errorf("issued: %+v", issued.Status)
	}
	issued.Status.CertificateChain = ""
	if _, err := signing.UpdateStatus(t.Context(), issued, metav1.UpdateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "immutable after PodCertificateRequest is issued, denied, or failed") {
		t.Errorf("a change afterwards: %v", err)
	}
	table := s.text(t, fmt.Sprintf("/apis/certificates.k8s.io/v1beta1/namespaces/default/podcertificaterequests/%s",
		made.Name))
	if !strings.Contains(table, `"Issued"`) {
		t.Errorf("is served as %s", table)
	}
}
