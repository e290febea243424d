package workloads

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"time"

	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance/suite"
)

func serviceAccount(ctx context.Context, t *suite.T) {
	accounts := t.Client.CoreV1().ServiceAccounts(t.Namespace)
	account := func(ctx context.Context) (*corev1.ServiceAccount, error) {
		return accounts.Get(ctx, "default", metav1.GetOptions{})
	}
	first := suite.WaitFor(ctx, t, "the default account", account, Not(BeNil()))
	root := func(ctx context.Context) (*corev1.ConfigMap, error) {
		return t.Client.CoreV1().ConfigMaps(t.Namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
	}
	suite.WaitFor(ctx, t, "the root certificate", root,
		HaveField("Data", HaveKeyWithValue("ca.crt", ContainSubstring("BEGIN CERTIFICATE"))))
	t.Must(accounts.Delete(ctx, "default", metav1.DeleteOptions{}), "delete the default account")
	suite.WaitFor(ctx, t, "a new default account", account, HaveField("UID", Not(Equal(first.UID))))
}

func endpointSlices(ctx context.Context, t *suite.T) {
	_, err := t.Client.CoreV1().Services(t.Namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	t.Must(err, "create the service")
	set := t.ReplicaSet("web", 2)
	_, err = t.Client.AppsV1().ReplicaSets(t.Namespace).Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create the replica set")
	pods := suite.WaitFor(ctx, t, "two ready pods", t.ListPods("app=web"),
		And(HaveLen(2), HaveEach(Satisfy(func(p corev1.Pod) bool { return isReady(&p) }))))

	ready := func(ctx context.Context) ([]string, error) {
		list, err := t.Client.DiscoveryV1().EndpointSlices(t.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil {
			return nil, err
		}
		addresses := []string{}
		for _, slice := range list.Items {
			for _, e := range slice.Endpoints {
				if e.Conditions.Ready != nil && *e.Conditions.Ready {
					addresses = append(addresses, e.Addresses...)
				}
			}
		}
		return addresses, nil
	}
	suite.WaitFor(ctx, t, "both pods in the slices", ready, ConsistOf(pods[0].Status.PodIP, pods[1].Status.PodIP))
	_, err = t.Client.AppsV1().ReplicaSets(t.Namespace).Patch(ctx, "web", "application/merge-patch+json",
		[]byte(`{"spec":{"replicas":1}}`), metav1.PatchOptions{})
	t.Must(err, "scale down")
	left := suite.WaitFor(ctx, t, "one pod", t.ListPods("app=web"), HaveLen(1))
	suite.WaitFor(ctx, t, "one pod in the slices", ready, ConsistOf(left[0].Status.PodIP))
}

// nodeRequest makes a certificate request as a kubelet named node would.
func nodeRequest(t *suite.T, node string) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	t.Must(err, "make a key")
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}}, key)
	t.Must(err, "make a request")
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func kubeletCertificate(ctx context.Context, t *suite.T) {
	node := t.Namespace + "-node"
	group := "conformance:" + t.Namespace
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: t.Namespace},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
			Name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: group}},
	}
	bootstrap := binding.DeepCopy()
	bootstrap.Name, bootstrap.RoleRef.Name = t.Namespace+"-create", "system:node-bootstrapper"
	for _, b := range []*rbacv1.ClusterRoleBinding{binding, bootstrap} {
		_, err := t.Client.RbacV1().ClusterRoleBindings().Create(ctx, b, metav1.CreateOptions{})
		t.Must(err, "create the binding")
		t.Cleanup(func(ctx context.Context) {
			_ = t.Client.RbacV1().ClusterRoleBindings().Delete(ctx, b.Name, metav1.DeleteOptions{})
		})
	}
	request := func(name, forNode string, asGroup string) {
		config := rest.CopyConfig(t.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "conformance:" + name,
			Groups: []string{asGroup, "system:authenticated"}}
		as, err := suite.Connect(config, t.Image)
		t.Must(err, "connect")
		wanted := &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: t.Namespace + "-" + name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: nodeRequest(t, forNode), SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
			}}
		// Servers hear of the binding a moment later.
		t.Eventually(func() error {
			_, err := as.Client.CertificatesV1().CertificateSigningRequests().Create(ctx, wanted,
				metav1.CreateOptions{})
			return err
		}).WithContext(ctx).WithTimeout(10*time.Second).Should(Succeed(), "create the request")
		t.Cleanup(func(ctx context.Context) {
			_ = t.Client.CertificatesV1().CertificateSigningRequests().Delete(ctx, t.Namespace+"-"+name,
				metav1.DeleteOptions{})
		})
	}
	read := func(name string) func(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
		return func(ctx context.Context) (*certificatesv1.CertificateSigningRequest, error) {
			return t.Client.CertificatesV1().CertificateSigningRequests().Get(ctx, t.Namespace+"-"+name,
				metav1.GetOptions{})
		}
	}
	request("kubelet", node, group)
	signed := suite.WaitFor(ctx, t, "a signed certificate", read("kubelet"),
		HaveField("Status.Certificate", Not(BeEmpty())))
	block, _ := pem.Decode(signed.Status.Certificate)
	t.Expect(block).NotTo(BeNil())
	certificate, err := x509.ParseCertificate(block.Bytes)
	t.Must(err, "parse the certificate")
	t.Expect(certificate.Subject.CommonName).To(Equal("system:node:" + node))
	t.Expect(certificate.ExtKeyUsage).To(ConsistOf(x509.ExtKeyUsageClientAuth))

	// A request of a user without the permission for nodeclient stays pending until it is approved by hand.
	other := bootstrap.DeepCopy()
	other.ResourceVersion, other.UID, other.Name = "", "", t.Namespace+"-other"
	other.Subjects[0].Name = group + ":other"
	_, err = t.Client.RbacV1().ClusterRoleBindings().Create(ctx, other, metav1.CreateOptions{})
	t.Must(err, "create the binding")
	t.Cleanup(func(ctx context.Context) {
		_ = t.Client.RbacV1().ClusterRoleBindings().Delete(ctx, other.Name, metav1.DeleteOptions{})
	})
	request("stranger", node, group+":other")
	suite.Never(ctx, t, "a certificate for a stranger", read("stranger"),
		HaveField("Status.Certificate", Not(BeEmpty())))
}
