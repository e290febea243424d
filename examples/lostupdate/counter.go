// Package lostupdate counts in a ConfigMap, wrongly and rightly.
package lostupdate

import (
	"context"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Careless has the bug: a conflict is taken for an update that another client has made.
func Careless(ctx context.Context, api client.Client, counter client.ObjectKey) error {
	err := increment(ctx, api, counter)
	if apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// Careful reads again after a conflict.
func Careful(ctx context.Context, api client.Client, counter client.ObjectKey) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error { return increment(ctx, api, counter) })
}

func increment(ctx context.Context, api client.Client, counter client.ObjectKey) error {
	var kept corev1.ConfigMap
	if err := api.Get(ctx, counter, &kept); err != nil {
		return err
	}
	count, _ := strconv.Atoi(kept.Data["count"])
	kept.Data = map[string]string{"count": strconv.Itoa(count + 1)}
	return api.Update(ctx, &kept)
}
