package authz

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func TestModes(t *testing.T) {
	for _, tt := range []struct {
		modes []string
		want  string
	}{
		{[]string{"Node", "RBAC"}, ""},
		{nil, "at least one"},
		{[]string{"RBAC", "RBAC"}, "more than once"},
		{[]string{"Magic"}, `"Magic" is not a valid mode`},
		{[]string{"ABAC"}, "authorization-mode ABAC's authorization policy file not passed"},
		{[]string{"Webhook"}, "--authorization-webhook-config-file"},
	} {
		_, err := New(Config{Modes: tt.modes, Objects: &objectstest.Store{}})
		if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: %v", tt.modes, err)
		}
	}
}

func TestChain(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(rbacv1.Resource("clusterroles"), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}})
	c, err := New(Config{Modes: []string{ModeNode, ModeRBAC}, Objects: store})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	ask := func(u user.DefaultInfo, resource, name string) authorizer.Decision {
		verb := "list"
		if name != "" {
			verb = "get"
		}
		decision, _, err := c.Authorize(ctx,
			authorizer.AttributesRecord{User: &u, Verb: verb, Namespace: "ns", Resource: resource, Name: name,
				ResourceRequest: true})
		if err != nil {
			t.Error(err)
		}
		return decision
	}
	jane := user.DefaultInfo{Name: "jane"}
	if ask(jane, "pods", "") == authorizer.DecisionAllow {
		t.Error("allowed before the binding")
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"},
		RoleRef:  rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "jane"}}}
	store.Put(rbacv1.Resource("clusterrolebindings"), binding)
	if ask(jane, "pods", "") != authorizer.DecisionAllow {
		t.Error("refused after the binding")
	}
	store.Remove(rbacv1.Resource("clusterrolebindings"), "", "b")
	if ask(jane, "pods", "") == authorizer.DecisionAllow {
		t.Error("allowed without the binding")
	}
	if ask(user.DefaultInfo{Name: "x", Groups: []string{"system:masters"}}, "secrets", "") != authorizer.DecisionAllow {
		t.Error("masters refused")
	}
	kubelet := user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	store.Put(corev1.Resource("pods"),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
			Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "sa",
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}})
	if ask(kubelet, "secrets", "pull") != authorizer.DecisionAllow ||
		ask(kubelet, "secrets", "other") == authorizer.DecisionAllow {
		t.Error("node authorizer is not fed")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConstantModes(t *testing.T) {
	for mode, want := range map[string]authorizer.Decision{ModeAlwaysAllow: authorizer.DecisionAllow,
		ModeAlwaysDeny: authorizer.DecisionNoOpinion} {
		c, err := New(Config{Modes: []string{mode}, Objects: &objectstest.Store{}})
		if err != nil {
			t.Fatal(err)
		}
		decision, _, err := c.Authorize(context.Background(),
			authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "x"}, Verb: "get", Path: "/"})
		if err != nil || decision != want {
			t.Errorf("%s: %v %v", mode, decision, err)
		}
		rules, _, _, err := c.RulesFor(context.Background(), &user.DefaultInfo{}, "ns")
		if err != nil || (len(rules) == 1) != (mode == ModeAlwaysAllow) {
			t.Errorf("%s: rules %v %v", mode, rules, err)
		}
	}
}

// TestChangesOfTheGraph: what changes nothing that nodes need isn't measured.
func TestChangesOfTheGraph(t *testing.T) {
	store, told := &objectstest.Store{}, []string(nil)
	c, err := New(Config{Modes: []string{ModeNode}, Objects: store,
		Graph: func(operation string, _ time.Duration) { told = append(told, operation) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.Run(ctx) }()
	if err := c.WaitSynced(ctx); err != nil {
		t.Fatal(err)
	}
	pod := func(name, node, label string) {
		store.Put(corev1.Resource("pods"), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{"l": label}},
			Spec:       corev1.PodSpec{NodeName: node},
		})
	}
	pod("a", "", "")
	pod("a", "n1", "")
	pod("a", "n1", "new")
	pod("waits", "", "")
	for _, name := range []string{"a", "waits"} {
		store.Remove(corev1.Resource("pods"), "ns", name)
	}
	for _, label := range []string{"", "new"} {
		store.Put(storagev1.Resource("volumeattachments"), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "v", Labels: map[string]string{"l": label}},
			Spec:       storagev1.VolumeAttachmentSpec{NodeName: "n1"},
		})
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if want := []string{"AddPod", "DeletePod", "AddVolumeAttachment"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
