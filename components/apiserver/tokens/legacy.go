package tokens

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/kinds/api"
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
	if err := c.complete(); err != nil {
		return nil, err
	}
	info := &serviceaccount.ServiceAccountInfo{Namespace: l.Namespace, Name: l.ServiceAccountName,
		UID: l.ServiceAccountUID}
	if t.cfg.NoLookup {
		return info, nil
	}
	secret, err := objects.As[*corev1.Secret](
		t.lookup(ctx, corev1.Resource("secrets"), l.Namespace, &ref{Name: l.SecretName}))
	switch {
	case err != nil, secret.DeletionTimestamp != nil:
		//lint:ignore ST1005 the text is upstream's
		return nil, errors.New("Token has been invalidated")
	case subtle.ConstantTimeCompare(secret.Data[corev1.ServiceAccountTokenKey], []byte(token)) != 1:
		//lint:ignore ST1005 the text is upstream's
		return nil, errors.New("Token does not match server's copy")
	}
	account, err := objects.As[*corev1.ServiceAccount](
		t.lookup(ctx, corev1.Resource("serviceaccounts"), l.Namespace, &ref{l.ServiceAccountName, l.ServiceAccountUID}))
	switch {
	case err != nil:
		return nil, err
	case account.DeletionTimestamp != nil: // at once: no pod terminates with such a token
		return nil, fmt.Errorf("ServiceAccount %s/%s has been deleted", l.Namespace, l.ServiceAccountName)
	case string(account.UID) != l.ServiceAccountUID:
		return nil, fmt.Errorf("ServiceAccount UID (%s) does not match claim (%s)", account.UID, l.ServiceAccountUID)
	}
	defer t.noteDay(ctx, secret)
	if secret.Labels[invalidSinceLabel] != "" {
		audit.AddAuditAnnotation(ctx, annotationInvalid, secret.Name+"/"+secret.Namespace)
		t.cfg.Used(UseInvalid)
		return nil,
			fmt.Errorf("the token in secret %s/%s for service account %s/%s has been marked invalid. Use tokens from the "+
				"TokenRequest API or "+
				"manually created secret-based tokens, or remove the '%s' label from the secret to temporarily allow use of this "+
				"token",
				l.Namespace, l.SecretName, l.Namespace, l.ServiceAccountName, invalidSinceLabel)
	}
	t.noteSecret(ctx, account, secret)
	return info, nil
}

// complete tells what a token in a Secret lacks of what all have.
func (c *claims) complete() error {
	for _, claim := range []struct{ name, value string }{
		{"sub", c.Subject}, {"namespace", c.Namespace}, {"secretName", c.SecretName},
		{"serviceAccountName", c.ServiceAccountName}, {"serviceAccountUID", c.ServiceAccountUID},
	} {
		if claim.value == "" {
			return fmt.Errorf("%s claim is missing", claim.name)
		}
	}
	if c.Subject != serviceaccount.MakeUsername(c.Namespace, c.ServiceAccountName) {
		return errors.New("sub claim is invalid")
	}
	return nil
}

// noteDay writes the day of the last use onto the Secret, for the controller that cleans up. A server whose clock goes
// ahead may have written tomorrow's. A failure is no reason to refuse the token.
func (t *Tokens) noteDay(ctx context.Context, secret *corev1.Secret) {
	now := t.cfg.Clock.Now().UTC()
	today, tomorrow := now.Format(time.DateOnly), now.AddDate(0, 0, 1).Format(time.DateOnly)
	if last := secret.Labels[lastUsedLabel]; last == today || last == tomorrow {
		return
	}
	_, err := t.cfg.Objects.Update(ctx, corev1.Resource("secrets"), secret.Namespace, secret.Name,
		func(current api.Object) (api.Object, error) {
			if current.GetUID() != secret.UID { // another token has its name by now
				return nil, apierrors.NewConflict(corev1.Resource("secrets"), secret.Name,
					fmt.Errorf("the UID is no longer %s", secret.UID))
			}
			labels := current.GetLabels()
			if labels == nil {
				labels = map[string]string{}
			}
			labels[lastUsedLabel] = today
			current.SetLabels(labels)
			return current, nil
		})
	if err != nil {
		klog.FromContext(ctx).Error(err, "Failed to update last-used label of token Secret", "secret",
			klog.KObj(secret))
	}
}
