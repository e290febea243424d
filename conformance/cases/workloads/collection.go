package workloads

import (
	"context"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/conformance/suite"
)

func exists(t *suite.T, name string) func(ctx context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
}

// family makes an owner and two dependents that block its deletion in the foreground.
func family(ctx context.Context, t *suite.T) types.UID {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}},
		metav1.CreateOptions{})
	t.Must(err, "create the owner")
	for _, name := range []string{"child-1", "child-2"} {
		child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID, BlockOwnerDeletion: ptr.To(true)}}}}
		_, err := maps.Create(ctx, child, metav1.CreateOptions{})
		t.Must(err, "create %s", name)
	}
	return owner.UID
}

func deleteOwner(ctx context.Context, t *suite.T, policy metav1.DeletionPropagation) {
	t.Must(t.Client.CoreV1().ConfigMaps(t.Namespace).Delete(ctx, "owner",
		metav1.DeleteOptions{PropagationPolicy: &policy}), "delete the owner")
}

func gcBackground(ctx context.Context, t *suite.T) {
	family(ctx, t)
	deleteOwner(ctx, t, metav1.DeletePropagationBackground)
	there, err := exists(t, "owner")(ctx)
	t.Must(err, "get the owner")
	t.Expect(there).To(BeFalse(), "the owner goes at once")
	for _, name := range []string{"child-1", "child-2"} {
		suite.WaitFor(ctx, t, name+" is there", exists(t, name), BeFalse())
	}
}

func gcForeground(ctx context.Context, t *suite.T) {
	family(ctx, t)
	hold := `{"metadata":{"finalizers":["conformance.quintet.dev/hold"]}}`
	_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Patch(ctx, "child-2", types.MergePatchType, []byte(hold),
		metav1.PatchOptions{})
	t.Must(err, "hold a child")
	deleteOwner(ctx, t, metav1.DeletePropagationForeground)
	owner, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Get(ctx, "owner", metav1.GetOptions{})
	t.Must(err, "get the owner during its deletion")
	t.Expect(owner.DeletionTimestamp).NotTo(BeNil())
	t.Expect(owner.Finalizers).To(ContainElement(metav1.FinalizerDeleteDependents))
	suite.WaitFor(ctx, t, "child-1 is there", exists(t, "child-1"), BeFalse())
	suite.Never(ctx, t, "the owner goes before its child", exists(t, "owner"), BeFalse())
	_, err = t.Client.CoreV1().ConfigMaps(t.Namespace).Patch(ctx, "child-2", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	t.Must(err, "let the child go")
	suite.WaitFor(ctx, t, "the owner is there", exists(t, "owner"), BeFalse())
}

func gcOrphan(ctx context.Context, t *suite.T) {
	uid := family(ctx, t)
	deleteOwner(ctx, t, metav1.DeletePropagationOrphan)
	suite.WaitFor(ctx, t, "the owner is there", exists(t, "owner"), BeFalse())
	for _, name := range []string{"child-1", "child-2"} {
		child, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Get(ctx, name, metav1.GetOptions{})
		t.Must(err, "get %s", name)
		t.Expect(child.OwnerReferences).NotTo(ContainElement(HaveField("UID", uid)))
	}
	suite.Never(ctx, t, "an orphan is collected", exists(t, "child-1"), BeFalse())
}

func gcAbsentOwner(ctx context.Context, t *suite.T) {
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "lost", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: "never-was", UID: "11111111-2222-3333-4444-555555555555"}}}}
	_, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Create(ctx, child, metav1.CreateOptions{})
	t.Must(err, "create")
	suite.WaitFor(ctx, t, "the child without an owner exists", exists(t, "lost"), BeFalse())
}

func namespaceDeletion(ctx context.Context, t *suite.T) {
	spaces := t.Client.CoreV1().Namespaces()
	space, err := spaces.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-doomed-"}}, metav1.CreateOptions{})
	t.Must(err, "create the namespace")
	name := space.Name
	maps := t.Client.CoreV1().ConfigMaps(name)
	release := func(ctx context.Context) {
		_, _ = maps.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		_ = spaces.Delete(ctx, name, metav1.DeleteOptions{})
	}
	t.Cleanup(release)
	for _, object := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Name: "plain"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"conformance.quintet.dev/hold"}}},
	} {
		_, err := maps.Create(ctx, object, metav1.CreateOptions{})
		t.Must(err, "create %s", object.Name)
	}
	t.Must(spaces.Delete(ctx, name, metav1.DeleteOptions{}), "delete the namespace")
	get := func(ctx context.Context) (*corev1.Namespace, error) {
		return spaces.Get(ctx, name, metav1.GetOptions{})
	}
	suite.WaitFor(ctx, t, "the namespace says what remains", get, And(
		HaveField("Status.Phase", corev1.NamespaceTerminating),
		HaveField("Status.Conditions", ContainElement(And(
			HaveField("Type", corev1.NamespaceFinalizersRemaining), HaveField("Status", corev1.ConditionTrue))))))
	_, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	t.Expect(apierrors.IsForbidden(err)).To(BeTrue(), "want Forbidden in a terminating namespace, got %v", err)
	t.Expect(apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)).To(BeTrue(), "the cause: %v", err)
	release(ctx)
	gone := func(ctx context.Context) (bool, error) {
		_, err := get(ctx)
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
	suite.WaitFor(ctx, t, "the namespace gone", gone, BeTrue())
}
