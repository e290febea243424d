package podnodeselector

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

const config = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: pool=shared, listed: " +
	"\"pool=shared,disk=ssd\"}\nunknown: {}\n"

func TestSelectors(t *testing.T) {
	store := &objectstest.Store{}
	for name, own := range map[string]map[string]string{"plain": nil, "listed": nil, "own": {annotation: "pool=own"},
		"free": {annotation: ""}} {
		store.Put(corev1.Resource("namespaces"),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: own}})
	}
	p, err := New(store, []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		namespace    string
		has, want    map[string]string
		wantedToFail string
	}{
		{namespace: "plain", want: map[string]string{"pool": "shared"}},
		{namespace: "plain", has: map[string]string{"pool": "mine"},
			wantedToFail: "conflicts with its namespace node label selector"},
		{namespace: "own", has: map[string]string{"disk": "hdd"},
			want: map[string]string{"pool": "own", "disk": "hdd"}},
		{namespace: "free"},
		{namespace: "listed", has: map[string]string{"disk": "ssd"},
			want: map[string]string{"pool": "shared", "disk": "ssd"}},
		{namespace: "listed", has: map[string]string{"disk": "hdd"},
			wantedToFail: "conflict with its namespace whitelist"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeSelector: tt.has}}
		a := admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{}, tt.namespace, "p",
			corev1.Resource("pods").WithVersion("v1"), "", admission.Create, nil, false, nil)
		err := p.Admit(t.Context(), a, nil)
		if err == nil {
			err = p.Validate(t.Context(), a, nil)
		}
		if (err == nil) != (tt.wantedToFail == "") || err != nil && !strings.Contains(err.Error(), tt.wantedToFail) {
			t.Errorf("%s %v: error %v, want %q", tt.namespace, tt.has, err, tt.wantedToFail)
		}
		if err == nil && !maps.Equal(pod.Spec.NodeSelector, tt.want) {
			t.Errorf("%s %v: selector %v, want %v", tt.namespace, tt.has, pod.Spec.NodeSelector, tt.want)
		}
	}
}

func TestConfigurationIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"podNodeSelectorPluginConfig: {a: \"=\"}": "podNodeSelectorPluginConfig[a]",
	} {
		if _, err := New(&objectstest.Store{}, []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}
