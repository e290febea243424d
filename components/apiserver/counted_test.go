package apiserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/bootstrap"
	"quintet.dev/quintet/components/apiserver/options"
	"quintet.dev/quintet/internal/certs"
)

// TestReloadsAreCounted, with the sum of what is in force.
func TestReloadsAreCounted(t *testing.T) {
	const (
		authentication = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
		authorization  = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: " +
			"Node, name: node}, {type: RBAC, name: rbac}]\n"
		turned = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: " +
			"RBAC, name: rbac}, {type: Node, name: node}]\n"
	)
	write := func(file, content string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file+".new", []byte(content), 0o600),
			os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	identity := "counted-" + rand.Text() // of its own, as counts outlive a server within a process
	dir := t.TempDir()
	files := map[string]string{"authentication": filepath.Join(dir, "authn"),
		"authorization": filepath.Join(dir, "authz")}
	contents := map[string]string{"authentication": authentication, "authorization": authorization}
	next := map[string]string{"authentication": authentication + "# new\n", "authorization": turned}
	for name, file := range files {
		write(file, contents[name])
	}
	f := start(t, func(c *options.Config) {
		c.Identity, c.AuthorizationModes = identity, nil
		c.AuthenticationConfigFile, c.AuthorizationConfigFile = files["authentication"], files["authorization"]
	})
	sum := func(s string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(s))) }
	server := `{apiserver_id_hash="` + sum(bootstrap.LeaseName(identity)) + `"`
	shows := func(lines ...string) func() bool {
		return func() bool {
			text := metricsOf(t, f)
			for _, line := range lines {
				if !strings.Contains(text, line+"\n") {
					return false
				}
			}
			return true
		}
	}
	for name, file := range files {
		prefix := "apiserver_" + name + "_config_controller_"
		inForce := func(content string) string {
			return prefix + "last_config_info" + server + `,hash="` + sum(content) + `"} 1`
		}
		counted := func(status, n string) string {
			return prefix + "automatic_reloads_total" + server + `,status="` + status + `"} ` + n
		}
		eventually(t, name+" at first", shows(inForce(contents[name])))
		write(file, "garbage")
		eventually(t, name+" that can't be used", shows(inForce(contents[name]), counted("failure", "1")))
		write(file, next[name])
		eventually(t, name+" that is new", shows(inForce(next[name]), counted("success", "1")))
	}
}

// TestIssuedDurationsAreCounted once, when they are stored.
func TestIssuedDurationsAreCounted(t *testing.T) {
	f := start(t)
	client := f.client(t).CertificatesV1().CertificateSigningRequests()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: "alice"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := certs.NewAuthority("ca")
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.Client("alice") // for a year
	if err != nil {
		t.Fatal(err)
	}
	for signer, seconds := range map[string]int32{"example.com/signer": 3600,
		certificatesv1.KubeAPIServerClientSignerName: 365 * 24 * 3600} {
		r, err := client.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: asked}), SignerName: signer,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}, ExpirationSeconds: ptr.To(seconds),
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{
			{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue}}
		if r, err = client.UpdateApproval(t.Context(), r.Name, r, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.Status.Certificate = issued.Cert
		for _, o := range []metav1.UpdateOptions{{DryRun: []string{metav1.DryRunAll}}, {}} {
			if _, err := client.UpdateStatus(t.Context(), r, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for line := range strings.Lines(metricsOf(t, f)) {
		if strings.HasPrefix(line, "apiserver_certificates_registry_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		`apiserver_certificates_registry_csr_honored_duration_total{signerName="kubernetes.io/kube-apiserver-client"} 1`,
		`apiserver_certificates_registry_csr_requested_duration_total{signerName="kubernetes.io/kube-apiserver-client"} 1`,
		`apiserver_certificates_registry_csr_requested_duration_total{signerName="other"} 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
