package compile

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"quintet.dev/quintet/components/policy/model"
)

// selection is the pods that a set holds the addresses or a named port of.
type selection struct {
	// namespace is the only one that pods are selected in; where it is "", namespaces selects them by their labels, and
	// where that is nil, they are all.
	namespace  string
	namespaces labels.Selector
	pods       labels.Selector
	// local restricts the selection to pods of this node.
	local bool
	// port and protocol are a named port whose numbers the set holds; port is "" for a set of addresses.
	port     string
	protocol v1.Protocol
}

// id is the same for selections that select the same for the same reason.
func (s *selection) id() model.SetID {
	key := ""
	switch {
	case s.namespace != "":
		key = "namespace=" + s.namespace
	case s.namespaces != nil:
		key = fmt.Sprintf("namespaces(%s)", s.namespaces)
	default:
		key = "any namespace"
	}
	key += fmt.Sprintf(" pods(%s)", s.pods)
	if s.local {
		key += " local"
	}
	if s.port == "" {
		return model.SetID{Kind: model.KindAddresses, Key: key}
	}
	return model.SetID{Kind: model.KindPorts, Key: fmt.Sprintf("%s %s/%s", key, s.protocol, s.port)}
}

// selectsNamespace tells whether pods of a namespace may be selected. No namespaceSelector matches a namespace whose
// object is not known.
func (s *selection) selectsNamespace(name string, of labels.Set, known bool) bool {
	if s.namespace != "" {
		return s.namespace == name
	}
	return s.namespaces == nil || known && s.namespaces.Matches(of)
}

// element is what an address of a pod of a selected namespace adds to the set; false where the selection does not have
// the pod.
func (s *selection) element(pod *Pod, addr netip.Addr) (model.Element, bool) {
	if s.local && !pod.Local || !s.pods.Matches(pod.Labels) {
		return model.Element{}, false
	}
	element := model.Element{Addr: addr}
	if s.port == "" {
		return element, true
	}
	number, named := pod.port(s.port, s.protocol)
	element.Protocol, element.Port = s.protocol, number
	return element, named
}
