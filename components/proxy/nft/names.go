package nft

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"quintet.dev/quintet/components/proxy/model"
)

// Names of the table and of what is in it. They are upstream's where it has the same, so that either proxy cleans up
// after the other.
const (
	table = "kube-proxy"

	servicesChain   = "services"
	masqueradeChain = "masquerading"
	markChain       = "mark-for-masquerade"
	rejectChain     = "reject-chain"
	firewallCheck   = "firewall-check"
	serviceCheck    = "service-endpoints-check"
	nodePortCheck   = "nodeport-endpoints-check"
	clusterIPsCheck = "cluster-ips-check"

	serviceIPs          = "service-ips"
	serviceNodePorts    = "service-nodeports"
	noEndpointServices  = "no-endpoint-services"
	noEndpointNodePorts = "no-endpoint-nodeports"
	firewallIPs         = "firewall-ips"
	clusterIPsSet       = "cluster-ips"
	nodePortIPs         = "nodeport-ips"
	hairpinSet          = "hairpin-connections"
	affinityPrefix      = "affinity-" // of the sets of an endpoint's clients
)

// longestName is how long the readable part of a name may be; the kernel has room for 128 bytes in all.
const longestName = 100

// portName is unique for the port of a Service in its family, and tells people which one it is.
func portName(key model.PortKey) string {
	readable := fmt.Sprintf("%s/%s/%s/%s", key.Namespace, key.Name, strings.ToLower(string(key.Protocol)), key.Port)
	return hashed(readable) + "-" + readable[:min(len(readable), longestName)]
}

// hashed is short and the same for the same text.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:8]
}
