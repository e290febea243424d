// Package approve approves the serving certificates of kubelets. The controller manager leaves that to those who know
// the machines of a cluster, as cloud providers do
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/#certificate-rotation).
package approve

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
)

const (
	nodePrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// open tells whether a request is for a kubelet's serving certificate, and neither approved nor denied.
func open(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeletServingSignerName && len(csr.Status.Certificate) == 0 &&
		!slices.ContainsFunc(csr.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied ||
				c.Type == certificatesv1.CertificateFailed
		})
}

// nodeName is the node whose kubelet made the request.
func nodeName(csr *certificatesv1.CertificateSigningRequest) (string, error) {
	name, ok := strings.CutPrefix(csr.Spec.Username, nodePrefix)
	if !ok || name == "" || !slices.Contains(csr.Spec.Groups, nodesGroup) {
		return "", fmt.Errorf("user %q is no node", csr.Spec.Username)
	}
	return name, nil
}

// check is an error if the certificate would be for more than the node: a name or an address that is not the node's, or
// is another node's, too. nodes has all of them.
func check(csr *certificatesv1.CertificateSigningRequest, node *v1.Node, nodes []*v1.Node) error {
	block, _ := pem.Decode(csr.Spec.Request)
	if block == nil {
		return errors.New("the request is not in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	if err := request.CheckSignature(); err != nil {
		return err
	}
	subject := request.Subject
	if subject.CommonName != csr.Spec.Username || !slices.Equal(subject.Organization, []string{nodesGroup}) {
		return fmt.Errorf("the subject %s is not that of the node", request.Subject)
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 || len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return errors.New("a node has names or addresses, and nothing else")
	}
	if err := checkUsages(csr.Spec.Usages); err != nil {
		return err
	}
	for _, name := range request.DNSNames {
		if name != node.Name && !has(node, name, v1.NodeHostName, v1.NodeInternalDNS, v1.NodeExternalDNS) {
			return fmt.Errorf("%q is no name of the node", name)
		}
	}
	return checkAddresses(request.IPAddresses, node, nodes)
}

func checkUsages(usages []certificatesv1.KeyUsage) error {
	allowed := []certificatesv1.KeyUsage{certificatesv1.UsageServerAuth, certificatesv1.UsageDigitalSignature,
		certificatesv1.UsageKeyEncipherment}
	for _, usage := range usages {
		if !slices.Contains(allowed, usage) {
			return fmt.Errorf("usage %q is not for serving", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageServerAuth) {
		return errors.New("the certificate is not for serving")
	}
	return nil
}

func checkAddresses(ips []net.IP, node *v1.Node, nodes []*v1.Node) error {
	for _, ip := range ips {
		if !has(node, ip.String(), v1.NodeInternalIP, v1.NodeExternalIP) {
			return fmt.Errorf("%s is no address of the node", ip)
		}
		for _, other := range nodes {
			if other.Name != node.Name && has(other, ip.String(), v1.NodeInternalIP, v1.NodeExternalIP) {
				return fmt.Errorf("%s is an address of the node %s, too", ip, other.Name)
			}
		}
	}
	return nil
}

func has(node *v1.Node, address string, types ...v1.NodeAddressType) bool {
	return slices.ContainsFunc(node.Status.Addresses, func(a v1.NodeAddress) bool {
		return a.Address == address && slices.Contains(types, a.Type)
	})
}
