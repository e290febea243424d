package nft

import (
	"crypto/sha256"
	"encoding/base32"
	"net/netip"
	"strings"

	"quintet.dev/quintet/components/policy/model"
)

// tableName is the name of the table of family inet.
const tableName = "network-policy"

// longestName is how long the readable part of a name may be; the kernel has room for 128 bytes in all.
const longestName = 80

// family of addresses: the keyword of its packets, what its sets are called after, and the type of its addresses.
type family struct{ keyword, suffix, addressType string }

func families() [2]family {
	return [2]family{{"ip", "-v4", "ipv4_addr"}, {"ip6", "-v6", "ipv6_addr"}}
}

func familyOf(addr netip.Addr) family {
	if addr.Is4() {
		return families()[0]
	}
	return families()[1]
}

// baseChain is attached to the hook.
func baseChain(direction model.Direction) string { return "forward-" + string(direction) }

// startingChain holds packets of pods whose addresses are not known yet.
func startingChain(direction model.Direction) string { return string(direction) + "-starting" }

// podsMap leads from a pod's address to the chain of its group.
func podsMap(direction model.Direction, f family) string {
	return string(direction) + "-pods" + f.suffix
}

// localSet has the addresses of this node's pods, and selfSet has each of them together with itself.
func localSet(f family) string { return "local-pods" + f.suffix }
func selfSet(f family) string  { return "same-pod" + f.suffix }

func groupChain(group model.Group) string {
	hash := hashed(string(group.Direction) + "\n" + group.Namespace + "\n" + group.Policies)
	return string(group.Direction) + "-group-" + hash + "-" + shortened(group.Namespace)
}

func policyChain(key model.PolicyKey) string {
	readable := key.Namespace + "/" + key.Name
	return string(key.Direction) + "-policy-" + hashed(readable) + "-" + shortened(readable)
}

func setName(id model.SetID, f family) string {
	return string(id.Kind) + "-" + hashed(id.Key) + f.suffix
}

func shortened(text string) string { return text[:min(len(text), longestName)] }

// hashed is short and the same for the same text.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:12])
}
