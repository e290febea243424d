// Package node decides requests of kubelets: each may act on its own node and on what its pods need
// (https://kubernetes.io/docs/reference/access-authn-authz/node/).
package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// UserPrefix starts the user name of every kubelet.
const UserPrefix = "system:node:"

// Name returns the name of the node that u is; isNode is whether u is a kubelet at all. A kubelet of unknown name has
// the group, but not the user name.
func Name(u user.Info) (name string, isNode bool) {
	if u == nil || !slices.Contains(u.GetGroups(), user.NodesGroup) {
		return "", false
	}
	name, found := strings.CutPrefix(u.GetName(), UserPrefix)
	return name, found
}

// Authorizer holds the graph of what nodes need. It is safe for concurrent use.
type Authorizer struct {
	graph *graph
	rules func(authorizer.Attributes) bool
}

// New returns an Authorizer. rules decides on requests that don't depend on the node, from the rules of "system:node".
func New(rules func(authorizer.Attributes) bool) *Authorizer {
	return &Authorizer{graph: newGraph(), rules: rules}
}

var (
	_ authorizer.Authorizer   = &Authorizer{}
	_ authorizer.RuleResolver = &Authorizer{}
)

// RulesFor knows no list of rules: they depend on the graph, so the answer is incomplete for a node.
func (a *Authorizer) RulesFor(_ context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo,
	[]authorizer.NonResourceRuleInfo, bool, error) {
	if _, isNode := Name(u); isNode {
		return nil, nil, true, fmt.Errorf("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

const (
	allow     = authorizer.DecisionAllow
	noOpinion = authorizer.DecisionNoOpinion
)

// Authorize allows a kubelet what its node needs and has no opinion on the rest.
func (a *Authorizer) Authorize(_ context.Context, r authorizer.Attributes) (authorizer.Decision, string, error) {
	name, isNode := Name(r.GetUser())
	if !isNode {
		return noOpinion, "", nil
	}
	if name == "" {
		return noOpinion, fmt.Sprintf("unknown node for user %q", r.GetUser().GetName()), nil
	}
	if r.IsResourceRequest() {
		if decide, ok := byResource[schema.GroupResource{Group: r.GetAPIGroup(), Resource: r.GetResource()}]; ok {
			decision, reason := decide(a, name, r)
			return decision, reason, nil
		}
	}
	if a.rules(r) {
		return allow, "", nil
	}
	return noOpinion, "", nil
}

type decider func(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string)

// byResource decides on what depends on the node.
var byResource = map[schema.GroupResource]decider{
	{Resource: "secrets"}:    readNamespaced(secret),
	{Resource: "configmaps"}: readNamespaced(configMap),
	{Resource: "persistentvolumeclaims"}: func(a *Authorizer, node string,
		r authorizer.Attributes) (authorizer.Decision, string) {
		if r.GetSubresource() == "status" {
			return writeStatus(claim)(a, node, r)
		}
		return get(claim)(a, node, r)
	},
	{Resource: "persistentvolumes"}:                                    get(volume),
	{Group: "storage.k8s.io", Resource: "volumeattachments"}:           get(attachment),
	{Group: "resource.k8s.io", Resource: "resourceclaims"}:             get(resourceClaim),
	{Group: "resource.k8s.io", Resource: "resourceslices"}:             decideSlice,
	{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}: decidePodRequest,
	{Resource: "serviceaccounts"}:                                      decideToken,
	{Group: "coordination.k8s.io", Resource: "leases"}:                 decideLease,
	{Group: "storage.k8s.io", Resource: "csinodes"}:                    decideCSINode,
	{Resource: "nodes"}:                                                decideNode,
	{Resource: "pods"}:                                                 decidePod,
}

// needed allows when there is a path from the node to the object.
func (a *Authorizer) needed(k kind, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	if r.GetName() == "" {
		return noOpinion, "No Object name found"
	}
	if !a.graph.reaches(node, ref{k, r.GetNamespace(), r.GetName()}) {
		return noOpinion, fmt.Sprintf("no relationship found between node '%s' and this object", node)
	}
	return allow, ""
}

func readNamespaced(k kind) decider {
	return func(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
		switch {
		case !r.IsReadOnly():
			return noOpinion, "can only read resources of this type"
		case r.GetSubresource() != "":
			return noOpinion, "cannot read subresource"
		case r.GetNamespace() == "":
			return noOpinion, "can only read namespaced object of this type"
		}
		return a.needed(k, node, r)
	}
}

func get(k kind) decider {
	return func(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
		switch {
		case r.GetVerb() != "get":
			return noOpinion, "can only get individual resources of this type"
		case r.GetSubresource() != "":
			return noOpinion, "cannot get subresource"
		}
		return a.needed(k, node, r)
	}
}

func writeStatus(k kind) decider {
	return func(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
		if !slices.Contains([]string{"update", "patch"}, r.GetVerb()) {
			return noOpinion, "can only get/update/patch this type" // upstream's words
		}
		return a.needed(k, node, r)
	}
}

func decideToken(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	switch {
	case r.GetVerb() == "get" && r.GetSubresource() == "":
		return a.needed(serviceAccount, node, r)
	case r.GetVerb() != "create", r.GetName() == "":
		return noOpinion, "can only create tokens for individual service accounts"
	case r.GetSubresource() != "token":
		return noOpinion, "can only create token subresource of serviceaccount"
	}
	return a.needed(serviceAccount, node, r)
}

func decideSlice(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	if r.GetSubresource() != "" {
		return noOpinion, "cannot authorize ResourceSlice subresources"
	}
	switch r.GetVerb() {
	case "create": // NodeRestriction looks at the content
		return allow, ""
	case "get", "update", "patch", "delete":
		return a.needed(resourceSlice, node, r)
	case "list", "watch", "deletecollection":
		if selects(r, "spec.nodeName", node) {
			return allow, ""
		}
		return noOpinion, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return noOpinion,
		"only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, " +
			"deletecollection"
}

func decidePodRequest(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	if r.GetSubresource() != "" {
		return noOpinion, "nodes may not access the status subresource of PodCertificateRequests"
	}
	switch r.GetVerb() {
	case "create": // NodeRestriction looks at the content
		return allow, ""
	case "get":
		return a.needed(podRequest, node, r)
	case "list", "watch":
		if selects(r, "spec.nodeName", node) {
			return allow, ""
		}
		return noOpinion, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return noOpinion, "nodes may not " + r.GetVerb() + " podcertificaterequests"
}

// ownVerbs are what a kubelet may do to the objects that carry its node's name.
var ownVerbs = []string{"get", "create", "update", "patch", "delete"}

func decideLease(_ *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	switch {
	case !slices.Contains(ownVerbs, r.GetVerb()):
		return noOpinion, "can only get, create, update, patch, or delete a node lease"
	case r.GetNamespace() != "kube-node-lease":
		return noOpinion, fmt.Sprintf("can only access leases in the %q system namespace", "kube-node-lease")
	case r.GetVerb() != "create" && r.GetName() != node: // the name of a create is for NodeRestriction to check
		return noOpinion, "can only access node lease with the same name as the requesting node"
	}
	return allow, ""
}

func decideCSINode(_ *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	switch {
	case !slices.Contains(ownVerbs, r.GetVerb()):
		return noOpinion, "can only get, create, update, patch, or delete a CSINode"
	case r.GetSubresource() != "":
		return noOpinion, "cannot authorize CSINode subresources"
	case r.GetVerb() != "create" && r.GetName() != node:
		return noOpinion, "can only access CSINode with the same name as the requesting node"
	}
	return allow, ""
}

func decideNode(_ *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	switch r.GetSubresource() {
	case "":
		switch r.GetVerb() {
		case "create", "update", "patch": // NodeRestriction looks at the name
			return allow, ""
		case "get", "list", "watch":
			switch r.GetName() { // of a list, it is that of its field selector
			case node:
				return allow, ""
			case "":
				return noOpinion, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
			}
			return noOpinion, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, r.GetName())
		}
	case "status":
		if r.GetVerb() == "update" || r.GetVerb() == "patch" {
			return allow, ""
		}
	}
	return noOpinion, ""
}

func decidePod(a *Authorizer, node string, r authorizer.Attributes) (authorizer.Decision, string) {
	verb := r.GetVerb()
	switch r.GetSubresource() {
	case "":
		switch verb {
		case "get":
			return a.needed(pod, node, r)
		case "list", "watch":
			if selects(r, "spec.nodeName", node) {
				return allow, ""
			}
			if r.GetName() != "" {
				return a.needed(pod, node, r)
			}
			return noOpinion, "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete": // NodeRestriction limits this to mirror pods and to the node's own pods
			return allow, ""
		}
	case "status":
		if verb == "update" || verb == "patch" {
			return allow, ""
		}
	case "eviction":
		if verb == "create" {
			return allow, ""
		}
	}
	return noOpinion, ""
}

// selects reports whether the request is narrowed to field == value (KEP-4601).
func selects(r authorizer.Attributes, field, value string) bool {
	requirements, _ := r.GetFieldSelector() // each that could be read narrows the request
	for _, q := range requirements {
		if q.Field == field && q.Value == value &&
			(q.Operator == selection.Equals || q.Operator == selection.DoubleEquals) {
			return true
		}
	}
	return false
}
