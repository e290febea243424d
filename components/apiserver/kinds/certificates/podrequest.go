package certificates

import (
	"context"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/gates"
	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

type podRequest = certificatesv1beta1.PodCertificateRequest

// defaultPodLife is how long a pod's certificate may be good unless the request says otherwise, in seconds.
const defaultPodLife = 24 * 60 * 60

func podCertificateRequests(deps api.Deps) *api.Kind {
	return api.Define(api.Row[*podRequest]{
		Name: "PodCertificateRequest", Resource: "podcertificaterequests",
		Hub:     certificatesv1beta1.SchemeGroupVersion,
		Gate:    gates.PodCertificateRequest,
		Default: DefaultPodRequest,
		Strategy: api.Strategy[*podRequest]{
			PrepareCreate: func(_ context.Context, r *podRequest) {
				r.Status = certificatesv1beta1.PodCertificateRequestStatus{}
			},
			PrepareUpdate:  func(_ context.Context, new, old *podRequest) { new.Status = old.Status },
			Meta:           api.MetaChanges,
			Validate:       api.OfObject(ValidatePodRequest),
			ValidateUpdate: api.OfChange(ValidatePodRequestUpdate),
		},
		Status: &api.Strategy[*podRequest]{
			PrepareUpdate: func(_ context.Context, new, old *podRequest) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
				StampPodConditions(new, old, metav1.NewTime(deps.Now()))
			},
			Meta: api.MetaChanges,
			ValidateUpdate: func(ctx context.Context, new, old *podRequest) field.ErrorList {
				if errs := ValidatePodRequestStatus(new, old, deps.Now()); len(errs) > 0 {
					return errs
				}
				return maySign(ctx, deps.Authorize, new, old)
			},
			Reset: []string{"spec"},
		},
		Columns: PodRequestColumns(),
		Row:     PodRequestRow,
		Fields: map[string]func(*podRequest) string{
			"spec.signerName": func(r *podRequest) string { return r.Spec.SignerName },
			"spec.podName":    func(r *podRequest) string { return r.Spec.PodName },
			"spec.nodeName":   func(r *podRequest) string { return string(r.Spec.NodeName) },
		},
		Indexed: []string{"spec.nodeName"},
	})
}

// DefaultPodRequest sets how long the certificate may be good at most.
func DefaultPodRequest(r *podRequest) {
	if r.Spec.MaxExpirationSeconds == nil {
		r.Spec.MaxExpirationSeconds = ptr.To[int32](defaultPodLife)
	}
}

// StampPodConditions keeps the decisions that old has already as they are, and sets the times of those that have none.
func StampPodConditions(new, old *podRequest, now metav1.Time) {
	was, more := map[string][]metav1.Condition{}, map[string]int{} // the conditions of a type, and how many are new
	for _, c := range old.Status.Conditions {
		was[c.Type] = append(was[c.Type], c)
		more[c.Type]--
	}
	for _, c := range new.Status.Conditions {
		more[c.Type]++
	}
	conditions := append([]metav1.Condition(nil), new.Status.Conditions...)
	for i := range conditions {
		c := &conditions[i]
		if before := was[c.Type]; len(before) > 0 && more[c.Type] == 0 {
			*c, was[c.Type] = before[0], before[1:]
		}
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = now
		}
	}
	new.Status.Conditions = conditions
}

// maySign refuses certificates of users who may not sign for the signer, nor for all signers of its domain.
func maySign(ctx context.Context, authorize func(context.Context, authorizer.AttributesRecord) error,
	new, old *podRequest) field.ErrorList {
	if new.Status.CertificateChain == old.Status.CertificateChain || authorize == nil {
		return nil
	}
	path, signer := field.NewPath("spec", "signerName"), old.Spec.SignerName
	who, ok := request.UserFrom(ctx)
	if !ok {
		return field.ErrorList{field.InternalError(path,
			fmt.Errorf("cannot determine calling user to perform \"sign\" check"))}
	}
	if signs(ctx, authorize, who, signer) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path,
		fmt.Sprintf("User %q is not permitted to \"sign\" for signer %q", who.GetName(), signer))}
}

func signs(ctx context.Context, authorize func(context.Context, authorizer.AttributesRecord) error, who user.Info,
	signer string) bool {
	for _, name := range []string{signer, anySigner(signer)} {
		if authorize(ctx, authorizer.AttributesRecord{
			User: who, Verb: "sign", Name: name, APIGroup: certificatesv1beta1.GroupName, APIVersion: "*",
			Resource: "signers", ResourceRequest: true,
		}) == nil {
			return true
		}
	}
	return false
}

// PodRequestColumns are the columns of pods' requests.
func PodRequestColumns() show.Columns {
	doc := certificatesv1beta1.PodCertificateRequestSpec{}.SwaggerDoc()
	return show.Name().
		String("PodName", doc["podName"]).
		String("ServiceAccountName", doc["serviceAccountName"]).
		String("NodeName", doc["nodeName"]).
		String("SignerName", doc["signerName"]).
		String("State", "Is the request Pending, Issued, Denied, or Failed?")
}

// PodRequestRow are the cells of a pod's request.
func PodRequestRow(r *podRequest) []any {
	state := "Pending"
	for _, c := range r.Status.Conditions {
		if decides(c.Type) {
			state = c.Type
			break
		}
	}
	return []any{r.Name, r.Spec.PodName, r.Spec.ServiceAccountName, string(r.Spec.NodeName), r.Spec.SignerName, state}
}
