package api

import (
	"context"
	"fmt"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"quintet.dev/quintet/conformance/suite"
)

func crud(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	created, err := maps.Create(ctx, configMap("one", map[string]string{"app": "crud"}), metav1.CreateOptions{})
	t.Must(err, "create")
	t.Expect(created.UID).NotTo(BeEmpty())
	t.Expect(created.ResourceVersion).NotTo(BeEmpty())
	t.Expect(created.CreationTimestamp.IsZero()).To(BeFalse())

	read, err := maps.Get(ctx, "one", metav1.GetOptions{})
	t.Must(err, "get")
	t.Expect(read).To(Equal(created))

	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "app=crud"})
	t.Must(err, "list")
	t.Expect(list.Items).To(ConsistOf(*created))

	read.Data["key"] = "changed"
	updated, err := maps.Update(ctx, read, metav1.UpdateOptions{})
	t.Must(err, "update")
	t.Expect(updated.Data).To(HaveKeyWithValue("key", "changed"))
	t.Expect(updated.UID).To(Equal(created.UID))
	t.Expect(updated.ResourceVersion).NotTo(Equal(created.ResourceVersion))

	same, err := maps.Update(ctx, updated, metav1.UpdateOptions{})
	t.Must(err, "update with no change")
	t.Expect(same.ResourceVersion).To(Equal(updated.ResourceVersion), "an update that changes nothing writes nothing")

	t.Must(maps.Delete(ctx, "one", metav1.DeleteOptions{}), "delete")
	_, err = maps.Get(ctx, "one", metav1.GetOptions{})
	t.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "after the deletion: %v", err)
	t.Expect(apierrors.IsNotFound(maps.Delete(ctx, "one", metav1.DeleteOptions{}))).To(BeTrue(),
		"a second deletion is NotFound")
}

func conflict(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	first, err := maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	second := first.DeepCopy()
	second.Data["key"] = "newer"
	_, err = maps.Update(ctx, second, metav1.UpdateOptions{})
	t.Must(err, "update")

	first.Data["key"] = "outdated"
	_, err = maps.Update(ctx, first, metav1.UpdateOptions{})
	t.Expect(apierrors.IsConflict(err)).To(BeTrue(), "want a Conflict, got %v", err)
	read, err := maps.Get(ctx, "one", metav1.GetOptions{})
	t.Must(err, "get")
	t.Expect(read.Data).To(HaveKeyWithValue("key", "newer"))
}

func exists(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	_, err := maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	_, err = maps.Create(ctx, configMap("one", nil), metav1.CreateOptions{})
	t.Expect(apierrors.IsAlreadyExists(err)).To(BeTrue(), "want AlreadyExists, got %v", err)
}

func generateName(ctx context.Context, t *suite.T) {
	names := map[string]bool{}
	for range 20 {
		created, err := t.Client.CoreV1().ConfigMaps(t.Namespace).Create(ctx,
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "many-"}}, metav1.CreateOptions{})
		t.Must(err, "create")
		t.Expect(created.Name).To(HavePrefix("many-"))
		t.Expect(len(created.Name)).To(BeNumerically(">", len("many-")))
		names[created.Name] = true
	}
	t.Expect(names).To(HaveLen(20))
}

func invalid(ctx context.Context, t *suite.T) {
	pod := t.Pod("bad", "exit", "0")
	pod.Spec.Containers[0].Name = "Not A Name"
	_, err := t.Client.CoreV1().Pods(t.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	t.Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want Invalid, got %v", err)
	status := err.(apierrors.APIStatus).Status()
	t.Expect(status.Code).To(BeEquivalentTo(422))
	t.Expect(status.Details).NotTo(BeNil())
	t.Expect(status.Details.Kind).To(Equal("Pod"))
	t.Expect(status.Details.Causes).To(ContainElement(HaveField("Field", "spec.containers[0].name")))
}

// warnings collects the Warning headers of the answers.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func strictFields(ctx context.Context, t *suite.T) {
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"strict"},"dta":{"a":"b"}}`
	told := &warnings{}
	config := rest.CopyConfig(t.Config)
	config.WarningHandler = told
	client, err := suite.Connect(config, t.Image)
	t.Must(err, "connect")
	post := func(validation string) error {
		return client.Client.CoreV1().RESTClient().Post().Namespace(t.Namespace).Resource("configmaps").
			Param("fieldValidation", validation).SetHeader("Content-Type",
			"application/json").Body([]byte(body)).Do(ctx).Error()
	}
	err = post("Strict")
	t.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "want BadRequest, got %v", err)
	t.Expect(err.Error()).To(ContainSubstring(`unknown field "dta"`))
	t.Must(post("Warn"), "create with fieldValidation=Warn")
	t.Expect(told.texts).To(ContainElement(ContainSubstring(`unknown field "dta"`)))
	told.texts = nil
	t.Must(t.Client.CoreV1().ConfigMaps(t.Namespace).Delete(ctx, "strict", metav1.DeleteOptions{}), "delete")
	t.Must(post("Ignore"), "create with fieldValidation=Ignore")
	t.Expect(told.texts).To(BeEmpty())
}

func dryRun(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	all := []string{metav1.DryRunAll}
	made, err := maps.Create(ctx, configMap("dry", nil), metav1.CreateOptions{DryRun: all})
	t.Must(err, "dry-run create")
	t.Expect(made.UID).NotTo(BeEmpty())
	_, err = maps.Get(ctx, "dry", metav1.GetOptions{})
	t.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "a dry-run create persists nothing: %v", err)

	real, err := maps.Create(ctx, configMap("dry", nil), metav1.CreateOptions{})
	t.Must(err, "create")
	changed := real.DeepCopy()
	changed.Data["key"] = "dry"
	answer, err := maps.Update(ctx, changed, metav1.UpdateOptions{DryRun: all})
	t.Must(err, "dry-run update")
	t.Expect(answer.Data).To(HaveKeyWithValue("key", "dry"))
	t.Must(maps.Delete(ctx, "dry", metav1.DeleteOptions{DryRun: all}), "dry-run delete")
	read, err := maps.Get(ctx, "dry", metav1.GetOptions{})
	t.Must(err, "get after dry-run writes")
	t.Expect(read).To(Equal(real))
}

func generation(ctx context.Context, t *suite.T) {
	sets := t.Client.AppsV1().ReplicaSets(t.Namespace)
	set := t.ReplicaSet("gen", 0)
	set, err := sets.Create(ctx, set, metav1.CreateOptions{})
	t.Must(err, "create")
	t.Expect(set.Generation).To(BeEquivalentTo(1))
	patch := func(body string) int64 {
		got, err := sets.Patch(ctx, "gen", "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
		t.Must(err, "patch %s", body)
		return got.Generation
	}
	t.Expect(patch(`{"metadata":{"annotations":{"a":"b"}}}`)).To(BeEquivalentTo(1))
	t.Expect(patch(`{"spec":{"minReadySeconds":3}}`)).To(BeEquivalentTo(2))
}

func labelSelector(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	for i, tier := range []string{"front", "back", "back"} {
		_, err := maps.Create(ctx,
			configMap(fmt.Sprintf("m%d", i), map[string]string{"tier": tier, "n": fmt.Sprint(i)}),
			metav1.CreateOptions{})
		t.Must(err, "create")
	}
	for selector, want := range map[string][]string{
		"tier=back":             {"m1", "m2"},
		"tier!=back,tier":       {"m0"},
		"tier in (front),n=0":   {"m0"},
		"tier notin (front),n":  {"m1", "m2"},
		"n in (0,2),tier":       {"m0", "m2"},
		"tier=back,!n":          {},
		"n notin (0,1,2),tier,": nil,
	} {
		list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: selector})
		if want == nil {
			t.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "selector %q: want BadRequest, got %v", selector, err)
			continue
		}
		t.Must(err, "list %q", selector)
		t.Expect(namesOf(list.Items)).To(ConsistOf(want), "selector %q", selector)
	}
}

func namesOf(items []corev1.ConfigMap) []string {
	names := []string{}
	for _, item := range items {
		names = append(names, item.Name)
	}
	return names
}

func fieldSelector(ctx context.Context, t *suite.T) {
	maps := t.Client.CoreV1().ConfigMaps(t.Namespace)
	for _, name := range []string{"a", "b"} {
		_, err := maps.Create(ctx, configMap(name, map[string]string{"app": "fields"}), metav1.CreateOptions{})
		t.Must(err, "create")
	}
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=b"})
	t.Must(err, "list by name")
	t.Expect(namesOf(list.Items)).To(ConsistOf("b"))
	list, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name!=b", LabelSelector: "app=fields"})
	t.Must(err, "list by other names")
	t.Expect(namesOf(list.Items)).To(ConsistOf("a"))
	_, err = maps.List(ctx, metav1.ListOptions{FieldSelector: "data.key=value"})
	t.Expect(apierrors.IsBadRequest(err)).To(BeTrue(), "want BadRequest for an unsupported field, got %v", err)
	_, err = t.Client.CoreV1().Pods(t.Namespace).List(ctx,
		metav1.ListOptions{FieldSelector: "spec.nodeName=,status.phase=Pending"})
	t.Must(err, "list pods by node and phase")
}
