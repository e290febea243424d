package podspec

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestTemplates: what holds for templates and not for pods, and the other way round.
func TestTemplates(t *testing.T) {
	type change = func(s *corev1.PodTemplateSpec)
	for _, c := range []struct {
		name   string
		change change
		want   texts
	}{
		{"minimal", func(*corev1.PodTemplateSpec) {}, nil},
		{"labels", func(s *corev1.PodTemplateSpec) { s.Labels = map[string]string{"a": "b c"} },
			texts{`labels: Invalid value: "b c": a valid label must be…`}},
		{"annotations", func(s *corev1.PodTemplateSpec) { s.Annotations = map[string]string{"a b": ""} },
			texts{`annotations: Invalid value: "a b": name part must consist of…`}},
		{"mirror",
			func(s *corev1.PodTemplateSpec) { s.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} },
			texts{`annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`}},
		{"space around an image", func(s *corev1.PodTemplateSpec) { s.Spec.Containers[0].Image = " i " }, nil},
		{"no image", func(s *corev1.PodTemplateSpec) { s.Spec.Containers[0].Image = "" },
			texts{"spec.containers[0].image: Required value"}},
		{"gates and a node", func(s *corev1.PodTemplateSpec) {
			s.Spec.SchedulingGates, s.Spec.NodeName = []corev1.PodSchedulingGate{{Name: "g"}}, "n"
		}, nil},
		{"token without an account", func(s *corev1.PodTemplateSpec) {
			withVolume(volumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}}}})(&s.Spec)
		}, nil},
		{"ephemeral containers", func(s *corev1.PodTemplateSpec) {
			s.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(
				named("e"))}}
		}, texts{"spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := template(minimal())
			c.change(p)
			before := p.DeepCopy()
			sameTexts(t, errorsBelow("t.", Rules{}.ValidateTemplate(p, nil, field.NewPath("t"))), c.want)
			sameTexts(t, errorsBelow("t.", Rules{}.ValidateTemplate(p, before, field.NewPath("t"))), c.want)
		})
	}
	s := template(minimal())
	s.Labels = map[string]string{"a": "b c"}
	sameTexts(t, errorsBelow("", ValidateTemplateMeta(s, nil, field.NewPath("m"))),
		texts{`m.labels: Invalid value: "b c": a valid…`})
}

// TestKeptSelectors: a workload whose selector has bad values has them in its template, too.
func TestKeptSelectors(t *testing.T) {
	s := template(minimal())
	s.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: "k",
			LabelSelector: badSelector()}}}}
	old := template(minimal())
	for kept, want := range map[bool]int{false: 1, true: 0} {
		rules := Rules{KeptSelectors: kept}
		if errs := rules.ValidateTemplate(s, old, nil); len(errs) != want {
			t.Errorf("kept: %t: %v", kept, errs)
		}
		if errs := rules.ValidateTemplate(s, nil, nil); len(errs) != 1 {
			t.Errorf("new, kept: %t: %v", kept, errs)
		}
	}
	if HadBadSelectors(nil) || HadBadSelectors(old) || !HadBadSelectors(s) {
		t.Error("which templates have bad selectors isn't known")
	}
}

func TestFoundAndEndless(t *testing.T) {
	s := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	for text, want := range map[string]texts{"": nil, "a=b": nil, "a": nil, "a=c": {
		"t.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`"}} {
		selector, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		sameTexts(t, errorsBelow("", ValidateFound(s, selector, field.NewPath("t"))), want)
	}
	seconds := int64(5)
	for _, c := range []struct {
		spec corev1.PodSpec
		want texts
	}{
		{corev1.PodSpec{RestartPolicy: "Always"}, nil},
		{corev1.PodSpec{RestartPolicy: "Never"},
			texts{`s.restartPolicy: Unsupported value: "Never": supported values: "Always"`}},
		{corev1.PodSpec{RestartPolicy: "Always", ActiveDeadlineSeconds: &seconds},
			texts{"s.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported"}},
	} {
		sameTexts(t, errorsBelow("", ValidateEndless(&c.spec, "ReplicaSet", field.NewPath("s"))), c.want)
	}
}

// TestTemplated: the hooks of kinds with a template.
func TestTemplated(t *testing.T) {
	type object = *corev1.ReplicationController
	grouped := func() *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{}}}
	}
	hooks := Templated[object]{Template: func(r object) *corev1.PodTemplateSpec { return r.Spec.Template },
		Path: field.NewPath("t")}
	of := func(s *corev1.PodTemplateSpec) object {
		return &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: s}}
	}
	calls := 0
	create := hooks.Create(api.PodFeatures{}, func(context.Context, object) { calls++ })
	update := hooks.Update(api.PodFeatures{}, func(context.Context, object, object) { calls++ })
	for _, c := range []struct {
		name    string
		old     object
		dropped bool
	}{
		{"create", nil, true}, {"update from none", of(nil), true},
		{"update from another", of(&corev1.PodTemplateSpec{}), true},
		{"update", of(grouped()), false},
	} {
		r := of(grouped())
		if c.old == nil {
			create(t.Context(), r)
		} else {
			update(t.Context(), r, c.old)
		}
		if got := r.Spec.Template.Spec.SchedulingGroup == nil; got != c.dropped {
			t.Errorf("%s: dropped %t", c.name, got)
		}
	}
	create(t.Context(), of(nil))
	update(t.Context(), of(nil), of(grouped()))
	if calls != 6 {
		t.Errorf("the rest was done %d times", calls)
	}
}

// TestTemplatedWarnings: of a new object, and of updates that count.
func TestTemplatedWarnings(t *testing.T) {
	type object = *corev1.ReplicationController
	hooks := Templated[object]{Template: func(r object) *corev1.PodTemplateSpec { return r.Spec.Template },
		Path: field.NewPath("t")}
	of := func(name string, generation int64) object {
		return &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation},
			Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{NodeSelector: map[string]string{"app.kubernetes.io/created-by": "x"}}}}}
	}
	old := texts{"t.spec.nodeSelector[app.kubernetes.io/created-by]: deprecated since v1.9"}
	name := "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS " +
		"label is recommended: […"
	more := func(object) []string { return texts{"more"} }
	never := func(object, object) bool { return false }
	always := func(object, object) bool { return true }
	for _, c := range []struct {
		name    string
		change  func(h *Templated[object])
		is, was object
		want    texts
	}{
		{"new", func(*Templated[object]) {}, of("a.b", 1), nil, old},
		{"new, naming", func(h *Templated[object]) { h.Naming, h.More = true, more }, of("a.b", 1), nil,
			slices.Concat(texts{name, "more"}, old)},
		{"new, with a good name", func(h *Templated[object]) { h.Naming = true }, of("a", 1), nil, old},
		{"update", func(h *Templated[object]) { h.Naming, h.More = true, more }, of("a.b", 2), of("a.b", 1),
			slices.Concat(texts{"more"}, old)},
		{"no update", func(h *Templated[object]) { h.More = more }, of("a", 1), of("a", 1), nil},
		{"of no interest", func(h *Templated[object]) { h.Changed = never }, of("a", 2), of("a", 1), nil},
		{"of interest", func(h *Templated[object]) { h.Changed = always }, of("a", 1), of("a", 1), old},
		{"no template", func(h *Templated[object]) { h.More = more }, &corev1.ReplicationController{}, nil,
			texts{"more"}},
	} {
		h := hooks
		c.change(&h)
		t.Run(c.name, func(t *testing.T) { sameTexts(t, h.Warnings(c.is, c.was), c.want) })
	}
}

// TestReadUnversioned: what is wrong with an annotation is told of the types that upstream reads it into.
func TestReadUnversioned(t *testing.T) {
	for text, want := range map[string]string{
		`[]`: "", `[{"key":"a"}]`: "",
		`x`:           "invalid character 'x' looking for beginning of value",
		`[{"key":1}]`: "json: cannot unmarshal number into Go struct field Toleration.Key of type string",
		`[{"operator":1}]`: "json: cannot unmarshal number into Go struct field Toleration.Operator of type " +
			"core.TolerationOperator",
		`[{"tolerationSeconds":"a"}]`: "json: cannot unmarshal string into Go struct field Toleration.TolerationSeconds of " +
			"type int64",
		`{"key":"a"}`: "json: cannot unmarshal object into Go value of type []core.Toleration",
	} {
		var list []corev1.Toleration
		err := ReadUnversioned(text, &list)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
