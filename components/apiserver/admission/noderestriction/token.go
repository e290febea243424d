package noderestriction

import (
	"context"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/objects"
)

// admitServiceAccount: a node gets tokens bound to its own pods only, for audiences that those pods have use for.
func (p *Plugin) admitServiceAccount(ctx context.Context, nodeName string, a admission.Attributes) error {
	if a.GetOperation() != admission.Create || a.GetSubresource() != "token" {
		return nil
	}
	request, ok := a.GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return unexpected(a)
	}
	to := request.Spec.BoundObjectRef
	if to == nil || to.APIVersion != "v1" || to.Kind != "Pod" || to.Name == "" {
		return forbid(a, "node requested token not bound to a pod")
	}
	if to.UID == "" {
		return forbid(a, "node requested token with a pod binding without a uid")
	}
	pod, err := p.pod(ctx, a.GetNamespace(), to.Name)
	if err != nil {
		return err
	}
	if to.UID != pod.UID {
		return forbid(a,
			"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted "+
				"and then recreated", to.UID)
	}
	if pod.Spec.NodeName != nodeName {
		return forbid(a, "node requested token bound to a pod scheduled on a different node")
	}
	if p.anyAudience {
		return nil
	}
	return p.checkAudience(ctx, a, pod, request.Spec.Audiences)
}

// checkAudience: the audience is one that a volume of the pod asks for, itself or through its CSI driver, or one that
// the node was given leave to ask for (KEP-4412, audience restriction).
func (p *Plugin) checkAudience(ctx context.Context, a admission.Attributes, pod *corev1.Pod, audiences []string) error {
	if len(audiences) > 1 {
		return forbid(a, "node may only request 0 or 1 audiences")
	}
	audience := ""
	if len(audiences) == 1 {
		audience = audiences[0]
	}
	found, err := p.usesAudience(ctx, pod, audience)
	if err != nil {
		return admission.NewForbidden(a, fmt.Errorf("error validating audience %q: %w", audience, err))
	}
	if found {
		return nil
	}
	decision, _, err := p.authorizer.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: "request-serviceaccounts-token-audience", Namespace: a.GetNamespace(),
		APIVersion: "v1", Resource: audience, Name: a.GetName(), ResourceRequest: true,
	})
	switch who := a.GetUserInfo().GetName(); {
	case decision == authorizer.DecisionAllow: // whatever else went wrong
		return nil
	case err != nil:
		return admission.NewForbidden(a,
			fmt.Errorf("audience %q not found in pod spec volume, error authorizing %s to request tokens for this audience: %w",
				audience, who, err))
	default:
		return forbid(a, "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience",
			audience, who)
	}
}

// usesAudience looks at all volumes; what can't be found out of one matters only if no other one has the audience.
func (p *Plugin) usesAudience(ctx context.Context, pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		driver := ""
		var err error
		switch {
		case v.Projected != nil:
			if slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
				return s.ServiceAccountToken != nil && s.ServiceAccountToken.Audience == audience
			}) {
				return true, nil
			}
		case v.Ephemeral != nil:
			driver, err = p.driverOfClaim(ctx, pod.Namespace, pod.Name+"-"+v.Name)
		case v.PersistentVolumeClaim != nil:
			driver, err = p.driverOfClaim(ctx, pod.Namespace, v.PersistentVolumeClaim.ClaimName)
		default:
			driver = driverInline(&v.VolumeSource)
		}
		used := false
		if err == nil && driver != "" {
			used, err = p.driverUses(ctx, driver, audience)
		}
		if used {
			return true, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

// driverOfClaim returns the CSI driver of the volume bound to a claim, "" if there is none.
func (p *Plugin) driverOfClaim(ctx context.Context, namespace, name string) (string, error) {
	claim, err := objects.As[*corev1.PersistentVolumeClaim](
		p.objects.Get(ctx, corev1.Resource("persistentvolumeclaims"), namespace, name))
	if err != nil {
		return "", one(err, corev1.Resource("persistentvolumeclaim"), name)
	}
	volume, err := objects.As[*corev1.PersistentVolume](
		p.objects.Get(ctx, corev1.Resource("persistentvolumes"), "", claim.Spec.VolumeName))
	if err != nil {
		return "", one(err, corev1.Resource("persistentvolume"), claim.Spec.VolumeName)
	}
	return driverOf(&volume.Spec.PersistentVolumeSource), nil
}

func (p *Plugin) driverUses(ctx context.Context, name, audience string) (bool, error) {
	driver, err := objects.As[*storagev1.CSIDriver](p.objects.Get(ctx, storagev1.Resource("csidrivers"), "", name))
	if err != nil {
		return false, one(err, storagev1.Resource("csidriver"), name)
	}
	return slices.ContainsFunc(driver.Spec.TokenRequests,
		func(r storagev1.TokenRequest) bool { return r.Audience == audience }), nil
}

// one says of what wasn't found what it is, in the singular: clients see it so.
func one(err error, singular schema.GroupResource, name string) error {
	if apierrors.IsNotFound(err) {
		return apierrors.NewNotFound(singular, name)
	}
	return err
}
