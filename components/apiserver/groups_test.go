package apiserver_test

import (
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A kind of two groups has one name when it is found invalid, and the request's when it is not found.
func TestKindOfTwoGroupsInErrors(t *testing.T) {
	f := start(t)
	events := f.client(t).EventsV1().Events("default")
	_, err := events.Get(t.Context(), "none", metav1.GetOptions{})
	if want := `events.events.k8s.io "none" not found`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = events.Delete(t.Context(), "none", metav1.DeleteOptions{})
	if want := `events.events.k8s.io "none" not found`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	event := &eventsv1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Type: "Normal"}
	_, err = events.Create(t.Context(), event, metav1.CreateOptions{})
	if want := `Event "e" is invalid: eventTime: Required value`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	_, err = f.client(t).EventsV1().Events("nosuch").Create(t.Context(), event, metav1.CreateOptions{})
	if want := `namespaces "nosuch" not found`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
