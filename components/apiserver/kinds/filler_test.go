package kinds_test

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta1 "k8s.io/api/resource/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"
)

// filler makes objects up: of any content, where every content has a meaning.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NilChance(0.3).NumElements(1, 2).MaxDepth(12).Funcs(
		fillMetric, fillMetricStatus,
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(10_000), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(c.Int31n(100)) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(c.Int63n(1e9), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(metav1.Unix(c.Int63n(1e9), 0).Time)
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawString(`{"f:a":{}}`) },
		func(s *autoscalingv1.HorizontalPodAutoscalerSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.TargetCPUUtilizationPercentage == nil { // the hub's default
				s.TargetCPUUtilizationPercentage = someNumber(c)
			}
		},
		func(s *resourcev1.ResourceSliceSpec, c randfill.Continue) {
			c.FillNoCustom(s)
			if s.NodeName != nil && *s.NodeName == "" { // v1beta1 doesn't tell that from none
				s.NodeName = nil
			}
			if s.AllNodes != nil && !*s.AllNodes {
				s.AllNodes = nil
			}
		},
		func(d *resourcev1beta1.Device, c randfill.Continue) {
			c.FillNoCustom(d)
			if d.Basic == nil { // is shown as what says nothing
				d.Basic = &resourcev1beta1.BasicDevice{}
			}
		},
		func(v *apiextensionsv1.CustomResourceConversion, c randfill.Continue) {
			c.FillNoCustom(v)
			if v.Webhook != nil && v.Webhook.ClientConfig == nil && len(v.Webhook.ConversionReviewVersions) == 0 {
				v.Webhook = nil
			}
		},
		func(*metav1.TypeMeta, randfill.Continue) {}, // of objects in objects: protobuf has none
		func(s *apiextensionsv1.JSONSchemaPropsOrArray, c randfill.Continue) {
			s.Schema = &apiextensionsv1.JSONSchemaProps{Type: c.String(5)}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
			if s.Allows = true; c.Bool() {
				s.Schema = &apiextensionsv1.JSONSchemaProps{Type: c.String(5)}
			}
		},
		func(s *apiextensionsv1.JSONSchemaPropsOrStringArray, c randfill.Continue) {
			s.Property = []string{c.String(5)}
		},
		func(s *apiextensionsv1.ResourceScope, c randfill.Continue) {
			*s = []apiextensionsv1.ResourceScope{apiextensionsv1.ClusterScoped,
				apiextensionsv1.NamespaceScoped}[c.Intn(2)]
		},
		func(j *apiextensionsv1.JSON, _ randfill.Continue) { j.Raw = []byte(`"a"`) },
		func(j *apiextensionsv1beta1.JSON, c randfill.Continue) { j.Raw = []byte(`"a"`) },
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(`{"a":"b"}`) },
	)
}

func someQuantity(c randfill.Continue) *resource.Quantity {
	return resource.NewMilliQuantity(c.Int63n(10_000), resource.DecimalSI)
}

func someNumber(c randfill.Continue) *int32 {
	n := c.Int31n(100)
	return &n
}

func averageValue(c randfill.Continue) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: someQuantity(c)}
}

func utilization(c randfill.Continue) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: someNumber(c)}
}

func valueOf(c randfill.Continue) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: someQuantity(c)}
}

// fillMetric makes a metric of one source, with a target that this source can have.
func fillMetric(m *autoscalingv2.MetricSpec, c randfill.Continue) {
	targets := func(of ...func(randfill.Continue) autoscalingv2.MetricTarget) autoscalingv2.MetricTarget {
		return of[c.Intn(len(of))](c)
	}
	*m = autoscalingv2.MetricSpec{}
	switch c.Intn(5) {
	case 0:
		m.Type, m.Resource = autoscalingv2.ResourceMetricSourceType, &autoscalingv2.ResourceMetricSource{}
		c.Fill(&m.Resource.Name)
		m.Resource.Target = targets(averageValue, utilization)
	case 1:
		m.Type, m.ContainerResource = autoscalingv2.ContainerResourceMetricSourceType,
			&autoscalingv2.ContainerResourceMetricSource{}
		c.Fill(&m.ContainerResource.Name)
		c.Fill(&m.ContainerResource.Container)
		m.ContainerResource.Target = targets(averageValue, utilization)
	case 2:
		m.Type, m.Pods = autoscalingv2.PodsMetricSourceType, &autoscalingv2.PodsMetricSource{}
		c.Fill(&m.Pods.Metric)
		m.Pods.Target = averageValue(c)
	case 3:
		m.Type, m.Object = autoscalingv2.ObjectMetricSourceType, &autoscalingv2.ObjectMetricSource{}
		c.Fill(&m.Object.DescribedObject)
		c.Fill(&m.Object.Metric)
		m.Object.Target = targets(averageValue, valueOf)
	case 4:
		m.Type, m.External = autoscalingv2.ExternalMetricSourceType, &autoscalingv2.ExternalMetricSource{}
		c.Fill(&m.External.Metric)
		m.External.Target = targets(averageValue, valueOf)
	}
}

// fillMetricStatus makes what is told of such a metric.
func fillMetricStatus(m *autoscalingv2.MetricStatus, c randfill.Continue) {
	*m = autoscalingv2.MetricStatus{}
	average := autoscalingv2.MetricValueStatus{AverageValue: someQuantity(c)}
	switch c.Intn(5) {
	case 0:
		m.Type, m.Resource = autoscalingv2.ResourceMetricSourceType,
			&autoscalingv2.ResourceMetricStatus{Current: average}
		c.Fill(&m.Resource.Name)
		m.Resource.Current.AverageUtilization = someNumber(c)
	case 1:
		m.Type, m.ContainerResource = autoscalingv2.ContainerResourceMetricSourceType,
			&autoscalingv2.ContainerResourceMetricStatus{Current: average}
		c.Fill(&m.ContainerResource.Name)
		c.Fill(&m.ContainerResource.Container)
		m.ContainerResource.Current.AverageUtilization = someNumber(c)
	case 2:
		m.Type, m.Pods = autoscalingv2.PodsMetricSourceType, &autoscalingv2.PodsMetricStatus{Current: average}
		c.Fill(&m.Pods.Metric)
	case 3:
		m.Type, m.Object = autoscalingv2.ObjectMetricSourceType, &autoscalingv2.ObjectMetricStatus{Current: average}
		c.Fill(&m.Object.DescribedObject)
		c.Fill(&m.Object.Metric)
		m.Object.Current.Value = someQuantity(c)
	case 4:
		m.Type, m.External = autoscalingv2.ExternalMetricSourceType,
			&autoscalingv2.ExternalMetricStatus{Current: average}
		c.Fill(&m.External.Metric)
		m.External.Current.Value = someQuantity(c)
	}
}
