package registry

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
)

// TestShortenGraceWithinASecond: an end that has passed by less than a second has passed, though objects tell whole
// seconds only.
func TestShortenGraceWithinASecond(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	registry := &Registry{config: Config{Clock: testclock.NewFakeClock(begun.Add(25500 * time.Millisecond))}}
	d := &deletion{Writer: (&Endpoint{registry: registry}).Writer(&Request{})}
	end := metav1.NewTime(begun.Add(30 * time.Second))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &end, DeletionGracePeriodSeconds: new(int64(30))}}
	if ok, err := d.shortenGrace(p, &metav1.DeleteOptions{GracePeriodSeconds: new(int64(25))}); !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	if !p.DeletionTimestamp.Time.Equal(begun.Add(25*time.Second)) || *p.DeletionGracePeriodSeconds != 1 {
		t.Errorf("ends at %s, after %d", p.DeletionTimestamp, *p.DeletionGracePeriodSeconds)
	}
}
