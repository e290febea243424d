package serviceaccount

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/controllers/runner"
	"quintet.dev/quintet/components/controllers/runner/runnertest"
)

func namespace(name string, phase v1.NamespacePhase) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NamespaceStatus{Phase: phase}}
}

func account(ns, name string) *v1.ServiceAccount {
	return &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
}

func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		phase   v1.NamespacePhase
		account *v1.ServiceAccount
		want    bool
	}{
		"active, without":      {v1.NamespaceActive, nil, true},
		"active, with":         {v1.NamespaceActive, account("a", "default"), false},
		"phase not yet set":    {"", nil, true},
		"terminating, without": {v1.NamespaceTerminating, nil, false},
		"terminating, with":    {v1.NamespaceTerminating, account("a", "default"), false},
	} {
		if got := missing(namespace("a", c.phase), c.account); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestDefaults makes the account in every namespace that stays, again when it is deleted, and only that one.
func TestDefaults(t *testing.T) {
	kept := account("kept", "default")
	kept.Annotations = map[string]string{"mine": "x"}
	client := runnertest.NewClient(namespace("a", v1.NamespaceActive), namespace("going", v1.NamespaceTerminating),
		namespace("kept", v1.NamespaceActive), kept, account("a", "other"))
	runnertest.Start(t, client, clock.RealClock{},
		func(env runner.Env) (runner.Controller, error) { return New(env) })
	has := func(ns string) {
		t.Helper()
		runnertest.Eventually(t, func() (bool, string) {
			_, err := client.CoreV1().ServiceAccounts(ns).Get(t.Context(), "default", metav1.GetOptions{})
			return err == nil, fmt.Sprint(err)
		})
	}
	has("a")
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace("late", ""),
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("late")
	for _, name := range []string{"other", "default"} {
		if err := client.CoreV1().ServiceAccounts("a").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has("a")
	all, err := client.CoreV1().ServiceAccounts("").List(t.Context(), metav1.ListOptions{})
	var names []string
	for _, a := range all.Items {
		names = append(names, a.Namespace+"/"+a.Name+a.Annotations["mine"])
	}
	if err != nil || strings.Join(names, " ") != "a/default kept/defaultx late/default" {
		t.Errorf("%v: %v", names, err)
	}
}

// TestCreateErrors retries what may pass, and gives up on what the namespace's end or another writer explains.
func TestCreateErrors(t *testing.T) {
	accounts := schema.GroupResource{Resource: "serviceaccounts"}
	terminating := apierrors.NewForbidden(accounts, "default", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1.NamespaceTerminatingCause}}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"made":                     {},
		"another writer was first": {err: apierrors.NewAlreadyExists(accounts, "default")},
		"the namespace is gone":    {err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a")},
		"the namespace is going":   {err: terminating},
		"forbidden": {err: apierrors.NewForbidden(accounts, "default", errors.New("no")),
			want: `create service account a/default: serviceaccounts "default" is forbidden: no`},
		"an outage": {err: errors.New("down"), want: "create service account a/default: down"},
	} {
		client := runnertest.NewClient(namespace("a", v1.NamespaceActive))
		calls := make(chan struct{}, 10)
		client.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
			select {
			case calls <- struct{}{}:
			default:
			}
			return true, account("a", "default"), c.err
		})
		var controller *Controller
		runnertest.Start(t, client, clock.RealClock{}, func(env runner.Env) (runner.Controller, error) {
			made, err := New(env)
			controller = made
			return made, err
		})
		<-calls
		got := ""
		if err := controller.reconcile(t.Context(), "a"); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
