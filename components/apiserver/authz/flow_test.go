package authz_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver"
	"quintet.dev/quintet/components/apiserver/options"
)

// These tests ask a whole server, over TLS, as its users do.

const users = `admin,admin,1,system:masters
writer,writer,2
nobody,nobody,3
kubelet,system:node:n1,4,system:nodes
`

type server struct{ address string }

func start(t *testing.T) *server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(file, []byte(users), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := apiserver.New(options.Config{
		Storage: options.StorageMemory, BindAddress: net.IPv4(127, 0, 0, 1), TokenAuthFile: file,
		AuthorizationModes: []string{"Node", "RBAC"}, EnableAdmission: []string{"NodeRestriction"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-s.Ready():
	case err := <-done:
		done <- nil
		t.Fatalf("Run ended: %v", err)
	}
	return &server{address: s.Addr().String()}
}

func (s *server) as(t *testing.T, token string, change ...func(*rest.Config)) *kubernetes.Clientset {
	t.Helper()
	cfg := &rest.Config{Host: "https://" + s.address, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: -1}
	for _, f := range change {
		f(cfg)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// eventually waits for what a change of roles or pods brings about: authorizers follow what is stored.
func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			last = done()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("%s: %v", what, last)
	}
}

func created[T any](t *testing.T) func(T, error) T {
	return func(obj T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
}

var background = context.Background()

func TestRolesTakeEffectAndDontEscalate(t *testing.T) {
	s := start(t)
	admin, writer := s.as(t, "admin"), s.as(t, "writer")
	if _, err := writer.CoreV1().Pods("default").List(background, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("without a role: %v", err)
	}
	created[*rbacv1.ClusterRole](t)(
		admin.RbacV1().ClusterRoles().Create(background,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "writer"},
				Rules: []rbacv1.PolicyRule{
					{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
					{Verbs: []string{"create", "update"}, APIGroups: []string{rbacv1.GroupName},
						Resources: []string{"roles", "rolebindings"}},
				}}, metav1.CreateOptions{}))
	created[*rbacv1.RoleBinding](t)(
		admin.RbacV1().RoleBindings("default").Create(background,
			&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "writer"},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "writer"},
				Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "writer"}}},
			metav1.CreateOptions{}))
	eventually(t, "the role counts", func() error {
		_, err := writer.CoreV1().Pods("default").List(background, metav1.ListOptions{})
		return err
	})
	if _, err := writer.CoreV1().Pods("kube-system").List(background,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another namespace: %v", err)
	}
	role := func(verbs ...string) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "r-"},
			Rules: []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"pods"}}}}
	}
	mine := created[*rbacv1.Role](t)(
		writer.RbacV1().Roles("default").Create(background, role("list"), metav1.CreateOptions{}))
	if _, err := writer.RbacV1().Roles("default").Create(background, role("list", "delete"),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a role with more than its writer has: %v", err)
	}
	mine.Rules[0].Verbs = []string{"*"}
	if _, err := writer.RbacV1().Roles("default").Update(background, mine,
		metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a role grown to more than its writer has: %v", err)
	}
	if _, err := writer.RbacV1().RoleBindings("default").Create(background,
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "root"},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "writer"}}},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a binding to cluster-admin: %v", err)
	}
}

func newPod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: "default",
			Containers: []corev1.Container{{Name: "c", Image: "image"}},
			Volumes: []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: "of-" + name}}}}}}
}

func TestKubelet(t *testing.T) {
	s := start(t)
	admin, kubelet := s.as(t, "admin"), s.as(t, "kubelet")
	created[*corev1.ServiceAccount](t)(
		admin.CoreV1().ServiceAccounts("default").Create(background,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}))
	created[*corev1.Node](t)(
		kubelet.CoreV1().Nodes().Create(background, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
			metav1.CreateOptions{}))
	if _, err := kubelet.CoreV1().Nodes().Create(background, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}},
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("another node: %v", err)
	}
	mine := created[*corev1.Pod](t)(
		admin.CoreV1().Pods("default").Create(background, newPod("mine", "n1"), metav1.CreateOptions{}))
	other := created[*corev1.Pod](t)(
		admin.CoreV1().Pods("default").Create(background, newPod("other", "n2"), metav1.CreateOptions{}))
	for _, name := range []string{"of-mine", "of-other"} {
		created[*corev1.Secret](t)(
			admin.CoreV1().Secrets("default").Create(background,
				&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	eventually(t, "the secret of its pod", func() error {
		_, err := kubelet.CoreV1().Secrets("default").Get(background, "of-mine", metav1.GetOptions{})
		return err
	})
	if _, err := kubelet.CoreV1().Secrets("default").Get(background, "of-other",
		metav1.GetOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the secret of another node's pod: %v", err)
	}
	list, err := kubelet.CoreV1().Pods("").List(background, metav1.ListOptions{FieldSelector: "spec.nodeName=n1"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("its pods: %v %v", list, err)
	}
	if _, err := kubelet.CoreV1().Pods("").List(background, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("all pods: %v", err)
	}
	if _, err := kubelet.CoreV1().Pods("default").UpdateStatus(background, other,
		metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the status of another node's pod: %v", err)
	}
	request := func(pod *corev1.Pod) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3607),
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name,
					UID: pod.UID}}}
	}
	if _, err := kubelet.CoreV1().ServiceAccounts("default").CreateToken(background, "default", request(other),
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a token for another node's pod: %v", err)
	}
	token := created[*authenticationv1.TokenRequest](t)(
		kubelet.CoreV1().ServiceAccounts("default").CreateToken(background, "default", request(mine),
			metav1.CreateOptions{}))
	pod := s.as(t, token.Status.Token)
	me := created[*authenticationv1.SelfSubjectReview](t)(
		pod.AuthenticationV1().SelfSubjectReviews().Create(background, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{}))
	if me.Status.UserInfo.Username != "system:serviceaccount:default:default" ||
		me.Status.UserInfo.Extra["authentication.kubernetes.io/pod-name"][0] != "mine" {
		t.Errorf("the pod is %+v", me.Status.UserInfo)
	}
	if err := admin.CoreV1().Pods("default").Delete(background, "mine", *metav1.NewDeleteOptions(0)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the token ends with the pod", func() error {
		_, err := pod.AuthenticationV1().SelfSubjectReviews().Create(background, &authenticationv1.SelfSubjectReview{},
			metav1.CreateOptions{})
		if apierrors.IsUnauthorized(err) {
			return nil
		}
		return apierrors.NewConflict(corev1.Resource("pods"), "mine", err)
	})
}

func TestReviewsAndImpersonation(t *testing.T) {
	s := start(t)
	admin, nobody := s.as(t, "admin"), s.as(t, "nobody")
	may := func(c *kubernetes.Clientset) bool {
		t.Helper()
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "delete", Resource: "nodes"}}}
		return created[*authorizationv1.SelfSubjectAccessReview](t)(
			c.AuthorizationV1().SelfSubjectAccessReviews().Create(background, review,
				metav1.CreateOptions{})).Status.Allowed
	}
	if !may(admin) || may(nobody) {
		t.Error("who may delete nodes?")
	}
	asOther := func(name string) func(*rest.Config) {
		return func(c *rest.Config) { c.Impersonate = rest.ImpersonationConfig{UserName: name} }
	}
	if may(s.as(t, "admin", asOther("nobody"))) {
		t.Error("an admin who acts as nobody is one no more")
	}
	if _, err := s.as(t, "nobody", asOther("admin")).CoreV1().Pods("").List(background,
		metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("nobody acts as admin: %v", err)
	}
	if _, err := s.as(t, "wrong").CoreV1().Pods("").List(background,
		metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("a wrong token: %v", err)
	}
	anonymous := s.as(t, "")
	if _, err := anonymous.CoreV1().Pods("").List(background, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("nobody at all: %v", err)
	}
	if _, err := anonymous.Discovery().ServerVersion(); err != nil {
		t.Errorf("the version is for everybody: %v", err)
	}
}
