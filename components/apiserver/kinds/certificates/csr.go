package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

type csr = certificatesv1.CertificateSigningRequest

func certificateSigningRequests(deps api.Deps) *api.Kind {
	approval := api.Strategy[*csr]{
		PrepareUpdate: func(_ context.Context, new, old *csr) {
			conditions := new.Status.Conditions
			new.Spec, new.Status = old.Spec, old.Status
			new.Status.Conditions = conditions
			StampConditions(new, old, metav1.NewTime(deps.Now()))
		},
		ValidateAmong: api.WholeFirst(ValidateApproval, api.AnyChange),
		Reset:         []string{"spec", "status.certificate"},
	}.Erase(certificatesv1.SchemeGroupVersion)
	return api.Define(api.Row[*csr]{
		Name: "CertificateSigningRequest", Resource: "certificatesigningrequests", ShortNames: []string{"csr"},
		Cluster:         true,
		Hub:             certificatesv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{api.RemovedVersion(certificatesv1beta1.SchemeGroupVersion, FromV1beta1, nil)},
		Strategy: api.Strategy[*csr]{
			PrepareCreate: prepareCSR,
			PrepareUpdate: func(_ context.Context, new, old *csr) {
				new.Spec, new.Status = old.Spec, old.Status
			},
			Validate:            api.OfObject(Validate),
			ValidateAmong:       api.WholeFirst(ValidateUpdate, api.AnyChange),
			ValidateName:        func(string, bool) []string { return nil }, // whatever can stand in a path
			UnconditionalUpdate: true,
			Reset:               []string{"spec", "status"},
		},
		Status: &api.Strategy[*csr]{
			PrepareUpdate: func(_ context.Context, new, old *csr) {
				new.Spec = old.Spec
				KeepDecision(new, old)
				StampConditions(new, old, metav1.NewTime(deps.Now()))
			},
			ValidateAmong: api.WholeFirst(ValidateStatusUpdate, api.AnyChange),
			Stored: func(new, old *csr) {
				if deps.Issued != nil && IssuesDuration(new, old) {
					deps.Issued(new.Spec.SignerName, HonorsDuration(new))
				}
			},
			Reset: []string{"spec", "status.conditions"},
		},
		Subresources: []api.Subresource{{Name: "approval", Verbs: api.ReadWriteVerbs(), Strategy: &approval}},
		Columns:      Columns(),
		Row:          Row,
		Fields: map[string]func(*csr) string{
			"spec.signerName": func(c *csr) string { return c.Spec.SignerName },
		},
	})
}

// prepareCSR records the requesting user: a client can't request in the name of another.
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

// StampConditions sets the times of conditions that are new or have changed.
func StampConditions(new, old *certificatesv1.CertificateSigningRequest, now metav1.Time) {
	before := map[certificatesv1.RequestConditionType]certificatesv1.CertificateSigningRequestCondition{}
	for _, c := range old.Status.Conditions {
		before[c.Type] = c
	}
	conditions := append([]certificatesv1.CertificateSigningRequestCondition(nil), new.Status.Conditions...)
	for i := range conditions {
		c := &conditions[i]
		if c.LastTransitionTime.IsZero() {
			if was, ok := before[c.Type]; ok && was.Status == c.Status && !was.LastTransitionTime.IsZero() {
				c.LastTransitionTime = was.LastTransitionTime
			} else {
				c.LastTransitionTime = now
			}
		}
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
	}
	new.Status.Conditions = conditions
}

// KeepDecision puts the old decision (approved, denied) into new, whose conditions are its own, unless there is more or
// less of it now, which validation refuses.
func KeepDecision(new, old *certificatesv1.CertificateSigningRequest) {
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved,
		certificatesv1.CertificateDenied} {
		was, is := conditionsOf(old, t), conditionsOf(new, t)
		if len(was) != len(is) {
			continue
		}
		for i := range new.Status.Conditions {
			if new.Status.Conditions[i].Type == t {
				new.Status.Conditions[i], was = was[0], was[1:]
			}
		}
	}
}

// Columns are the columns of requests. What upstream says of them is from the first version of the type.
func Columns() show.Columns {
	doc := certificatesv1beta1.CertificateSigningRequestSpec{}.SwaggerDoc()
	return show.Name().Age().
		String("SignerName", doc["signerName"]).
		String("Requestor", doc["request"]).
		String("RequestedDuration", doc["expirationSeconds"]).
		String("Condition", certificatesv1beta1.CertificateSigningRequestStatus{}.SwaggerDoc()["conditions"])
}

// Row are the cells of a request.
func Row(c *certificatesv1.CertificateSigningRequest) []any {
	signer, life := show.None, show.None
	if c.Spec.SignerName != "" {
		signer = c.Spec.SignerName
	}
	if c.Spec.ExpirationSeconds != nil {
		life = duration.HumanDuration(time.Duration(*c.Spec.ExpirationSeconds) * time.Second)
	}
	return []any{c.Name, show.Age(c.CreationTimestamp), signer, c.Spec.Username, life, condition(c)}
}

func condition(c *certificatesv1.CertificateSigningRequest) string {
	var approved, denied, failed bool
	for _, cond := range c.Status.Conditions {
		switch cond.Type {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied:
			denied = true
		case certificatesv1.CertificateFailed:
			failed = true
		}
	}
	out := "Pending"
	if denied {
		out = "Denied"
	} else if approved {
		out = "Approved"
	}
	if failed {
		out += ",Failed"
	}
	if len(c.Status.Certificate) > 0 {
		out += ",Issued"
	}
	return out
}
