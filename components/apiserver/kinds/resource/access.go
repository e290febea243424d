package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// Access authorizes the privileged fields of a claim. Its checks take the user and the verb from the request's context.
// Where a function is nil, no authorization is needed.
type Access struct {
	// NamespaceLabels returns the labels of a namespace.
	NamespaceLabels func(ctx context.Context, name string) (map[string]string, error)
	// Authorize returns the API's error if a user may not do something; changes of a part of a claim's status need a
	// permission of their own (https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/).
	Authorize func(ctx context.Context, a authorizer.AttributesRecord) error
}

// AdminRequests refuses requests for administrative access to devices outside the namespaces that are marked for it.
func (a Access) AdminRequests(ctx context.Context, namespace string, s *resourcev1.ResourceClaimSpec,
	spec *field.Path) field.ErrorList {
	for i := range s.Devices.Requests {
		if e := s.Devices.Requests[i].Exactly; e != nil && isTrue(e.AdminAccess) {
			return a.adminIn(ctx, namespace, spec.Child("devices", "requests").Index(i).Child("adminAccess"))
		}
	}
	return nil
}

// AdminResults does the same for what is allocated with such access, unless it was before.
func (a Access) AdminResults(ctx context.Context, new, old *resourcev1.ResourceClaim) field.ErrorList {
	at := adminResult(new)
	if at == nil || adminResult(old) != nil {
		return nil
	}
	return a.adminIn(ctx, new.Namespace, at)
}

// adminResult is where the first device is that was allocated with administrative access, or nil.
func adminResult(c *resourcev1.ResourceClaim) *field.Path {
	if c.Status.Allocation == nil {
		return nil
	}
	for i, r := range c.Status.Allocation.Devices.Results {
		if isTrue(r.AdminAccess) {
			return field.NewPath("status", "allocation", "devices", "results").Index(i).Child("adminAccess")
		}
	}
	return nil
}

func isTrue(b *bool) bool { return b != nil && *b }

func (a Access) adminIn(ctx context.Context, namespace string, at *field.Path) field.ErrorList {
	if a.NamespaceLabels == nil {
		return nil
	}
	labels, err := a.NamespaceLabels(ctx, namespace)
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(at,
			fmt.Errorf("could not retrieve namespace %s to verify admin access: %w", namespace, err))}
	case labels[resourcev1.DRAAdminNamespaceLabelKey] == "true":
		return nil
	}
	return field.ErrorList{field.Forbidden(at, "admin access to devices requires the `"+
		resourcev1.DRAAdminNamespaceLabelKey+": true` label on the containing namespace")}
}

// Status refuses a change of a part of the status that the user has no right to: the scheduler binds, drivers tell
// about their own devices.
func (a Access) Status(ctx context.Context, new, old *resourcev1.ResourceClaim) field.ErrorList {
	if a.Authorize == nil {
		return nil
	}
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return field.ErrorList{field.InternalError(field.NewPath("status"), fmt.Errorf("the request is not known"))}
	}
	var errs field.ErrorList
	if !apiequality.Semantic.DeepEqual(new.Status.Allocation, old.Status.Allocation) ||
		!apiequality.Semantic.DeepEqual(new.Status.ReservedFor, old.Status.ReservedFor) {
		// The right to bind is one for the whole cluster.
		if err := a.ask(ctx, authorizer.AttributesRecord{Verb: info.Verb,
			Subresource: resourcev1.SubresourceBinding}); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "allocation"), fmt.Sprintf(
				"changing status.allocation or status.reservedFor requires resource=\"resourceclaims/%s\", verb=%q permission: %v",
				resourcev1.SubresourceBinding, info.Verb, err)))
		}
	}
	if new.Status.Allocation == nil {
		return errs // with it go all devices
	}
	verbs := []string{resourcev1.VerbPrefixArbitraryNode + info.Verb}
	if onNodeOf(ctx, new, old) {
		verbs = slices.Insert(verbs, 0, resourcev1.VerbPrefixAssociatedNode+info.Verb)
	}
	for _, driver := range driversOf(new, old) {
		if err := a.askDriver(ctx, verbs, new.Namespace, driver); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("status", "devices"), fmt.Sprintf(
				"changing status.devices requires resource=\"resourceclaims/%s\", verb=\"%v\" permission: %v",
				resourcev1.SubresourceDriver, verbs, err)))
		}
	}
	return errs
}

// askDriver is content with the first verb that is allowed, and otherwise tells why the first isn't.
func (a Access) askDriver(ctx context.Context, verbs []string, namespace, driver string) (refused error) {
	for _, verb := range verbs {
		err := a.ask(ctx, authorizer.AttributesRecord{
			Verb: verb, Subresource: resourcev1.SubresourceDriver, Namespace: namespace, Name: driver,
		})
		if err == nil {
			return nil
		}
		if refused == nil {
			refused = err
		}
	}
	return refused
}

func (a Access) ask(ctx context.Context, r authorizer.AttributesRecord) error {
	r.User, _ = request.UserFrom(ctx)
	r.APIGroup, r.APIVersion = resourcev1.GroupName, resourcev1.SchemeGroupVersion.Version
	r.Resource, r.ResourceRequest = "resourceclaims", true
	return a.Authorize(ctx, r)
}

// driversOf are the drivers of the devices whose status changed. That of a device which was given up goes without
// saying.
func driversOf(new, old *resourcev1.ResourceClaim) []string {
	has, had := allocated(new.Status.Allocation), allocated(old.Status.Allocation)
	before := map[deviceID]*resourcev1.AllocatedDeviceStatus{}
	for i := range old.Status.Devices {
		if d := &old.Status.Devices[i]; has[idOf(d)] || !had[idOf(d)] {
			before[idOf(d)] = d
		}
	}
	changed := sets.New[string]()
	for i := range new.Status.Devices {
		d := &new.Status.Devices[i]
		if o, ok := before[idOf(d)]; !ok || !apiequality.Semantic.DeepEqual(o, d) {
			changed.Insert(d.Driver)
		}
		delete(before, idOf(d))
	}
	for id := range before {
		changed.Insert(id.Driver)
	}
	return sets.List(changed)
}

// onNodeOf reports whether the user is a service account whose pod runs on the one node that the claim is bound to.
func onNodeOf(ctx context.Context, new, old *resourcev1.ResourceClaim) bool {
	user, ok := request.UserFrom(ctx)
	if !ok || !strings.HasPrefix(user.GetName(), serviceaccount.ServiceAccountUsernamePrefix) {
		return false
	}
	names := user.GetExtra()[serviceaccount.NodeNameKey]
	a := new.Status.Allocation
	if a == nil {
		a = old.Status.Allocation
	}
	return len(names) == 1 && a != nil && a.NodeSelector != nil && names[0] == onlyNode(a.NodeSelector)
}

// onlyNode is the name of the node that a selector asks for, if it does so in the plainest way.
func onlyNode(s *corev1.NodeSelector) string {
	if len(s.NodeSelectorTerms) != 1 {
		return ""
	}
	t := &s.NodeSelectorTerms[0]
	if len(t.MatchExpressions) > 0 || len(t.MatchFields) != 1 {
		return ""
	}
	f := &t.MatchFields[0]
	if f.Key != metav1.ObjectNameField || f.Operator != corev1.NodeSelectorOpIn || len(f.Values) != 1 {
		return ""
	}
	return f.Values[0]
}
