// Package certificates holds what certificate signing requests need beyond their row. It is pure.
package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

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
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
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
