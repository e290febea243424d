package apiserver_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applyautoscalingv1 "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
)

func web(replicas int32, image string) *applyappsv1.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	return applyappsv1.Deployment("web", "default").WithSpec(applyappsv1.DeploymentSpec().
		WithReplicas(replicas).
		WithSelector(applymetav1.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(applycorev1.PodTemplateSpec().WithLabels(labels).WithSpec(applycorev1.PodSpec().
			WithContainers(applycorev1.Container().WithName("c").WithImage(image)))))
}

func TestApply(t *testing.T) {
	deployments := start(t).client(t).AppsV1().Deployments("default")
	mine := metav1.ApplyOptions{FieldManager: "mine"}
	made, err := deployments.Apply(t.Context(), web(2, "one"), mine)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := deployments.Apply(t.Context(), web(2, "one"), mine); err != nil ||
		again.ResourceVersion != made.ResourceVersion {
		t.Errorf("an apply without change wrote %s over %s: %v", again.ResourceVersion, made.ResourceVersion, err)
	}
	_, err = deployments.Apply(t.Context(), web(3, "two"), metav1.ApplyOptions{FieldManager: "other"})
	const want = `Apply failed with 2 conflicts: conflicts with "mine":
- .spec.replicas
- .spec.template.spec.containers[name="c"].image`
	if !apierrors.IsConflict(err) || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	forced, err := deployments.Apply(t.Context(), web(3, "two"),
		metav1.ApplyOptions{FieldManager: "other", Force: true})
	if err != nil || *forced.Spec.Replicas != 3 || forced.Generation != made.Generation+1 {
		t.Fatalf("forced: %+v, %v", forced, err)
	}
	if _, err := deployments.Apply(t.Context(), web(1, "x"), metav1.ApplyOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("without a manager: %v", err)
	}
	unknown := []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"nothing":1}}`)
	if _, err := deployments.Patch(t.Context(), "web", types.ApplyPatchType, unknown,
		metav1.PatchOptions{FieldManager: "x"}); err == nil {
		t.Error("an unknown field was applied")
	}
}

func TestManagersOfWrites(t *testing.T) {
	client := start(t).client(t)
	maps := client.CoreV1().ConfigMaps("default")
	cm, err := maps.Create(t.Context(), configMap("m", map[string]string{"a": "1"}),
		metav1.CreateOptions{FieldManager: "creator"})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data["b"] = "2"
	if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{FieldManager: "updater"}); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"data":{"c":"3"}}`)
	if cm, err = maps.Patch(t.Context(), "m", types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: "patcher"}); err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, m := range cm.ManagedFields {
		owners[m.Manager] = m.FieldsV1.GetRawString()
		if m.Operation != metav1.ManagedFieldsOperationUpdate || m.Time == nil {
			t.Errorf("%+v", m)
		}
	}
	for manager, want := range map[string]string{
		"creator": `{"f:data":{".":{},"f:a":{}}}`, "updater": `{"f:data":{"f:b":{}}}`,
		"patcher": `{"f:data":{"f:c":{}}}`,
	} {
		if owners[manager] != want {
			t.Errorf("%s has %s, want %s", manager, owners[manager], want)
		}
	}
}

func TestStatusIsItsOwnDoor(t *testing.T) {
	deployments := start(t).client(t).AppsV1().Deployments("default")
	d, err := deployments.Apply(t.Context(), web(2, "one"), metav1.ApplyOptions{FieldManager: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	d.Status.Replicas, d.Spec.Replicas = 2, ptr.To[int32](9)
	d, err = deployments.UpdateStatus(t.Context(), d, metav1.UpdateOptions{})
	if err != nil || d.Status.Replicas != 2 || *d.Spec.Replicas != 2 {
		t.Fatalf("through status: %+v, %v", d, err)
	}
	d.Status.Replicas = 5
	if d, err = deployments.Update(t.Context(), d, metav1.UpdateOptions{}); err != nil || d.Status.Replicas != 2 {
		t.Errorf("through the object: %+v, %v", d.Status, err)
	}
}

func TestScale(t *testing.T) {
	client := start(t).client(t)
	deployments := client.AppsV1().Deployments("default")
	if _, err := deployments.Apply(t.Context(), web(2, "one"), metav1.ApplyOptions{FieldManager: "mine"}); err != nil {
		t.Fatal(err)
	}
	scale, err := deployments.GetScale(t.Context(), "web", metav1.GetOptions{})
	if err != nil || scale.Spec.Replicas != 2 || scale.Status.Selector != "app=web" || scale.UID == "" {
		t.Fatalf("got %+v, %v", scale, err)
	}
	scale.Spec.Replicas = 4
	if scale, err = deployments.UpdateScale(t.Context(), "web", scale, metav1.UpdateOptions{}); err != nil ||
		scale.Spec.Replicas != 4 {
		t.Fatalf("update: %+v, %v", scale, err)
	}
	stale := scale.DeepCopy()
	stale.ResourceVersion = "1"
	if _, err := deployments.UpdateScale(t.Context(), "web", stale,
		metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an old version: %v", err)
	}
	negative := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: autoscalingv1.ScaleSpec{Replicas: -1}}
	if _, err := deployments.UpdateScale(t.Context(), "web", negative,
		metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("negative: %v", err)
	}
	patch := []byte(`{"spec":{"replicas":5}}`)
	if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{},
		"scale"); err != nil {
		t.Errorf("patch: %v", err)
	}
	apply := applyautoscalingv1.Scale().WithName("web").WithSpec(applyautoscalingv1.ScaleSpec().WithReplicas(6))
	if _, err := deployments.ApplyScale(t.Context(), "web", apply,
		metav1.ApplyOptions{FieldManager: "scaler", Force: true}); err != nil {
		t.Errorf("apply: %v", err)
	}
	d, err := deployments.Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || *d.Spec.Replicas != 6 {
		t.Fatalf("got %v, %v", d.Spec.Replicas, err)
	}
	if owner := managerOf(d, `"f:replicas"`); owner != "scaler" {
		t.Errorf("the replicas belong to %q", owner)
	}
}

func managerOf(d *appsv1.Deployment, field string) string {
	for _, m := range d.ManagedFields {
		if m.Subresource == "scale" {
			return m.Manager
		}
	}
	return "nobody has " + field
}

func TestLeaseIsCreatedByUpdate(t *testing.T) {
	client := start(t).client(t)
	raw := []byte(`{"metadata":{"name":"l","namespace":"default"},"spec":{"holderIdentity":"me"}}`)
	result := client.CoordinationV1().RESTClient().Put().AbsPath(
		"/apis/coordination.k8s.io/v1/namespaces/default/leases/l").
		SetHeader("Content-Type", "application/json").Body(raw).Do(t.Context())
	var code int
	if err := result.StatusCode(&code).Error(); err != nil || code != 201 {
		t.Errorf("got %d, %v", code, err)
	}
	_, err := client.CoreV1().Pods("default").Update(t.Context(),
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "none"}}, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a pod isn't: %v", err)
	}
}

// TestStatusCreates: of some kinds a write of the status of an object that isn't there makes one, as upstream's do.
func TestStatusCreates(t *testing.T) {
	client := start(t).client(t)
	status := func(verb, path, media, body string) int {
		var code int
		client.CoreV1().RESTClient().Verb(verb).AbsPath(path).Param("fieldManager", "m").SetHeader("Content-Type",
			media).Body([]byte(body)).
			Do(t.Context()).StatusCode(&code)
		return code
	}
	const (
		service  = `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"clusterIP":"None","clusterIPs":["None"],"ports":[{"port":80}]}}`
		policy   = `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{"validations":[{"expression":"true"}],"matchConstraints":{"resourceRules":[{"apiGroups":["x"],"apiVersions":["v1"],"operations":["*"],"resources":["y"]}]}}}`
		policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/p/status"
	)
	for _, tc := range []struct {
		verb, path, media, body string
		want                    int
	}{
		{"PUT", "/api/v1/namespaces/default/services/s/status", "application/json", service, 201},
		{"PUT", policies, "application/json", policy, 404},
		{"PATCH", policies, "application/merge-patch+json", policy, 404},
		{"PATCH", policies, "application/apply-patch+yaml", policy, 201},
		{"PATCH", "/api/v1/nodes/n/status", "application/apply-patch+yaml",
			`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`, 404},
	} {
		if got := status(tc.verb, tc.path, tc.media, tc.body); got != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.verb, tc.path, got, tc.want)
		}
	}
}

// TestMalformedApply: what can't be read is told of only where there is something that it could be applied to.
func TestMalformedApply(t *testing.T) {
	f := start(t)
	for path, code := range map[string]int{
		"/api/v1/namespaces/default/configmaps/none":               400,
		"/apis/apps/v1/namespaces/default/deployments/none/status": 404,
		"/apis/apps/v1/namespaces/default/deployments/none/scale":  404, "/api/v1/namespaces/default/status": 400,
	} {
		resp, text := f.with(t, "PATCH", path+"?fieldManager=m", "a: [", "Content-Type", "application/apply-patch+yaml")
		if resp.StatusCode != code {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}
