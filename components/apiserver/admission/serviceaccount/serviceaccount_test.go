package serviceaccount

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

func fromSecret(name string) []corev1.EnvVar {
	return []corev1.EnvVar{{Name: "E",
		ValueFrom: &corev1.EnvVarSource{
			SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}}
}

func envFrom(name string) []corev1.EnvFromSource {
	return []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
}

func volumes(sources ...corev1.VolumeSource) (out []corev1.Volume) {
	for _, s := range sources {
		out = append(out, corev1.Volume{Name: "v", VolumeSource: s})
	}
	return out
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"},
		Spec: corev1.PodSpec{ServiceAccountName: "strict", Containers: []corev1.Container{{Name: "c"}}}}
	change(p)
	return p
}

// ask passes a pod through one half of the plug-in, where its account has an annotation.
func ask(enforce string, o admission.Operation, sub string, pod *corev1.Pod, validate bool) error {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("serviceaccounts"), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "strict",
			Annotations: map[string]string{EnforceMountableSecretsAnnotation: enforce}},
		Secrets:          []corev1.ObjectReference{{Name: "listed"}},
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	})
	p := New(store, clock.RealClock{})
	var old *corev1.Pod
	if o == admission.Update {
		old = pod
	}
	a := admission.NewAttributesRecord(pod, old, schema.GroupVersionKind{}, "ns", "p",
		corev1.SchemeGroupVersion.WithResource("pods"), sub, o, nil, false, nil)
	if validate {
		return p.Validate(context.Background(), a, nil)
	}
	return p.Admit(context.Background(), a, nil)
}

// TestMountableSecrets: what is refused is refused by either half.
func TestMountableSecrets(t *testing.T) {
	const because = " is not allowed because service account strict does not reference that "
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = volumes(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}})
		}, `volume with secret.secretName="x"` + because + "secret"},
		"listed volume": {func(p *corev1.Pod) {
			p.Spec.Volumes = volumes(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "listed"}})
		}, ""},
		"other volumes": {func(p *corev1.Pod) {
			p.Spec.Volumes = volumes(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "x"}},
				corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{
						{Secret: &corev1.SecretProjection{
							LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}}})
		}, ""},
		"init container": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Env: fromSecret("x")}}
		}, `init container i with envVar E referencing secret.secretName="x"` + because + "secret"},
		"container": {func(p *corev1.Pod) { p.Spec.Containers[0].EnvFrom = envFrom("x") },
			`container c with envFrom referencing secret.secretName="x"` + because + "secret"},
		"pull": {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "listed"}} },
			`imagePullSecrets[0].name="listed"` + because + "imagePullSecret"},
		"listed": {func(p *corev1.Pod) { p.Spec.Containers[0].Env = fromSecret("listed") }, ""},
	} {
		want := c.want
		if want != "" {
			want = `pods "p" is forbidden: ` + want
		}
		for _, validate := range []bool{false, true} {
			if got := text(ask("T", admission.Create, "", pod(c.change), validate)); got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
		}
	}
	for annotation, enforced := range map[string]bool{"true": true, "1": true, "True": true, "false": false,
		"yes": false, "": false} {
		err := ask(annotation, admission.Create, "",
			pod(func(p *corev1.Pod) { p.Spec.Containers[0].Env = fromSecret("x") }), true)
		if apierrors.IsForbidden(err) != enforced {
			t.Errorf("annotation %q: %v", annotation, err)
		}
	}
}

// TestEphemeralContainers: an update is checked by what it may change, of any pod.
func TestEphemeralContainers(t *testing.T) {
	later := func(env []corev1.EnvVar) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = fromSecret("let in before")
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Env: env}}}
		}
	}
	mirror := pod(func(p *corev1.Pod) {
		p.Spec.ServiceAccountName, p.Annotations = "", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	})
	for want, p := range map[string]*corev1.Pod{
		"": pod(later(fromSecret("listed"))),
		`ephemeral container e with envVar E referencing secret.secretName="x" is not allowed because service account strict does not reference that secret`: pod(later(fromSecret("x"))),
		`pods "p" is forbidden: no service account specified for pod ns/p`:                                                                                   mirror,
	} {
		if got := text(ask("true", admission.Update, "ephemeralcontainers", p, true)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if err := ask("true", admission.Update, "", pod(later(fromSecret("x"))), true); err != nil {
		t.Errorf("any other update: %v", err)
	}
}

func TestMirrorPods(t *testing.T) {
	token := corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}
	secret := corev1.VolumeProjection{
		Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}
	for want, change := range map[string]func(*corev1.Pod){
		"": func(*corev1.Pod) {},
		"a mirror pod may not reference service accounts": func(p *corev1.Pod) { p.Spec.ServiceAccountName = "strict" },
		"a mirror pod may not reference secrets": func(p *corev1.Pod) {
			p.Spec.Volumes = volumes(
				corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{token, secret}}})
		},
		"a mirror pod may not use ServiceAccountToken volume projections": func(p *corev1.Pod) {
			p.Spec.Volumes = volumes(
				corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{token}}})
		},
	} {
		p := pod(func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Annotations = "", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			change(p)
		})
		if want != "" {
			want = `pods "p" is forbidden: ` + want
		}
		for _, validate := range []bool{false, true} {
			if got := text(ask("", admission.Create, "", p.DeepCopy(), validate)); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
