package componentstatus

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestRead(t *testing.T) {
	answers := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			http.Error(w, "secret", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte("fine"))
	}))
	defer answers.Close()
	const gone = "http://127.0.0.1:1" // refuses connections
	list := []Component{
		{Name: "well", URL: answers.URL + "/healthz"},
		{Name: "ill", URL: answers.URL + "/other"},
		{Name: "gone", URL: gone},
		{Name: "store", Probe: func(context.Context) error { return nil }},
		{Name: "lost", Probe: func(context.Context) error { return errors.New("no leader") }},
	}
	want := []corev1.ComponentCondition{
		{Status: corev1.ConditionTrue, Message: "fine"},
		{Status: corev1.ConditionFalse, Message: "HTTP probe failed with statuscode: 500"},
		{Status: corev1.ConditionFalse, Message: `Get "` + gone + `": dial tcp `},
		{Status: corev1.ConditionTrue, Message: "ok"},
		{Status: corev1.ConditionFalse, Error: "no leader"},
	}
	got := Read(t.Context(), list, "")
	for i, w := range want {
		c := got[i].Conditions[0]
		if got[i].Name != list[i].Name || c.Type != corev1.ComponentHealthy || c.Status != w.Status ||
			c.Error != w.Error ||
			!strings.HasPrefix(c.Message, w.Message) {
			t.Errorf("%s: %+v", got[i].Name, c)
		}
	}
	if one := Read(t.Context(), list, "store"); len(one) != 1 || one[0].Name != "store" {
		t.Error(one)
	}
	if none := Read(t.Context(), list, "x"); len(none) != 0 {
		t.Error(none)
	}
}
