// Package noderestriction limits kubelets to their own node and to the pods bound to it
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction). It completes the
// Node authorizer, which does not see the content of requests.
package noderestriction

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/authz/node"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Name is the plug-in's.
const Name = "NodeRestriction"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	objects     objects.Reader
	authorizer  authorizer.Authorizer
	anyAudience bool // nodes may ask for tokens for any
	anyName     bool // nodes may ask for certificates of any
}

// Config of a plug-in.
type Config struct {
	Objects objects.Reader
	// Authorizer may let a node ask for tokens of audiences that its pods don't name; with AnyAudience it isn't asked.
	Authorizer  authorizer.Authorizer
	AnyAudience bool
	// AnyName lets nodes ask for certificates of other nodes' names.
	AnyName bool
}

var _ admission.MutationInterface = &Plugin{}

// New returns the plug-in.
func New(c Config) *Plugin {
	return &Plugin{
		Handler: admission.NewHandler(admission.Create, admission.Update, admission.Delete),
		objects: c.Objects, authorizer: c.Authorizer, anyAudience: c.AnyAudience, anyName: c.AnyName,
	}
}

type check func(p *Plugin, ctx context.Context, nodeName string, a admission.Attributes) error

var checks = map[schema.GroupResource]check{
	corev1.Resource("pods"):                               (*Plugin).admitPods,
	corev1.Resource("nodes"):                              (*Plugin).admitNode,
	corev1.Resource("persistentvolumeclaims"):             (*Plugin).admitClaim,
	corev1.Resource("serviceaccounts"):                    (*Plugin).admitServiceAccount,
	coordinationv1.Resource("leases"):                     (*Plugin).admitLease,
	storagev1.Resource("csinodes"):                        (*Plugin).admitCSINode,
	resourcev1.Resource("resourceslices"):                 (*Plugin).admitSlice,
	certificatesv1.Resource("certificatesigningrequests"): (*Plugin).admitCSR,
	certificatesv1.Resource("podcertificaterequests"):     (*Plugin).admitPodRequest,
}

// Admit implements admission.MutationInterface; it changes nothing.
func (p *Plugin) Admit(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	name, isNode := node.Name(a.GetUserInfo())
	if !isNode {
		return nil
	}
	if name == "" {
		return forbid(a, "could not determine node from user %q", a.GetUserInfo().GetName())
	}
	if c := checks[a.GetResource().GroupResource()]; c != nil {
		return c(p, ctx, name, a)
	}
	return nil
}

func forbid(a admission.Attributes, format string, args ...any) error {
	return admission.NewForbidden(a, fmt.Errorf(format, args...))
}

func unexpected(a admission.Attributes) error {
	return forbid(a, "unexpected type %T", a.GetObject())
}

const leaseNamespace = corev1.NamespaceNodeLease

func (p *Plugin) admitLease(_ context.Context, nodeName string, a admission.Attributes) error {
	if a.GetNamespace() != leaseNamespace {
		return forbid(a, "can only access leases in the %q system namespace", leaseNamespace)
	}
	name := a.GetName()
	if a.GetOperation() == admission.Create {
		lease, ok := a.GetObject().(*coordinationv1.Lease)
		if !ok {
			return unexpected(a)
		}
		name = lease.Name
	}
	if name != nodeName {
		return forbid(a, "can only access node lease with the same name as the requesting node")
	}
	return nil
}

func (p *Plugin) admitCSINode(_ context.Context, nodeName string, a admission.Attributes) error {
	name := a.GetName()
	if a.GetOperation() == admission.Create {
		csiNode, ok := a.GetObject().(*storagev1.CSINode)
		if !ok {
			return unexpected(a)
		}
		name = csiNode.Name
	}
	if name != nodeName {
		return forbid(a, "can only access CSINode with the same name as the requesting node")
	}
	return nil
}

// admitSlice: of other requests the authorizer knows whose slice they are about, but neither what is in a new one, nor
// which ones a deletion of many is about.
func (p *Plugin) admitSlice(_ context.Context, nodeName string, a admission.Attributes) error {
	obj, verb := a.GetObject(), "create"
	switch a.GetOperation() {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.GetOldObject(), "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return forbid(a, "unexpected type %T", obj)
	}
	if slice.Spec.NodeName == nil || *slice.Spec.NodeName != nodeName {
		return forbid(a, "can only %s ResourceSlice with the same NodeName as the requesting node", verb)
	}
	return nil
}
