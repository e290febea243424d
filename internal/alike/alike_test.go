package alike

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

func pod(i int) *corev1.Pod { return podOf(0, i) }

// podOf is a pod of one of many templates, which differ in all that pods of one share.
func podOf(template, i int) *corev1.Pod {
	mode, grace, own := int32(template), int64(template), fmt.Sprint("of-", template)
	token := fmt.Sprintf("kube-api-access-%05d", i)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), Namespace: fmt.Sprint("def", "ault"),
			Labels: map[string]string{"app": own, "tier": "y"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				{Manager: fmt.Sprint("te", "st"), FieldsV1: metav1.NewFieldsV1(`{"f:a":{"f:` + own + `":{}}}`)}},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Volumes: []corev1.Volume{
				{Name: token, VolumeSource: corev1.VolumeSource{
					Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode}}}},
			Containers: []corev1.Container{{
				Name: fmt.Sprint("ma", "in"), Image: "image", Env: []corev1.EnvVar{{Name: "MODE", Value: own}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					"cpu":    *resource.NewMilliQuantity(int64(template), resource.DecimalSI),
					"memory": resource.MustParse("16Mi")}},
				VolumeMounts: []corev1.VolumeMount{{Name: token, MountPath: "/token"}},
			}},
			Tolerations: []corev1.Toleration{{Key: "a", TolerationSeconds: &grace}, {Key: "b"}},
		},
	}
}

// TestShared: what was met twice is one from then on, however deep it lies; what tells objects apart stays theirs. Two
// parts that have one place take it from each other, and which do is another matter in each run: so it is of most
// templates that all is shared.
func TestShared(t *testing.T) {
	const templates = 20
	parts, shared := map[string]func(*corev1.Pod) any{
		"labels":       func(p *corev1.Pod) any { return p.Labels },
		"field set":    func(p *corev1.Pod) any { return p.ManagedFields[0].FieldsV1 },
		"number":       func(p *corev1.Pod) any { return p.Spec.TerminationGracePeriodSeconds },
		"volume":       func(p *corev1.Pod) any { return p.Spec.Volumes[0].Projected },
		"environment":  func(p *corev1.Pod) any { return p.Spec.Containers[0].Env },
		"requests":     func(p *corev1.Pod) any { return p.Spec.Containers[0].Resources.Requests },
		"tolerations":  func(p *corev1.Pod) any { return p.Spec.Tolerations },
		"one of lists": func(p *corev1.Pod) any { return p.ManagedFields },
	}, map[string]int{}
	for template := range templates {
		var p Pool
		pods := make([]*corev1.Pod, 5)
		for i := range pods {
			pods[i] = podOf(template, i)
			p.Share(pods[i])
			if want := podOf(template, i); !reflect.DeepEqual(pods[i], want) {
				t.Fatalf("got %v, want %v", pods[i], want)
			}
		}
		a, b := pods[3], pods[4]
		for name, at := range parts {
			if reflect.ValueOf(at(a)).Pointer() == reflect.ValueOf(at(b)).Pointer() {
				shared[name]++
			}
		}
		if &a.Spec.Containers[0] == &b.Spec.Containers[0] {
			t.Error("containers that differ are shared")
		}
	}
	for name := range parts {
		if shared[name] <= templates/2 {
			t.Errorf("%s is shared by %d of %d templates", name, shared[name], templates)
		}
	}
}

// TestOthersKeepTheirs: what an object has in common with others before it is shared isn't written to.
func TestOthersKeepTheirs(t *testing.T) {
	var p Pool
	for i := range 3 {
		p.Share(pod(i))
	}
	mine := pod(9)
	others := *mine
	var wg sync.WaitGroup
	wg.Go(func() { p.Share(mine) }) // which the race detector watches
	want := pod(9)
	if !reflect.DeepEqual(&others, want) {
		t.Error("what others have was changed")
	}
	wg.Wait()
	if !reflect.DeepEqual(&others, want) || !reflect.DeepEqual(mine, want) {
		t.Error("it was changed")
	}
	if mine.Spec.Containers[0].Env[0] != others.Spec.Containers[0].Env[0] ||
		&mine.Spec.Containers[0] == &others.Spec.Containers[0] {
		t.Error("containers were changed in place")
	}
}

// TestNothingChanges: objects of any content are afterwards what they were.
func TestNothingChanges(t *testing.T) {
	var p Pool
	random := randfill.NewWithSeed(1).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(3000)), resource.DecimalSI)
		},
		func(r *runtime.RawExtension, c randfill.Continue) { r.Raw = []byte(c.String(3)) },
		func(j *apiextensionsv1.JSON, c randfill.Continue) { j.Raw = []byte(c.String(3)) },
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", c.Intn(3)) },
	)
	for range 200 {
		for _, obj := range []runtime.Object{&corev1.Pod{}, &corev1.Node{}, &corev1.Secret{},
			&apiextensionsv1.CustomResourceDefinition{}} {
			random.Fill(obj)
			want := obj.DeepCopyObject()
			p.Share(obj)
			if !reflect.DeepEqual(obj, want) {
				t.Fatalf("got %v, want %v", obj, want)
			}
		}
	}
}

// TestBounds: large parts are not kept, and what is kept is forgotten when it is too much.
func TestBounds(t *testing.T) {
	var p Pool
	large := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{Data: map[string]string{"a": string(make([]byte, mostBytes))}}
	}
	for range 4 {
		p.Share(large())
	}
	if got := p.size.Load(); got != 0 {
		t.Errorf("%d bytes of large parts are kept", got)
	}
	content := make([]byte, mostBytes/2)
	random := rand.NewChaCha8([32]byte{})
	for range 4 * mostKept / len(content) {
		_, _ = random.Read(content)
		for range 2 {
			p.Share(&corev1.ConfigMap{Data: map[string]string{"a": string(content)}})
		}
	}
	kept := 0
	for i := range p.kept {
		if p.kept[i].Load() != nil {
			kept++
		}
	}
	if size := p.size.Load(); size == 0 || size > mostKept || kept == 0 || kept > mostKept/len(content) {
		t.Errorf("%d parts of %d bytes are kept", kept, size)
	}
}

func BenchmarkShare(b *testing.B) {
	var p Pool
	pods := make([]corev1.Pod, 1000)
	for i := range pods {
		pods[i] = *pod(i)
		copied := pods[i]
		p.Share(&copied)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		copied := pods[i%len(pods)]
		p.Share(&copied)
	}
}

// TestSame: what differs in anything is not the same, and has another sum.
func TestSame(t *testing.T) {
	var p Pool
	random := randfill.NewWithSeed(2).NilChance(0.3).NumElements(0, 2).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(int64(c.Intn(9)), resource.DecimalSI)
		},
		func(s *string, c randfill.Continue) { *s = fmt.Sprint("s", c.Intn(9)) },
	)
	f := p.forms.of(reflect.TypeFor[corev1.Container]())
	told := 0
	for range 300 {
		var a corev1.Container
		random.Fill(&a)
		b := *a.DeepCopy()
		x, y := unsafe.Pointer(&a), unsafe.Pointer(&b)
		if !f.same(x, y) || sumOf(f, x) != sumOf(f, y) {
			t.Fatalf("%v is not the same as its copy", a)
		}
		random.Fill(&b.Env)
		random.Fill(&b.LivenessProbe)
		random.Fill(&b.Resources)
		same := reflect.DeepEqual(a, b)
		if f.same(x, y) != same {
			t.Fatalf("same is %t of %v and %v", !same, a, b)
		}
		if one, other := sumOf(f, x), sumOf(f, y); one.bytes <= mostBytes && other.bytes <= mostBytes {
			told++
			if (one.hash == other.hash) != same {
				t.Fatalf("sums of %v and %v", a, b)
			}
		}
	}
	if told < 100 {
		t.Errorf("only %d sums were compared", told)
	}
}

func sumOf(f *form, at unsafe.Pointer) (s sum) {
	f.add(&s, at)
	return s
}
