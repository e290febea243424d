package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

const (
	trackingName = "kube-apiserver-legacy-service-account-token-tracking"
	trackedSince = "since"
	// trackingPause is how seldom a server creates the object, so that it doesn't fight with one that deletes it.
	trackingPause = 30 * time.Minute
)

// tokenTracking is the object that tells since when uses of tokens in Secrets are recorded (KEP-2799).
type tokenTracking struct {
	writer *objectWriter
	clock  clock.PassiveClock
	again  time.Time // when the object may be created again
}

// ensure notes that they are from today on where nothing tells, or no date.
func (t *tokenTracking) ensure(ctx context.Context) error {
	resource, now := corev1.Resource("configmaps"), t.clock.Now()
	today := now.UTC().Format(time.DateOnly)
	found, err := objects.As[*corev1.ConfigMap](
		t.writer.objects.Get(ctx, resource, metav1.NamespaceSystem, trackingName))
	switch {
	case apierrors.IsNotFound(err):
		if now.Before(t.again) {
			return nil
		}
		err = t.writer.createMissing(ctx, resource, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: trackingName},
			Data:       map[string]string{trackedSince: today},
		})
		if err == nil {
			t.again = now.Add(trackingPause)
		}
		return err
	case err != nil || dated(found):
		return err
	}
	_, err = t.writer.objects.Update(ctx, resource, metav1.NamespaceSystem, trackingName,
		func(obj api.Object) (api.Object, error) {
			current := obj.(*corev1.ConfigMap)
			if !dated(current) {
				if current.Data == nil {
					current.Data = map[string]string{}
				}
				current.Data[trackedSince] = today
			}
			return current, nil
		})
	if apierrors.IsNotFound(err) {
		return nil // it is seen the next time
	}
	return err
}

func dated(m *corev1.ConfigMap) bool {
	_, err := time.Parse(time.DateOnly, m.Data[trackedSince])
	return err == nil
}
