package statefulset

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	apps "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// TestSetMetrics: two of four pods may be out of service, and three are.
func TestSetMetrics(t *testing.T) {
	sets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := sets.Add(&apps.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set"},
		Spec: apps.StatefulSetSpec{Replicas: ptr.To(int32(4)), UpdateStrategy: apps.StatefulSetUpdateStrategy{
			RollingUpdate: &apps.RollingUpdateStatefulSetStrategy{MaxUnavailable: ptr.To(intstr.FromString("50%"))}}},
		Status: apps.StatefulSetStatus{AvailableReplicas: 1}}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(setMetrics{appslisters.NewStatefulSetLister(sets)})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		want := map[string]float64{"statefulset_controller_statefulset_max_unavailable": 2,
			"statefulset_controller_statefulset_unavailable_replicas": 3}[family.GetName()]
		if got := family.Metric[0].GetGauge().GetValue(); got != want {
			t.Errorf("%s is %v, want %v", family.GetName(), got, want)
		}
	}
	if len(families) != 2 {
		t.Errorf("%d metrics", len(families))
	}
}
