package workloads

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quintet.dev/quintet/conformance/suite"
)

func accountSecret(ctx context.Context, t *suite.T) {
	accounts := t.Client.CoreV1().ServiceAccounts(t.Namespace)
	_, err := accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}},
		metav1.CreateOptions{})
	t.Must(err, "create the account")
	secrets := t.Client.CoreV1().Secrets(t.Namespace)
	_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "robot-token",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: "robot"}},
		Type: corev1.SecretTypeServiceAccountToken}, metav1.CreateOptions{})
	t.Must(err, "create the secret")
	suite.WaitFor(ctx, t, "the secret filled", func(ctx context.Context) (*corev1.Secret, error) {
		return secrets.Get(ctx, "robot-token", metav1.GetOptions{})
	}, HaveField("Data", And(HaveKey(corev1.ServiceAccountTokenKey), HaveKey(corev1.ServiceAccountRootCAKey),
		HaveKeyWithValue(corev1.ServiceAccountNamespaceKey, []byte(t.Namespace)))))
	t.Must(accounts.Delete(ctx, "robot", metav1.DeleteOptions{}), "delete the account")
	suite.WaitFor(ctx, t, "the secret is there", func(ctx context.Context) (bool, error) {
		_, err := secrets.Get(ctx, "robot-token", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	}, BeFalse())
}

func roleAggregation(ctx context.Context, t *suite.T) {
	roles := t.Client.RbacV1().ClusterRoles()
	create := func(name string, change func(*rbacv1.ClusterRole)) {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: t.Namespace + "-" + name}}
		change(role)
		t.Cleanup(func(ctx context.Context) { _ = roles.Delete(ctx, role.Name, metav1.DeleteOptions{}) })
		_, err := roles.Create(ctx, role, metav1.CreateOptions{})
		t.Must(err, "create the role %s", name)
	}
	labels := map[string]string{"conformance.quintet.dev/part-of": t.Namespace}
	create("sum", func(role *rbacv1.ClusterRole) {
		role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: labels}}}
	})
	rule := func(resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{"conformance.quintet.dev"}, Resources: []string{resource},
			Verbs: []string{"get"}}
	}
	rules := func(ctx context.Context) ([]rbacv1.PolicyRule, error) {
		role, err := roles.Get(ctx, t.Namespace+"-sum", metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return role.Rules, nil
	}
	for _, resource := range []string{"widgets", "gadgets"} {
		create(resource, func(role *rbacv1.ClusterRole) {
			role.Labels, role.Rules = labels, []rbacv1.PolicyRule{rule(resource)}
		})
	}
	suite.WaitFor(ctx, t, "the rules of both parts", rules, ConsistOf(rule("widgets"), rule("gadgets")))
	t.Must(roles.Delete(ctx, t.Namespace+"-gadgets", metav1.DeleteOptions{}), "delete a part")
	suite.WaitFor(ctx, t, "the rules of the other part", rules, ConsistOf(rule("widgets")))
}
