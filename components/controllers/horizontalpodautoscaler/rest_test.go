package horizontalpodautoscaler

import (
	"fmt"
	"testing"
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metrics "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	metricsfake "k8s.io/metrics/pkg/client/clientset/versioned/fake"
	customfake "k8s.io/metrics/pkg/client/custom_metrics/fake"
	externalfake "k8s.io/metrics/pkg/client/external_metrics/fake"
	"k8s.io/utils/ptr"
)

func usedBy(name string, containers ...string) metrics.PodMetrics {
	m := metrics.PodMetrics{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
		Labels: map[string]string{"app": "web"}},
		Timestamp: metav1.NewTime(now), Window: metav1.Duration{Duration: 20 * time.Second}}
	for i, used := range containers {
		c := metrics.ContainerMetrics{Name: fmt.Sprint("c", i), Usage: v1.ResourceList{}}
		if used != "" {
			c.Usage[v1.ResourceCPU] = resource.MustParse(used)
		}
		m.Containers = append(m.Containers, c)
	}
	return m
}

func usageClient(items ...metrics.PodMetrics) *metricsfake.Clientset {
	client := &metricsfake.Clientset{}
	client.AddReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if got := action.(clienttesting.ListAction).GetListRestrictions().Labels.String(); got != "app=web" {
			return true, nil, fmt.Errorf("asked for %s", got)
		}
		return true, &metrics.PodMetricsList{Items: items}, nil
	})
	return client
}

func TestResourceMetrics(t *testing.T) {
	web := labels.SelectorFromSet(labels.Set{"app": "web"})
	client := usageClient(usedBy("p0", "100m", "200m"), usedBy("p1", "100m", ""), usedBy("p2"))
	r := &RESTMetrics{PodUsage: client.MetricsV1beta1()}
	got, err := r.Resource(t.Context(), "ns", web, v1.ResourceCPU, "")
	if want := (PodMetric{Timestamp: now, Window: 20 * time.Second, Value: 300}); err != nil || len(got) != 1 ||
		got["p0"] != want {
		t.Errorf("%v, %v", got, err)
	}
	_, err = r.Resource(t.Context(), "ns", web, v1.ResourceCPU, "c1")
	if want := "failed to get container metrics: container c1 not present in metrics for pod ns/p2"; err == nil ||
		err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	r.PodUsage = usageClient(usedBy("p0", "100m", "200m"), usedBy("p1", "100m", "")).MetricsV1beta1()
	if got, err = r.Resource(t.Context(), "ns", web, v1.ResourceCPU, "c1"); err != nil || len(got) != 1 ||
		got["p0"].Value != 200 {
		t.Errorf("%v, %v", got, err)
	}
	r.PodUsage = usageClient().MetricsV1beta1()
	if _, err = r.Resource(t.Context(), "ns", web, v1.ResourceCPU, ""); err == nil ||
		err.Error() != "no metrics returned from resource metrics API" {
		t.Error(err)
	}
}

func TestCustomMetrics(t *testing.T) {
	client := &customfake.FakeCustomMetricsClient{}
	var asked []string
	client.AddReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		get := action.(customfake.GetForAction)
		asked = append(asked, fmt.Sprintf("%s %s/%s %s", action.GetResource().Resource, action.GetNamespace(), get.GetName(),
			get.GetMetricName()))
		return true, &customv1beta2.MetricValueList{Items: []customv1beta2.MetricValue{
			{DescribedObject: v1.ObjectReference{Name: "p0"}, Value: resource.MustParse("1500m"),
				Timestamp: metav1.NewTime(now)},
			{DescribedObject: v1.ObjectReference{Name: "p1"}, Value: resource.MustParse("2"), WindowSeconds: ptr.To[int64](5)},
		}[:map[bool]int{true: 2, false: 1}[get.GetName() == "*"]]}, nil
	})
	r := &RESTMetrics{Custom: client}
	got, err := r.Pods("ns", labels.Everything(), labels.Everything(), "qps")
	if err != nil || got["p0"] != (PodMetric{now, time.Minute, 1500}) || got["p1"].Window != 5*time.Second ||
		got["p1"].Value != 2000 {
		t.Errorf("%v, %v", got, err)
	}
	for _, object := range []autoscaling.CrossVersionObjectReference{{APIVersion: "v1", Kind: "Service", Name: "web"},
		{APIVersion: "v1", Kind: "Namespace", Name: "elsewhere"}} {
		if got, err := r.Object("ns", object, labels.Everything(), "qps"); err != nil || got != 1500 {
			t.Errorf("%v: %v, %v", object, got, err)
		}
	}
	if want := "[pods ns/* qps services ns/web qps namespaces /ns qps]"; fmt.Sprint(asked) != want {
		t.Errorf("%v, want %s", asked, want)
	}
}

func TestExternalMetrics(t *testing.T) {
	client := &externalfake.FakeExternalMetricsClient{}
	items := []externalv1beta1.ExternalMetricValue{{Value: resource.MustParse("3")}, {Value: resource.MustParse("500m")}}
	client.AddReactor("list", "queue", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &externalv1beta1.ExternalMetricValueList{Items: items}, nil
	})
	r := &RESTMetrics{Outside: client}
	if got, err := r.External("ns", labels.Everything(), "queue"); err != nil || fmt.Sprint(got) != "[3000 500]" {
		t.Errorf("%v, %v", got, err)
	}
	items = nil
	if _, err := r.External("ns", labels.Everything(), "queue"); err == nil ||
		err.Error() != "no metrics returned from external metrics API" {
		t.Error(err)
	}
}
