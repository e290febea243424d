package api

import (
	"context"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func finalizer(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	held := configMap("held", nil)
	held.Finalizers = []string{"conformance.quintet.dev/hold"}
	_, err := maps.Create(ctx, held, metav1.CreateOptions{})
	t.Must(err, "create")
	t.Must(maps.Delete(ctx, "held", metav1.DeleteOptions{}), "delete")
	read, err := maps.Get(ctx, "held", metav1.GetOptions{})
	t.Must(err, "get while the finalizer holds")
	t.Expect(read.DeletionTimestamp).NotTo(BeNil())

	added := read.DeepCopy()
	added.Finalizers = append(added.Finalizers, "conformance.quintet.dev/late")
	_, err = maps.Update(ctx, added, metav1.UpdateOptions{})
	t.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "no finalizer may be added during deletion, got %v", err)

	_, err = maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	t.Must(err, "remove the finalizer")
	_, err = maps.Get(ctx, "held", metav1.GetOptions{})
	t.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "after the last finalizer: %v", err)
}

func deletePreconditions(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	created, err := maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	for name, preconditions := range map[string]*metav1.Preconditions{
		"uid":             {UID: ptr.To(types.UID("00000000-0000-0000-0000-000000000000"))},
		"resourceVersion": {ResourceVersion: ptr.To("1")},
	} {
		err := maps.Delete(ctx, "one", metav1.DeleteOptions{Preconditions: preconditions})
		t.Expect(apierrors.IsConflict(err)).To(BeTrue(), "wrong %s: want a Conflict, got %v", name, err)
	}
	t.Must(maps.Delete(ctx, "one",
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &created.UID,
			ResourceVersion: &created.ResourceVersion}}),
		"delete with preconditions that hold")
}

func statusSubresource(ctx context.Context, t *suite.T) {
	sets := t.Client.AppsV1().ReplicaSets(t.Namespace)
	// No controller writes these fields of a ReplicaSet of zero replicas while the case runs.
	set, err := sets.Create(ctx, t.ReplicaSet("status", 0), metav1.CreateOptions{})
	t.Must(err, "create")
	body := []byte(`{"spec":{"minReadySeconds":7},"status":{"conditions":[{"type":"ConformanceSaysSo","status":"True"}]}}`)
	got, err := sets.Patch(ctx, "status", types.MergePatchType, body, metav1.PatchOptions{})
	t.Must(err, "patch the main resource")
	t.Expect(got.Spec.MinReadySeconds).To(BeEquivalentTo(7))
	t.Expect(got.Status.Conditions).To(BeEmpty())
	body = []byte(`{"spec":{"minReadySeconds":9},"status":{"conditions":[{"type":"ConformanceSaysSo","status":"True"}]}}`)
	got, err = sets.Patch(ctx, "status", types.MergePatchType, body, metav1.PatchOptions{}, "status")
	t.Must(err, "patch the status")
	t.Expect(got.Spec.MinReadySeconds).To(BeEquivalentTo(7))
	t.Expect(got.Status.Conditions).To(HaveLen(1))
	t.Expect(got.UID).To(Equal(set.UID))
}

func scale(ctx context.Context, t *suite.T) {
	deployments := t.Client.AppsV1().Deployments(t.Namespace)
	_, err := deployments.Create(ctx, t.Deployment("scaled", 0), metav1.CreateOptions{})
	t.Must(err, "create")
	current, err := deployments.GetScale(ctx, "scaled", metav1.GetOptions{})
	t.Must(err, "get the scale")
	t.Expect(current.Spec.Replicas).To(BeZero())
	t.Expect(current.Status.Selector).To(Equal("app=scaled"))
	// A paused deployment of an image that is nowhere: the case needs no pods, only the number.
	_, err = deployments.UpdateScale(ctx, "scaled", &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "scaled", Namespace: t.Namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{})
	t.Must(err, "set the scale")
	read, err := deployments.Get(ctx, "scaled", metav1.GetOptions{})
	t.Must(err, "get")
	t.Expect(*read.Spec.Replicas).To(BeEquivalentTo(2))
}

func accessReview(ctx context.Context, t *suite.T) {
	allowed := func(ctx context.Context) (bool, error) {
		review, err := t.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: "conformance-jane",
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: t.Namespace, Verb: "get", Resource: "secrets", Name: "one"}}}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
	suite.WaitFor(ctx, t, "before any binding", allowed, BeFalse())
	_, err := t.Client.RbacV1().Roles(t.Namespace).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{"one"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	t.Must(err, "create the role")
	_, err = t.Client.RbacV1().RoleBindings(t.Namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "conformance-jane"}},
	}, metav1.CreateOptions{})
	t.Must(err, "create the binding")
	suite.WaitFor(ctx, t, "with the binding", allowed, BeTrue())
	t.Must(t.Client.RbacV1().RoleBindings(t.Namespace).Delete(ctx, "jane", metav1.DeleteOptions{}),
		"delete the binding")
	suite.WaitFor(ctx, t, "without the binding", allowed, BeFalse())
}

func token(ctx context.Context, t *suite.T) {
	accounts := t.Client.CoreV1().ServiceAccounts(t.Namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}},
		metav1.CreateOptions{})
	t.Must(err, "create the account")
	issued, err := accounts.CreateToken(ctx, "robot", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](600)}}, metav1.CreateOptions{})
	t.Must(err, "request a token")
	config := rest.AnonymousClientConfig(t.Config)
	config.BearerToken = issued.Status.Token
	robot, err := suite.Connect(config, t.Image)
	t.Must(err, "connect with the token")
	who := func(ctx context.Context) (string, error) {
		review, err := robot.Client.AuthenticationV1().SelfSubjectReviews().Create(ctx,
			&authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return string(apierrors.ReasonForError(err)), nil
		}
		return review.Status.UserInfo.Username, nil
	}
	suite.WaitFor(ctx, t, "who the token is", who, Equal("system:serviceaccount:"+t.Namespace+":robot"))
	_, err = robot.Client.CoreV1().Secrets(t.Namespace).List(ctx, metav1.ListOptions{})
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "an account without roles must not list secrets: %v", err)
	t.Must(accounts.Delete(ctx, "robot", metav1.DeleteOptions{}), "delete the account")
	suite.WaitFor(ctx, t, "the token of a deleted account", who, Equal(string(metav1.StatusReasonUnauthorized)))
}
