package podsecurity

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

type warnings struct{ list []string }

func (w *warnings) AddWarning(_, text string) { w.list = append(w.list, text) }

func namespace(labels map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Labels: labels}}
}

func TestValidate(t *testing.T) {
	plain := corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}
	host := *plain.DeepCopy()
	host.HostNetwork = true
	privileged := *plain.DeepCopy()
	privileged.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	pod := func(spec corev1.PodSpec) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: spec}
	}
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: host}}}
	const enforce, warn = "pod-security.kubernetes.io/enforce", "pod-security.kubernetes.io/warn"
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for _, tt := range []struct {
		name     string
		labels   map[string]string
		resource schema.GroupVersionResource
		obj      runtime.Object
		want     string
		warned   bool
	}{
		{"no label", nil, pods, pod(privileged), "", false},
		{"baseline, plain", map[string]string{enforce: "baseline"}, pods, pod(plain), "", false},
		{"baseline, privileged", map[string]string{enforce: "baseline"}, pods, pod(privileged),
			`violates PodSecurity "baseline:latest": privileged`, false},
		{"baseline, host network", map[string]string{enforce: "baseline"}, pods, pod(host), "host namespaces", false},
		{"restricted, plain", map[string]string{enforce: "restricted"}, pods, pod(plain),
			"allowPrivilegeEscalation != false", false},
		{"warned", map[string]string{warn: "baseline"}, pods, pod(host), "", true},
		{"template is warned of, not refused", map[string]string{enforce: "baseline", warn: "baseline"},
			appsv1.SchemeGroupVersion.WithResource("deployments"), deployment, "", true},
		{"bad label", nil, corev1.SchemeGroupVersion.WithResource("namespaces"),
			namespace(map[string]string{enforce: "strict"}), "must be one of privileged, baseline, restricted", false},
		{"something else", map[string]string{enforce: "restricted"}, corev1.SchemeGroupVersion.WithResource("secrets"),
			&corev1.Secret{}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &objectstest.Store{}
			store.Put(corev1.Resource("namespaces"), namespace(tt.labels))
			p, err := New(store, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := &warnings{}
			a := admission.NewAttributesRecord(tt.obj, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, "ns",
				"p", tt.resource, "", admission.Create, nil, false, &user.DefaultInfo{Name: "jane"})
			err = p.Validate(warning.WithWarningRecorder(context.Background(), w), a, nil)
			if (err == nil) != (tt.want == "") || (err != nil && !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
				t.Errorf("reason %v", apierrors.ReasonForError(err))
			}
			if (len(w.list) > 0) != tt.warned {
				t.Errorf("warnings %q", w.list)
			}
		})
	}
}
