package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate"
)

// bootstrap gets a client certificate with the bootstrap kubeconfig where there is no kubeconfig yet, writes the
// kubeconfig that refers to it, and renews it while the kubelet runs if that is asked for
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/).
func (k *Kubelet) bootstrap(ctx context.Context, group *errgroup.Group) error {
	c := &k.config
	_, err := os.Stat(c.Kubeconfig)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	if !missing && !c.RotateCertificates {
		return nil
	}
	if missing && c.BootstrapKubeconfig == "" {
		return fmt.Errorf("--kubeconfig %s does not exist: write it, or give --bootstrap-kubeconfig", c.Kubeconfig)
	}
	if err := os.MkdirAll(c.CertDir, 0o700); err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	store, err := certificate.NewFileStore("kubelet-client", c.CertDir, c.CertDir, "", "")
	if err != nil {
		return fmt.Errorf("--cert-dir: %w", err)
	}
	manager, err := certificate.NewManager(&certificate.Config{
		Name:       "kubelet-client",
		Ctx:        &ctx,
		SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
		Template: &x509.CertificateRequest{Subject: pkix.Name{
			CommonName: "system:node:" + k.name, Organization: []string{"system:nodes"},
		}},
		GetUsages:        clientUsages,
		CertificateStore: store,
		ClientsetFn:      k.signingClient,

		CertificateRenewFailure: k.metrics.ClientRenewErrors,
	})
	if err != nil {
		return fmt.Errorf("client certificate: %w", err)
	}
	k.metrics.Expires("client", func() time.Time { return expiry(manager.Current()) }, k.clock.Now)
	manager.Start()
	if missing {
		if err := k.awaitCertificate(ctx, manager); err != nil {
			manager.Stop()
			return err
		}
		if err := k.writeKubeconfig(store.CurrentPath()); err != nil {
			manager.Stop()
			return err
		}
	}
	if !c.RotateCertificates {
		manager.Stop()
		return nil
	}
	group.Go(func() error {
		<-ctx.Done()
		manager.Stop()
		return nil
	})
	return nil
}

func clientUsages(any) []certificatesv1.KeyUsage {
	return []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
}

// signingClient asks with the present certificate, or with the bootstrap credentials before there is one.
func (k *Kubelet) signingClient(current *tls.Certificate) (kubernetes.Interface, error) {
	file := k.config.BootstrapKubeconfig
	if _, err := os.Stat(k.config.Kubeconfig); err == nil && (current != nil || file == "") {
		file = k.config.Kubeconfig
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (k *Kubelet) awaitCertificate(ctx context.Context, manager certificate.Manager) error {
	ticker := k.clock.NewTicker(certificatePoll)
	defer ticker.Stop()
	for manager.Current() == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no client certificate was issued (is the signing request approved?): %w", ctx.Err())
		case <-ticker.C():
		}
	}
	return nil
}

// writeKubeconfig points at the certificate's file, which is replaced when it is renewed.
func (k *Kubelet) writeKubeconfig(pem string) error {
	bootstrap, err := clientcmd.LoadFromFile(k.config.BootstrapKubeconfig)
	if err != nil {
		return fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	if err := clientcmd.ResolveLocalPaths(bootstrap); err != nil { // they are relative to that file
		return fmt.Errorf("--bootstrap-kubeconfig: %w", err)
	}
	present := bootstrap.Contexts[bootstrap.CurrentContext]
	if present == nil || bootstrap.Clusters[present.Cluster] == nil {
		return fmt.Errorf("--bootstrap-kubeconfig %s has no current context with a cluster",
			k.config.BootstrapKubeconfig)
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["default-cluster"] = bootstrap.Clusters[present.Cluster]
	config.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: pem, ClientKey: pem}
	config.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth"}
	config.CurrentContext = "default-context"
	if err := os.MkdirAll(filepath.Dir(k.config.Kubeconfig), 0o700); err != nil {
		return err
	}
	return clientcmd.WriteToFile(*config, k.config.Kubeconfig)
}
