package registry

import (
	"reflect"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

var widgetGroup = schema.GroupVersion{Group: "example.com", Version: "v1"}

// widget is a custom resource with the versions given, the first of which is stored.
func widget(versions ...string) *api.Kind {
	retype := func(obj api.Object, to schema.GroupVersion) (api.Object, error) {
		out := obj.DeepCopyObject().(*unstructured.Unstructured)
		out.SetAPIVersion(to.String())
		return out, nil
	}
	kind := &api.Kind{
		Name: "Widget", Resource: "widgets", Singular: "widget", Namespaced: true, Prefix: "example.com/widgets",
		Hub:    schema.GroupVersion{Group: "example.com", Version: versions[0]},
		Custom: &api.Custom{ListKind: "WidgetList", Ending: func() bool { return false }, Convert: retype},
	}
	for _, name := range versions {
		gv := schema.GroupVersion{Group: "example.com", Version: name}
		kind.Versions = append(kind.Versions, api.Version{
			GroupVersion: gv, Unserved: strings.HasSuffix(name, "alpha1"),
			New:     func() api.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
			FromHub: func(obj api.Object) (api.Object, error) { return retype(obj, gv) },
			Coerce:  func(api.Object, bool) ([]string, error) { return nil, nil },
		})
	}
	return kind
}

// interfaces are what admission is given of a fixture's objects.
func interfaces(f *fixture) admission.ObjectInterfaces { return f.objects }

// TestNewAndDefault: objects are made by their kind and version, and get the defaults of it.
func TestNewAndDefault(t *testing.T) {
	f := newFixture(t, setup{}, "pods", "horizontalpodautoscalers")
	f.Install([]Resource{{Kind: widget("v1")}})
	for gvk, want := range map[schema.GroupVersionKind]runtime.Object{
		corev1.SchemeGroupVersion.WithKind("Pod"):                            &corev1.Pod{},
		autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): &autoscalingv1.HorizontalPodAutoscaler{},
		autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): &autoscalingv2.HorizontalPodAutoscaler{},
		widgetGroup.WithKind("Widget"):                                       &unstructured.Unstructured{},
		autoscalingv1.SchemeGroupVersion.WithKind("Scale"):                   &autoscalingv1.Scale{}, // of no row
	} {
		got, err := interfaces(f).GetObjectCreater().New(gvk)
		if err != nil || reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("%s: made a %T, %v", gvk, got, err)
		}
	}
	_, err := interfaces(f).GetObjectCreater().New(widgetGroup.WithKind("Gadget"))
	if !runtime.IsNotRegisteredError(err) {
		t.Errorf("of an unknown kind: %v", err)
	}
	defaulter := interfaces(f).GetObjectDefaulter()
	p := pod("p", "")
	defaulter.Default(p)
	if p.Spec.RestartPolicy != corev1.RestartPolicyAlways || p.Spec.Containers[0].ImagePullPolicy == "" {
		t.Errorf("defaulted to %+v", p.Spec)
	}
	defaulter.Default(&autoscalingv1.Scale{}) // which has none
}

// TestConvert: an object becomes one of another version of its kind, and stays what it was itself.
func TestConvert(t *testing.T) {
	f := newFixture(t, setup{}, "pods", "horizontalpodautoscalers", "events")
	f.Install([]Resource{{Kind: widget("v1", "v2")}})
	c := interfaces(f).GetObjectConvertor()
	two := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("h"),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			MaxReplicas: 3, Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
					Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(70))}}}},
		}}
	before := two.DeepCopy()
	one := &autoscalingv1.HorizontalPodAutoscaler{}
	if err := c.Convert(two, one, nil); err != nil || one.Spec.TargetCPUUtilizationPercentage == nil ||
		*one.Spec.TargetCPUUtilizationPercentage != 70 || one.Name != "h" {
		t.Errorf("converted to %+v, %v", one, err)
	}
	back := &autoscalingv2.HorizontalPodAutoscaler{}
	if err := c.Convert(one, back, nil); err != nil || !reflect.DeepEqual(back.Spec.Metrics, two.Spec.Metrics) ||
		!reflect.DeepEqual(before, two) {
		t.Errorf("converted back to %+v, %v", back, err)
	}
	core := &corev1.Event{ObjectMeta: meta("e"), Message: "m"}
	modern := &eventsv1.Event{}
	if err := c.Convert(core, modern, nil); err != nil || modern.Note != "m" {
		t.Errorf("converted to %+v, %v", modern, err)
	}
	free := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "p"}, "spec": map[string]any{"nodeName": "n"}}}
	typed := &corev1.Pod{}
	if err := c.Convert(free, typed, nil); err != nil || typed.Spec.NodeName != "n" {
		t.Errorf("converted to %+v, %v", typed, err)
	}
	if err := c.Convert(two, &corev1.Pod{}, nil); err == nil {
		t.Error("an autoscaler becomes a pod")
	}
	if err := c.Convert(one, &autoscalingv1.Scale{}, nil); err == nil {
		t.Error("an autoscaler becomes a scale")
	}
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget",
		"spec": map[string]any{"a": "b"}}}
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"})
	if err := c.Convert(custom, out, nil); err != nil || out.GetAPIVersion() != "example.com/v2" ||
		out.Object["spec"] == nil ||
		custom.GetAPIVersion() != "example.com/v1" {
		t.Errorf("converted to %v, %v", out, err)
	}
	custom.SetAPIVersion("example.com/v9")
	f.fails(c.Convert(custom, out, nil), "request to convert CR from an invalid group/version: example.com/v9")
}

// TestConvertToVersion: what has no Go type is converted, and what has one stays of its version.
func TestConvertToVersion(t *testing.T) {
	f := newFixture(t, setup{}, "horizontalpodautoscalers")
	f.Install([]Resource{{Kind: widget("v1", "v2")}})
	c := interfaces(f).GetObjectConvertor()
	custom := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	got, err := c.ConvertToVersion(custom, schema.GroupVersion{Group: "example.com", Version: "v2"})
	if err != nil || got.GetObjectKind().GroupVersionKind().Version != "v2" {
		t.Errorf("converted to %v, %v", got, err)
	}
	two := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta("h")}
	got, err = c.ConvertToVersion(two, autoscalingv2.SchemeGroupVersion)
	if err != nil || got.(*autoscalingv2.HorizontalPodAutoscaler).Name != "h" ||
		got.GetObjectKind().GroupVersionKind().Version != "v2" {
		t.Errorf("converted to %v, %v", got, err)
	}
	_, err = c.ConvertToVersion(two, autoscalingv1.SchemeGroupVersion)
	f.fails(err, "converting (v2.HorizontalPodAutoscaler) to (v1.HorizontalPodAutoscaler): unknown conversion")
	_, err = c.ConvertToVersion(two, corev1.SchemeGroupVersion)
	if !runtime.IsNotRegisteredError(err) {
		t.Errorf("to another group: %v", err)
	}
}

// TestEquivalentResources: a webhook for one version of a resource is asked of all, where the subresource is there,
// too.
func TestEquivalentResources(t *testing.T) {
	f := newFixture(t, setup{}, "horizontalpodautoscalers", "events", "pods")
	f.Install([]Resource{{Kind: widget("v1", "v2", "v1alpha1")}})
	m := interfaces(f).GetEquivalentResourceMapper()
	for resource, want := range map[schema.GroupVersionResource]string{
		autoscalingv1.SchemeGroupVersion.WithResource("horizontalpodautoscalers"): "autoscaling/v2 autoscaling/v1",
		corev1.SchemeGroupVersion.WithResource("events"):                          "v1 events.k8s.io/v1",
		corev1.SchemeGroupVersion.WithResource("pods"):                            "v1",
		widgetGroup.WithResource("widgets"):                                       "example.com/v1 example.com/v2",
		widgetGroup.WithResource("gadgets"):                                       "",
	} {
		var got []string
		for _, same := range m.EquivalentResourcesFor(resource, "") {
			if same.Resource != resource.Resource {
				t.Errorf("%s: %s", resource, same)
			}
			got = append(got, same.GroupVersion().String())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", resource, got, want)
		}
	}
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	for sub, want := range map[string]string{"": "Pod", "status": "Pod", "eviction": "Eviction", "none": ""} {
		if got := m.KindFor(pods, sub).Kind; got != want {
			t.Errorf("the kind of pods/%s is %q", sub, got)
		}
	}
	if got := m.EquivalentResourcesFor(pods, "none"); got != nil {
		t.Errorf("of no subresource: %v", got)
	}
}

// TestInstall: custom resources come and go; what stays keeps its endpoint, and versions that aren't served have one
// that requests don't find.
func TestInstall(t *testing.T) {
	f := newFixture(t, setup{}, "pods")
	kept := Resource{Kind: widget("v1", "v1alpha1")}
	local := f.Local()
	key := func(version string) Key {
		return Key{GroupVersion: schema.GroupVersion{Group: "example.com", Version: version}, Resource: "widgets"}
	}
	first := f.Install([]Resource{kept})
	if len(first) != 2 || first[key("v1")] == nil || first[key("v1alpha1")] == nil ||
		local.find(widgets) != first[key("v1")] {
		t.Errorf("installed %v", first)
	}
	again := f.Install([]Resource{kept})
	if again[key("v1")] != first[key("v1")] {
		t.Error("what stays has another endpoint")
	}
	resource := widgetGroup.WithResource("widgets")
	if f.endpoint(resource, "") != first[key("v1")] {
		t.Error("the endpoint isn't found")
	}
	resource.Version = "v1alpha1"
	if f.endpoint(resource, "") != nil {
		t.Error("the endpoint to a version that isn't served is found")
	}
	changed := f.Install([]Resource{{Kind: widget("v1")}})
	if changed[key("v1")] == first[key("v1")] || changed[key("v1alpha1")] != nil {
		t.Error("what was replaced has its old endpoint")
	}
	f.Install(nil)
	if local.find(widgets) != nil || f.endpoint(widgetGroup.WithResource("widgets"), "") != nil || local.find(
		corev1.Resource("pods")) == nil {
		t.Error("what was taken away is found, or what stays is not")
	}
}

// TestCustomWrites: nothing is created while the definition goes, nor of no version.
func TestCustomWrites(t *testing.T) {
	f := newFixture(t, setup{}, "configmaps")
	kind := widget("v1")
	ending := true
	kind.Custom.Ending = func() bool { return ending }
	ep := f.Install([]Resource{{Kind: kind, Cache: f.at("configmaps").Cache}})[Key{widgetGroup, "widgets", ""}]
	defer f.unwritten()()
	create := func() error {
		obj := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x"}}}
		_, err := ep.Writer(&Request{Verb: "create", Namespace: "a"}).insert(f.ctx(), obj,
			creation{options: &metav1.CreateOptions{}})
		return err
	}
	f.fails(create(), `widgets.example.com "x" is forbidden: create not allowed while custom resource definition is `+
		`terminating`)
	ending = false
	f.fails(create(), "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'")
}
