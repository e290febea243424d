package envtest

import (
	"io"
	"testing"

	"github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"quintet.dev/quintet/e2e/operator"
)

func site(name, host string) *operator.Website {
	return &operator.Website{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       operator.WebsiteSpec{Host: host, Page: "<p>hello"},
	}
}

// theOperator starts a control plane with the operator's definition and webhooks, and the operator.
func theOperator(t *testing.T, args ...string) *world {
	t.Helper()
	w := start(t, &envtest.Environment{
		CRDDirectoryPaths: []string{"../operator/config/crd.yaml"}, ErrorIfCRDPathMissing: true,
		WebhookInstallOptions: envtest.WebhookInstallOptions{Paths: []string{"../operator/config/webhooks.yaml"}},
	}, args...)
	w.run(t)
	return w
}

func TestOperator(t *testing.T) {
	w := theOperator(t)
	ctx := t.Context()
	home := site("home", "www")
	w.Expect(w.client.Create(ctx, home)).To(gomega.Succeed())
	w.Expect(home.Spec.Replicas).To(gstruct.PointTo(gomega.BeEquivalentTo(2)), "the webhook fills in")
	key := client.ObjectKeyFromObject(home)

	t.Run("applies what is asked for, and what others change", func(t *testing.T) {
		replicas := gomega.HaveField("Spec.Replicas", gstruct.PointTo(gomega.BeEquivalentTo(2)))
		deployment := &appsv1.Deployment{}
		w.Eventually(get(w, key, deployment)).Should(replicas)
		w.Expect(metav1.IsControlledBy(deployment, home)).To(gomega.BeTrue())
		w.Expect(w.client.Patch(ctx, deployment,
			client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":7}}`)))).To(gomega.Succeed())
		w.Eventually(get(w, key, deployment)).Should(replicas)
		w.Eventually(get(w, operator.Hosts, &corev1.ConfigMap{})).Should(gomega.HaveField("Data",
			gomega.HaveKeyWithValue("www", "default.home")))
	})

	t.Run("reports what it sees", func(t *testing.T) {
		deployment := &appsv1.Deployment{}
		w.Expect(w.client.Get(ctx, key, deployment)).To(gomega.Succeed())
		deployment.Status.Replicas, deployment.Status.ReadyReplicas, deployment.Status.AvailableReplicas = 2, 2, 2
		w.Expect(w.client.Status().Update(ctx, deployment)).To(gomega.Succeed()) // there is no node that would
		w.Eventually(get(w, key, home)).Should(gomega.Satisfy(func(s *operator.Website) bool {
			return meta.IsStatusConditionTrue(s.Status.Conditions, operator.Ready)
		}))
		w.Expect(home.Generation).To(gomega.BeEquivalentTo(1), "a status is no new generation")
	})

	t.Run("refuses", func(t *testing.T) {
		second := site("second", "www")
		err := w.client.Create(ctx, second)
		w.Expect(apierrors.IsForbidden(err)).To(gomega.BeTrue(), "%v", err)
		w.Expect(err).
			To(gomega.MatchError(gomega.ContainSubstring(`admission webhook "validate.websites.example.com" denied the request: host www belongs to default/home`)))

		err = w.client.Create(ctx, site("bad", "Not a host"))
		w.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v", err)
		w.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("spec.host in body should match")))

		w.Expect(w.client.Get(ctx, key, home)).To(gomega.Succeed())
		home.Spec.Host = "other"
		err = w.client.Update(ctx, home)
		w.Expect(apierrors.IsInvalid(err)).To(gomega.BeTrue(), "%v", err)
		w.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("a website keeps its host")))
	})

	t.Run("cleans up before it goes", func(t *testing.T) {
		w.Expect(w.client.Delete(ctx, home)).To(gomega.Succeed())
		w.Eventually(func() error { return w.client.Get(ctx, key, home) }).Should(gomega.Satisfy(apierrors.IsNotFound))
		hosts, err := get(w, operator.Hosts, &corev1.ConfigMap{})()
		w.Expect(err).NotTo(gomega.HaveOccurred())
		w.Expect(hosts.Data).NotTo(gomega.HaveKey("www"))
	})
}

func TestUsers(t *testing.T) {
	w := start(t, &envtest.Environment{CRDDirectoryPaths: []string{"../operator/config"}})
	ctx := t.Context()
	w.Expect(w.client.Create(ctx, site("home", "www"))).To(gomega.Succeed())
	w.Expect(w.client.Create(ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"websites"},
			Verbs: []string{"get", "list"}}},
	})).To(gomega.Succeed())
	w.Expect(w.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}},
	})).To(gomega.Succeed())
	user, err := w.env.AddUser(envtest.User{Name: "jane", Groups: []string{"readers"}}, nil)
	w.Expect(err).NotTo(gomega.HaveOccurred())
	janes, err := client.New(user.Config(), client.Options{Scheme: w.scheme})
	w.Expect(err).NotTo(gomega.HaveOccurred())

	w.Eventually(func() error { return janes.List(ctx, &operator.WebsiteList{}) }).Should(gomega.Succeed())
	err = janes.Create(ctx, site("other", "other"))
	w.Expect(apierrors.IsForbidden(err)).To(gomega.BeTrue(), "%v", err)
	w.Expect(err).
		To(gomega.MatchError(gomega.ContainSubstring(`User "jane" cannot create resource "websites" in API group "example.com" in the namespace "default"`)))

	kubectl, err := user.Kubectl()
	w.Expect(err).NotTo(gomega.HaveOccurred())
	out, errors, err := kubectl.Run("get", "site", "--no-headers")
	w.Expect(err).NotTo(gomega.HaveOccurred(), "%s", read(t, errors))
	w.Expect(read(t, out)).To(gomega.MatchRegexp(`^home +www +\n$`))
	_, errors, err = kubectl.Run("delete", "site", "home")
	w.Expect(err).To(gomega.HaveOccurred())
	w.Expect(read(t, errors)).To(gomega.ContainSubstring("Error from server (Forbidden)"))
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What envtest doesn't have by itself: the objects that upstream's controllers make and take away.
func TestControllers(t *testing.T) {
	w := theOperator(t, "--controllers=garbagecollector,namespace,serviceaccount")
	ctx := t.Context()
	w.Eventually(get(w, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "default"},
		&corev1.ServiceAccount{})).ShouldNot(gomega.BeNil())
	gone := func(obj client.Object) {
		t.Helper()
		w.Eventually(func() error {
			return w.client.Get(ctx, client.ObjectKeyFromObject(obj),
				obj)
		}).Should(gomega.Satisfy(apierrors.IsNotFound))
	}

	home := site("home", "www")
	home.Spec.Replicas = ptr.To[int32](0)
	w.Expect(w.client.Create(ctx, home)).To(gomega.Succeed())
	deployment := &appsv1.Deployment{}
	w.Eventually(get(w, client.ObjectKeyFromObject(home), deployment)).Should(gomega.HaveField("Spec.Replicas",
		gstruct.PointTo(gomega.BeZero())))
	w.Expect(w.client.Delete(ctx, home)).To(gomega.Succeed())
	gone(deployment)

	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "space"}}
	w.Expect(w.client.Create(ctx, space)).To(gomega.Succeed())
	other := site("other", "other")
	other.Namespace = space.Name
	w.Expect(w.client.Create(ctx, other)).To(gomega.Succeed())
	w.Eventually(get(w, client.ObjectKeyFromObject(other),
		other)).Should(gomega.Satisfy(func(s *operator.Website) bool {
		return controllerutil.ContainsFinalizer(s, operator.Finalizer)
	}))
	w.Expect(w.client.Delete(ctx, space)).To(gomega.Succeed())
	gone(space) // with the site, which the operator lets go
}

// A fast suite needs no store of its own: the API server keeps everything in memory.
func TestMemory(t *testing.T) {
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../operator/config/crd.yaml"}}
	env.ControlPlane.GetAPIServer().Configure().Set("storage-backend", "memory").Disable("etcd-servers")
	w := start(t, env)
	w.Expect(w.client.Create(t.Context(), site("home", "www"))).To(gomega.Succeed())
	w.Expect(w.client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "home"},
		&operator.Website{})).To(gomega.Succeed())
}

// Two control planes of one process don't see each other, and a stopped one starts again, empty.
func TestTwoAndAgain(t *testing.T) {
	one, other := start(t, &envtest.Environment{}), start(t, &envtest.Environment{})
	mine := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "mine"}}
	one.Expect(one.client.Create(t.Context(), mine)).To(gomega.Succeed())
	err := other.client.Get(t.Context(), client.ObjectKeyFromObject(mine), mine)
	other.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)

	one.Expect(one.env.Stop()).To(gomega.Succeed())
	err = one.client.Get(t.Context(), client.ObjectKeyFromObject(mine), mine)
	one.Expect(err).To(gomega.MatchError(gomega.ContainSubstring("connection refused")))
	rest, err := one.env.Start()
	one.Expect(err).NotTo(gomega.HaveOccurred())
	again, err := client.New(rest, client.Options{})
	one.Expect(err).NotTo(gomega.HaveOccurred())
	err = again.Get(t.Context(), client.ObjectKeyFromObject(mine), mine)
	one.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "%v", err)
}
