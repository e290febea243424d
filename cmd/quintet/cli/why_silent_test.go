package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/cluster"
)

// TestWhySilent: a server that can't reach etcd says so by its checks; what it answers about an object is left alone.
func TestWhySilent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintln(w, "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed")
	}))
	defer server.Close()
	a, config := &app{}, &rest.Config{Host: server.URL}
	slow := apierrors.NewTimeoutError("etcd", 1)
	err := a.whySilent(t.Context(), slow, "", config)
	if err == nil || !errors.Is(err, slow) || !strings.Contains(err.Error(), "its check fails: etcd failed") {
		t.Errorf("%v", err)
	}
	_, unreachable := http.Get("http://127.0.0.1:1")
	if err := a.whySilent(t.Context(), unreachable, "", &rest.Config{Host: "http://127.0.0.1:1"}); err == nil ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v", err)
	}
	for _, said := range []error{nil, errors.New("say which object"),
		apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")} {
		if err := a.whySilent(t.Context(), said, "", config); err != said {
			t.Errorf("%v became %v", said, err)
		}
	}
}

func TestNotRunning(t *testing.T) {
	got := notRunning([]cluster.Info{
		{Member: "etcd-0", Component: cluster.Etcd, State: "paused"},
		{Member: "etcd-1", Component: cluster.Etcd, State: "exited", Status: "Exited (137) 2 seconds ago"},
		{Member: "apiserver-0", Component: cluster.APIServer, State: "running"},
		{Member: "node-1", Component: cluster.Node, State: "exited"},
	})
	want := []string{"etcd-0 is paused: quintet resume etcd-0",
		"etcd-1 does not run (Exited (137) 2 seconds ago): quintet logs etcd-1, quintet start etcd-1"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
