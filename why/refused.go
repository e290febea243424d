package why

import (
	"errors"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// refusals tell the answers of API servers apart by their texts: a controller passes them on in events and conditions.
// The first that matches counts.
var refusals = []struct {
	reason string
	text   *regexp.Regexp
	help   string
}{
	{"QuotaExceeded", regexp.MustCompile(`exceeded quota: |failed quota: `),
		"Delete what is not needed, raise the ResourceQuota, or set the requests that it asks for."},
	{"WebhookDenied", regexp.MustCompile(`admission webhook "[^"]*" denied the request`),
		"Change the object so that the webhook admits it."},
	{"WebhookFailed", regexp.MustCompile(`failed calling webhook "|failed to call webhook|conversion webhook for `),
		"See whether the webhook's Service has endpoints and its caBundle fits; failurePolicy: Ignore does without it."},
	{"PolicyDenied", regexp.MustCompile(`ValidatingAdmissionPolicy '[^']*'.* denied request`),
		"Change the object so that the policy admits it."},
	{"PodSecurity", regexp.MustCompile(`violates PodSecurity `),
		"Set the security context that the level asks for, or label the namespace with another level."},
	{"LimitExceeded", regexp.MustCompile(`(maximum|minimum) \S+ usage per |max limit to request ratio`),
		"Change requests and limits, or the LimitRange."},
	{"ServiceAccountMissing", regexp.MustCompile(`serviceaccount "?[^ "]*"? not found|error looking up service account`),
		"Create the service account."},
	{"NamespaceTerminating", regexp.MustCompile(`because it is being terminated`), ""},
	{"Forbidden", regexp.MustCompile(`is forbidden: `), "Grant the right by a role, or change the object."},
	{"Invalid", regexp.MustCompile(`is invalid: |Invalid value: |Required value`), "Correct the named fields."},
}

// Refused explains an answer of the API server that a client got, or that a controller passes on: a quota, a webhook, a
// policy. ok is false for errors that are no refusal.
func Refused(err error) (c Cause, ok bool) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return Cause{}, false
	}
	return refused(err.Error())
}

// refused recognizes the text of a refusal.
func refused(text string) (Cause, bool) {
	for _, r := range refusals {
		if r.text.MatchString(text) {
			return Cause{Reason: r.reason, Message: strings.TrimSpace(text), Help: r.help}, true
		}
	}
	return Cause{}, false
}

// notCreated is why a controller can't create what it should.
func notCreated(text string) Cause {
	if c, ok := refused(text); ok {
		return Cause{Reason: "FailedCreate", Message: "Its controller can not create what is missing.", Causes: []Cause{c}}
	}
	return Cause{Reason: "FailedCreate", Message: strings.TrimSpace(text)}
}
