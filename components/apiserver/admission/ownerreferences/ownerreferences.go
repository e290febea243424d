// Package ownerreferences keeps users from having objects deleted, or kept, that they may not delete themselves
// (https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#ownerreferencespermissionenforcement).
package ownerreferences

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Name is the plug-in's.
const Name = "OwnerReferencesPermissionEnforcement"

// Plugin implements the admission.
type Plugin struct {
	*admission.Handler
	authorizer authorizer.Authorizer
	mapper     meta.RESTMapper
}

var _ admission.ValidationInterface = Plugin{}

// New returns the plug-in. The mapper knows the resources of owners.
func New(a authorizer.Authorizer, mapper meta.RESTMapper) Plugin {
	return Plugin{admission.NewHandler(admission.Create, admission.Update), a, mapper}
}

// Validate implements admission.ValidationInterface. A user who changes owners must be allowed to delete the object; a
// user who makes it block the deletion of an owner must be allowed to set that owner's finalizers.
func (p Plugin) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetResource().GroupResource() == corev1.Resource("pods") && a.GetSubresource() == "status" {
		return nil // it can't change them
	}
	now, before := ownersOf(a.GetObject()), ownersOf(a.GetOldObject())
	if apiequality.Semantic.DeepEqual(now, before) {
		return nil
	}
	if a.GetOperation() != admission.Create {
		decision, reason, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
			User: a.GetUserInfo(), Verb: "delete", Namespace: a.GetNamespace(),
			APIGroup: a.GetResource().Group, APIVersion: a.GetResource().Version, Resource: a.GetResource().Resource,
			Subresource: a.GetSubresource(), Name: a.GetName(), ResourceRequest: true,
		})
		if decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a,
				fmt.Errorf("cannot set an ownerRef on a resource you can't delete: %v, %v", reason, err))
		}
	}
	blocking := newlyBlocking(now, before)
	if len(blocking) == 0 {
		return nil
	}
	if decision, _, _ := p.authorizer.Authorize(ctx,
		finalizers(a, "*", "*", "*", "", "*")); decision == authorizer.DecisionAllow {
		return nil
	}
	for _, ref := range blocking {
		if err := p.mayBlock(ctx, a, ref); err != nil {
			return err
		}
	}
	return nil
}

func (p Plugin) mayBlock(ctx context.Context, a admission.Attributes, ref metav1.OwnerReference) error {
	mappings, err := p.mappings(ref)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf(
			"cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion %s Kind %s: %w",
			ref.APIVersion, ref.Kind, err))
	}
	for _, m := range mappings {
		namespace := ""
		if m.Scope.Name() == meta.RESTScopeNameNamespace {
			namespace = a.GetNamespace() // where the owner must be, too
		}
		decision, reason, err := p.authorizer.Authorize(ctx,
			finalizers(a, m.Resource.Group, m.Resource.Version, m.Resource.Resource, namespace, ref.Name))
		if decision != authorizer.DecisionAllow {
			return admission.NewForbidden(a, fmt.Errorf(
				"cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: %v, %v",
				reason, err))
		}
	}
	return nil
}

func (p Plugin) mappings(ref metav1.OwnerReference) ([]*meta.RESTMapping, error) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, err
	}
	return p.mapper.RESTMappings(schema.GroupKind{Group: gv.Group, Kind: ref.Kind}, gv.Version)
}

// finalizers asks whether the user may set those of an object.
func finalizers(a admission.Attributes, group, version, resource, namespace, name string) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "update", APIGroup: group, APIVersion: version, Resource: resource,
		Subresource: "finalizers",
		Namespace:   namespace, Name: name, ResourceRequest: true,
	}
}

func ownersOf(obj any) []metav1.OwnerReference {
	if o, err := meta.Accessor(obj); err == nil {
		return o.GetOwnerReferences()
	}
	return nil
}

// newlyBlocking are the references that block the deletion of their owner, and didn't before.
func newlyBlocking(now, before []metav1.OwnerReference) []metav1.OwnerReference {
	blocks := func(r metav1.OwnerReference) bool { return r.BlockOwnerDeletion != nil && *r.BlockOwnerDeletion }
	did := map[types.UID]bool{}
	for _, ref := range before {
		did[ref.UID] = blocks(ref)
	}
	var out []metav1.OwnerReference
	for _, ref := range now {
		if blocks(ref) && !did[ref.UID] {
			out = append(out, ref)
		}
	}
	return out
}
