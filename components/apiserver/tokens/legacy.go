package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/objects"
)

// Labels of Secrets that hold tokens (KEP-2799).
const (
	lastUsedLabel     = "kubernetes.io/legacy-token-last-used"
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"
)

// checkLegacy makes sure that the token is still what its Secret holds, and notes its use there.
func (t *Tokens) checkLegacy(ctx context.Context, c *claims, token string) (*serviceaccount.ServiceAccountInfo, error) {
	l := &c.legacy
	if l.Namespace == "" || l.SecretName == "" || l.ServiceAccountName == "" || l.ServiceAccountUID == "" {
		return nil, errors.New("service account token in a secret lacks claims")
	}
	if c.Subject != serviceaccount.MakeUsername(l.Namespace, l.ServiceAccountName) {
		return nil, errors.New("service account token names another subject than account")
	}
	info := &serviceaccount.ServiceAccountInfo{Namespace: l.Namespace, Name: l.ServiceAccountName, UID: l.ServiceAccountUID}
	if t.cfg.NoLookup {
		return info, nil
	}
	secret, err := objects.As[*corev1.Secret](t.cfg.Objects.Get(ctx, corev1.Resource("secrets"), l.Namespace, l.SecretName))
	switch {
	case err != nil, secret.DeletionTimestamp != nil:
		//lint:ignore ST1005 the text is upstream's
		return nil, errors.New("Token has been invalidated")
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) != 1:
		//lint:ignore ST1005 the text is upstream's
		return nil, errors.New("Token does not match server's copy")
	}
	if err := t.exists(ctx, corev1.Resource("serviceaccounts"), l.Namespace, &ref{l.ServiceAccountName, l.ServiceAccountUID}); err != nil {
		return nil, err
	}
	t.noteDay(ctx, secret)
	if secret.Labels[invalidSinceLabel] != "" {
		audit.AddAuditAnnotation(ctx, annotationInvalid, secret.Name+"/"+secret.Namespace)
		t.cfg.Used(UseInvalid)
		return nil, fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the TokenRequest API or "+
			"manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this token",
			l.Namespace, l.SecretName, l.Namespace, l.ServiceAccountName, invalidSinceLabel)
	}
	if t.ofAccount(ctx, l) {
		warning.AddWarning(ctx, "", "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.")
	}
	return info, nil
}

// ofAccount tells whether the account names the token's Secret as its own, as it does with those that controllers made.
func (t *Tokens) ofAccount(ctx context.Context, l *legacy) bool {
	account, err := objects.As[*corev1.ServiceAccount](t.cfg.Objects.Get(ctx, corev1.Resource("serviceaccounts"), l.Namespace, l.ServiceAccountName))
	return err == nil && slices.ContainsFunc(account.Secrets, func(r corev1.ObjectReference) bool { return r.Name == l.SecretName })
}

// noteDay writes the day of the last use onto the Secret, for the controller that cleans up. A failure is no reason to
// refuse the token.
func (t *Tokens) noteDay(ctx context.Context, secret *corev1.Secret) {
	today := t.cfg.Clock.Now().UTC().Format(time.DateOnly)
	if secret.Labels[lastUsedLabel] == today {
		return
	}
	_, err := t.cfg.Objects.Update(ctx, corev1.Resource("secrets"), secret.Namespace, secret.Name, func(current kinds.Object) (kinds.Object, error) {
		labels := current.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[lastUsedLabel] = today
		current.SetLabels(labels)
		return current, nil
	})
	if err != nil {
		klog.FromContext(ctx).Error(err, "The use of a token could not be noted", "secret", klog.KObj(secret))
	}
}
