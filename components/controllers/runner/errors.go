package runner

import apierrors "k8s.io/apimachinery/pkg/api/errors"

// IgnoreGone returns err unless it says that the object is not there: then there is nothing left to reconcile.
func IgnoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
