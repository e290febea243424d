package podcertificates

import (
	"errors"
	"fmt"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	v1 "k8s.io/api/core/v1"
)

// What is taken for granted of requests and certificates.
const (
	// assumeDeleted is how long a request that was created may not be seen before it counts as deleted.
	assumeDeleted = 10 * time.Minute
	// refreshOverdue is how long after the time for it a refresh counts as overdue.
	refreshOverdue = 10 * time.Minute
	// maxJitter spreads requests of different pods.
	maxJitter = 5 * time.Minute
)

// issuance is what is known of one projection. Deciding on it is pure: it takes the time and the request as they are.
type issuance struct {
	pending  *pending    // the request under way, nil if there is none
	have     *credential // nil before the first
	refused  error       // the signer denied the request or failed: nothing more is asked for
	outcome  string      // the metric's name of refused
	overdue  bool        // was told as an event
	outdated bool        // likewise, that the certificate is not good any more
}

// pending is a request that waits for its signer.
type pending struct {
	name    string
	key     []byte // in PEM
	abandon time.Time
}

// credential is a key and its certificates, in PEM.
type credential struct {
	key, chain []byte
	refresh    time.Time // when the next one is asked for
	notAfter   time.Time
}

// event is one for the pod.
type event struct{ reason, message string }

// wants tells that a certificate is to be requested.
func (r *issuance) wants(now time.Time) bool {
	return r.refused == nil && r.pending == nil && (r.have == nil || !now.Before(r.have.refresh))
}

// ages returns the events about a certificate that should have been refreshed, each once.
func (r *issuance) ages(now time.Time) []event {
	var out []event
	if r.have == nil || r.refused != nil {
		return nil
	}
	if !r.overdue && now.After(r.have.refresh.Add(refreshOverdue)) {
		r.overdue = true
		out = append(out, event{"CertificateOverdueForRefresh", "PodCertificate refresh overdue"})
	}
	if !r.outdated && now.After(r.have.notAfter) {
		r.outdated = true
		out = append(out, event{"CertificateExpired", "PodCertificate expired"})
	}
	return out
}

// decide takes in the request under way as it is now; changed tells that what the pod gets is another.
func (r *issuance) decide(request *certificatesv1beta1.PodCertificateRequest, jitter time.Duration) (changed bool,
	events []event) {
	for _, c := range request.Status.Conditions {
		refuse := func(outcome, words string) []event {
			r.pending, r.outcome = nil, outcome
			r.refused = fmt.Errorf("PodCertificateRequest was permanently %s: reason=%q message=%q", outcome, c.Reason,
				c.Message)
			return []event{{c.Type, fmt.Sprintf("PodCertificateRequest %s/%s %s, reason=%q, message=%q", request.Namespace,
				request.Name, words, c.Reason, c.Message)}}
		}
		switch c.Type {
		case certificatesv1beta1.PodCertificateRequestConditionTypeDenied:
			return true, refuse("denied", "was denied")
		case certificatesv1beta1.PodCertificateRequestConditionTypeFailed:
			return true, refuse("failed", "failed")
		case certificatesv1beta1.PodCertificateRequestConditionTypeIssued:
			s := &request.Status
			if s.BeginRefreshAt == nil || s.NotAfter == nil {
				return false, nil // no API server lets that pass
			}
			*r = issuance{have: &credential{key: r.pending.key, chain: cleanChain(s.CertificateChain),
				refresh: s.BeginRefreshAt.Add(jitter), notAfter: s.NotAfter.Time}}
			return true, nil
		}
	}
	return false, nil
}

var errNotIssued = errors.New("credential bundle is not issued yet")

// bundle is what the pod gets.
func (r *issuance) bundle() (key, chain []byte, err error) {
	switch {
	case r.refused != nil:
		return nil, nil, r.refused
	case r.have == nil:
		return nil, nil, errNotIssued
	}
	return r.have.key, r.have.chain, nil
}

// state is the metric's name of what is known.
func (r *issuance) state(now time.Time) string {
	switch {
	case r.refused != nil:
		return r.outcome
	case r.have == nil:
		return "not_yet_issued"
	case now.After(r.have.notAfter):
		return "expired"
	case now.After(r.have.refresh.Add(refreshOverdue)):
		return "overdue_for_refresh"
	}
	return "fresh"
}

// projectionOf is the projection of a pod's volume, nil if it has none there.
func projectionOf(pod *v1.Pod, volume string, source int) *v1.PodCertificateProjection {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Name == volume && v.Projected != nil && source < len(v.Projected.Sources) {
			return v.Projected.Sources[source].PodCertificate
		}
	}
	return nil
}
