package kinds

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/certificates"
)

type csr = certificatesv1.CertificateSigningRequest

func certificateSigningRequests(deps Deps) *Kind {
	approval := strategy[*csr]{
		PrepareUpdate: func(_ context.Context, new, old *csr) {
			conditions := new.Status.Conditions
			new.Spec, new.Status = old.Spec, old.Status
			new.Status.Conditions = conditions
			certificates.StampConditions(new, old, metav1.NewTime(deps.now()))
		},
		ValidateAmong: wholeFirst(certificates.ValidateApproval, unchecked),
		Reset:         []string{"spec", "status.certificate"},
	}.erase([]Version{{GroupVersion: certificatesv1.SchemeGroupVersion}})
	return define(row[*csr]{
		Name: "CertificateSigningRequest", Resource: "certificatesigningrequests", ShortNames: []string{"csr"}, Cluster: true,
		Hub:    certificatesv1.SchemeGroupVersion,
		Former: []Version{former(certificatesv1beta1.SchemeGroupVersion, certificates.FromV1beta1, nil)},
		Strategy: strategy[*csr]{
			PrepareCreate: prepareCSR,
			PrepareUpdate: func(_ context.Context, new, old *csr) {
				new.Spec, new.Status = old.Spec, old.Status
			},
			Validate:            certificates.Validate,
			ValidateAmong:       wholeFirst(certificates.ValidateUpdate, unchecked),
			ValidateName:        func(string, bool) []string { return nil }, // whatever can stand in a path
			UnconditionalUpdate: true,
			Reset:               []string{"spec", "status"},
		},
		Status: &strategy[*csr]{
			PrepareUpdate: func(_ context.Context, new, old *csr) {
				new.Spec = old.Spec
				certificates.KeepDecision(new, old)
				certificates.StampConditions(new, old, metav1.NewTime(deps.now()))
			},
			ValidateAmong: wholeFirst(certificates.ValidateStatusUpdate, unchecked),
			Stored: func(new, old *csr) {
				if deps.Issued != nil && certificates.IssuesDuration(new, old) {
					deps.Issued(new.Spec.SignerName, certificates.HonorsDuration(new))
				}
			},
			Reset: []string{"spec", "status.conditions"},
		},
		Subresources: []Subresource{{Name: "approval", Verbs: readAndWrite(), Strategy: &approval}},
		Columns:      certificates.Columns(),
		Row:          certificates.Row,
		Fields: map[string]func(*csr) string{
			"spec.signerName": func(c *csr) string { return c.Spec.SignerName },
		},
	})
}

// prepareCSR writes down who asks: a client can't speak for another.
func prepareCSR(ctx context.Context, c *csr) {
	c.Spec.Username, c.Spec.UID, c.Spec.Groups, c.Spec.Extra = "", "", nil, nil
	if user, ok := request.UserFrom(ctx); ok {
		c.Spec.Username, c.Spec.UID, c.Spec.Groups = user.GetName(), user.GetUID(), user.GetGroups()
		if extra := user.GetExtra(); len(extra) > 0 {
			c.Spec.Extra = make(map[string]certificatesv1.ExtraValue, len(extra))
			for k, v := range extra {
				c.Spec.Extra[k] = certificatesv1.ExtraValue(v)
			}
		}
	}
	c.Status = certificatesv1.CertificateSigningRequestStatus{}
}
