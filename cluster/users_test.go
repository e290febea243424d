package cluster

import (
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/internal/certs"
)

// TestUsers: the API server knows who they are, and they may do what their groups may.
func TestUsers(t *testing.T) {
	c, _ := started(t, WithNodes(0))
	config, err := c.AddUser(t.Context(), "jane", "dev")
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(),
		&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || review.Status.UserInfo.Username != "jane" || review.Status.UserInfo.Groups[0] != "dev" {
		t.Errorf("%+v, %v", review, err)
	}
	if _, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a user without roles: %v", err)
	}
	config, err = c.AddUser(t.Context(), "root", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().Pods("default").List(t.Context(),
		metav1.ListOptions{}); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	if _, err := c.AddUser(t.Context(), ""); err == nil {
		t.Error("a user without a name")
	}
}

// TestAddUserWhileNodesChange: a user is added at once, whatever nodes do.
func TestAddUserWhileNodesChange(t *testing.T) {
	c, _ := started(t, WithNodes(0))
	c.changing.Lock()
	defer c.changing.Unlock()
	added := make(chan error, 1)
	go func() {
		_, err := c.AddUser(t.Context(), "jane")
		added <- err
	}()
	select {
	case err := <-added:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Error("it waits for nodes to be added")
	}
}

// TestSignerOfAnother: a process that did not start the cluster signs with what API servers keep.
func TestSignerOfAnother(t *testing.T) {
	authority, err := certs.NewAuthority("kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	c, _ := faked(nil, "apiserver-0/kube-apiserver")
	c.members[0].instance.(*fakeInstance).files = map[string][]byte{"pki/ca.crt": authority.Cert, caKey: authority.Key}
	got, err := c.signer(t.Context())
	if err != nil || string(got.Cert) != string(authority.Cert) || string(got.Key) != string(authority.Key) {
		t.Errorf("%v, %v", got, err)
	}
}
