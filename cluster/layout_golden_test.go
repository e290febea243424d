package cluster

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"quintet.dev/quintet/cluster/internal/backend"
	"quintet.dev/quintet/internal/golden"
)

// street is the addressing of containers: each member has a host name and addresses of its own, in both families.
type street struct{ nowhere }

func (street) Host(member string) string { return member + ".x" }
func (street) IPs(member string) []string {
	n := 0
	for _, c := range member {
		n = (n*31 + int(c)) % 200
	}
	return []string{fmt.Sprintf("10.9.0.%d", n+10), fmt.Sprintf("fd09::%x", n+10)}
}

func (street) Pools() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("10.9.1.0/24"), netip.MustParsePrefix("fd09::1:0/112")}
}

// TestLayouts compares all members of some clusters, with their arguments, files, identities and rights, with
// testdata/layout.
func TestLayouts(t *testing.T) {
	for name, opts := range map[string][]Option{
		"containers":        {WithNodes(2), WithPublishedPort(8080, 30080), WithArgs(Scheduler, "--v=4")},
		"high-availability": {WithAPIServers(2), WithEtcdMembers(3), WithIPFamily(DualStack), WithMetricsServer()},
		"swapped": {WithImage(Scheduler, "mine:1"), WithImage(KubeProxy, "proxy:1"), Without(NetworkPolicy),
			WithoutDefaultStorageClass(), WithArgs(Node, "--max-pods=5"), WithIPFamily(IPv6)},
		"node-resources": {WithNodeResources(2, 4<<30), WithOvercommit(),
			WithGracefulNodeShutdown(30*time.Second, 10*time.Second)},
		"node-disk":            {WithNodeDisk(2 << 30)},
		"in-process-resources": {InProcess(), WithNodeResources(3, 5<<30)},
		"described-nodes": {
			WithNode(NodeOptions{Role: "infra", Labels: map[string]string{"zone": "a", "topology.kubernetes.io/zone": "b"},
				Taints: []corev1.Taint{{Key: "only", Value: "infra", Effect: corev1.TaintEffectNoSchedule}},
				Args:   []string{"--config=/etc/kubernetes/mine/kubelet.yaml"}}),
			WithNode(NodeOptions{Mounts: []Mount{{HostPath: "/srv", ContainerPath: "/data", ReadOnly: true}},
				Ports: []PortMapping{{ContainerPort: 53, HostPort: 5353, Protocol: corev1.ProtocolUDP,
					ListenAddress: "127.0.0.2"}}}),
			WithFile(Node, "/etc/kubernetes/mine/kubelet.yaml", []byte("kind: KubeletConfiguration\n"))},
		"cri": {WithRuntime(CRI), WithRegistry(), WithRegistryMirror("http://mirror:5000"),
			WithInsecureRegistry("plain:5000")},
		"control-plane": {WithNodes(0), Without(ControllerManager), Without(Scheduler)},
		"in-process":    {InProcess(), WithNodes(2), WithMetricsServer(), Without(ControllerManager)},
		"in-process-etcd": {InProcess(), WithStore(EmbeddedEtcd), WithAPIServers(2), WithNodes(1),
			WithArgs(Etcd, "--quota-backend-bytes=1")},
	} {
		t.Run(name, func(t *testing.T) {
			got := describeLayout(t, opts)
			path := filepath.Join("testdata", "layout", name+".txt")
			golden.Compare(t, path, got)
		})
	}
}

func configured(t *testing.T, opts ...Option) *config {
	t.Helper()
	c := newConfig("x")
	for _, opt := range opts {
		if err := opt(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.check(); err != nil {
		t.Fatal(err)
	}
	return c
}

func describeLayout(t *testing.T, opts []Option) string {
	t.Helper()
	c := configured(t, opts...)
	ids, err := newIdentities(time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	var addressing backend.Addressing = street{}
	if c.inProcess {
		addressing = nowhere{}
	}
	members, err := (&layout{config: c, addressing: addressing, ids: ids}).members()
	if err != nil {
		t.Fatal(err)
	}
	d := describer{T: t, ids: ids}
	for _, m := range members {
		d.member(&m)
	}
	return d.out.String()
}

// describer writes a layout down; keys, and what changes with each run, are left out.
type describer struct {
	*testing.T
	ids *identities
	out strings.Builder
}

func (d *describer) member(m *backend.Member) {
	fmt.Fprintf(&d.out, "%s (%s): %s of %s\n", m.Name, m.Component, m.Program, m.Image)
	for label, is := range map[string]bool{"a machine": m.Machine,
		"sets its network up": m.Network == backend.NetworkAdmin, "is a router": m.Network == backend.NetworkRouter} {
		if is {
			fmt.Fprintf(&d.out, "  %s\n", label)
		}
	}
	if m.SharesNetworkWith != "" {
		fmt.Fprintf(&d.out, "  shares the network of %s\n", m.SharesNetworkWith)
	}
	if m.Port != 0 {
		fmt.Fprintf(&d.out, "  port %d\n", m.Port)
	}
	if m.Resources != (backend.Resources{}) {
		fmt.Fprintf(&d.out, "  has %d CPUs and %d bytes of memory\n", m.Resources.CPUs, m.Resources.MemoryBytes)
	}
	if m.StopGrace > 0 {
		fmt.Fprintf(&d.out, "  stops within %v\n", m.StopGrace)
	}
	if len(m.Publish) > 0 {
		fmt.Fprintf(&d.out, "  publishes %v\n", m.Publish)
	}
	if len(m.Mounts) > 0 {
		fmt.Fprintf(&d.out, "  mounts %v\n", m.Mounts)
	}
	if len(m.Data) > 0 {
		fmt.Fprintf(&d.out, "  keeps %v\n", m.Data)
	}
	if m.DataSize > 0 || m.DataFrom != "" {
		fmt.Fprintf(&d.out, "  on a disk of %d bytes, or of %q\n", m.DataSize, m.DataFrom)
	}
	for _, arg := range m.Args {
		fmt.Fprintf(&d.out, "  %s\n", arg)
	}
	var names []string
	for name := range m.Files {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		d.file(name, m.Files[name])
	}
	d.out.WriteString("\n")
}

func (d *describer) file(name string, content []byte) {
	switch {
	case strings.HasSuffix(name, ".conf"):
		fmt.Fprintf(&d.out, "  %s: %s\n", name, d.kubeconfig(content))
	case strings.HasSuffix(name, ".crt"):
		fmt.Fprintf(&d.out, "  %s: %s\n", name, d.certificate(content))
	case strings.HasPrefix(name, "pki/"):
		block, _ := pem.Decode(content)
		if block == nil {
			d.Errorf("%s is no PEM", name)
			return
		}
		fmt.Fprintf(&d.out, "  %s: %s\n", name, block.Type)
	default:
		fmt.Fprintf(&d.out, "  %s:\n", name)
		for line := range strings.Lines(string(content)) {
			fmt.Fprintf(&d.out, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
}

// kubeconfig tells the server, and who its certificate says that the user is.
func (d *describer) kubeconfig(content []byte) string {
	config, err := clientcmd.Load(content)
	if err != nil {
		d.Fatal(err)
	}
	at := config.Contexts[config.CurrentContext]
	if at == nil {
		d.Fatalf("no current context in %s", content)
	}
	server, user := config.Clusters[at.Cluster], config.AuthInfos[at.AuthInfo]
	if string(server.CertificateAuthorityData) != string(d.ids.cluster.Cert) {
		d.Error("the server is not checked by the cluster's authority")
	}
	return fmt.Sprintf("context %s, user %s at %s, %s", config.CurrentContext, at.AuthInfo, server.Server,
		d.certificate(user.ClientCertificateData))
}

// certificate tells the subject, the authority, the names and the usages.
func (d *describer) certificate(content []byte) string {
	block, _ := pem.Decode(content)
	if block == nil {
		d.Fatalf("no PEM: %s", content)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		d.Fatal(err)
	}
	if c.IsCA {
		return "authority " + c.Subject.CommonName
	}
	text := fmt.Sprintf("%q of %s", c.Subject.CommonName, c.Issuer.CommonName)
	if len(c.Subject.Organization) > 0 {
		text += fmt.Sprintf(", groups %q", c.Subject.Organization)
	}
	usages := map[x509.ExtKeyUsage]string{x509.ExtKeyUsageClientAuth: ", client", x509.ExtKeyUsageServerAuth: ", server"}
	for _, usage := range c.ExtKeyUsage {
		text += usages[usage]
	}
	hosts := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		hosts = append(hosts, ip.String())
	}
	if len(hosts) > 0 {
		text += " for " + strings.Join(hosts, " ")
	}
	return text
}
