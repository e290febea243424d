package kinds

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/autoscaling"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

var hpaParts = parts[*hpa, autoscalingv2.HorizontalPodAutoscalerSpec, autoscalingv2.HorizontalPodAutoscalerStatus]{
	spec:   func(h *hpa) *autoscalingv2.HorizontalPodAutoscalerSpec { return &h.Spec },
	status: func(h *hpa) *autoscalingv2.HorizontalPodAutoscalerStatus { return &h.Status },
}

// horizontalPodAutoscalers are served as v2 and as v1, and stored as v2.
func horizontalPodAutoscalers(deps Deps) *Kind {
	rules := autoscaling.Rules{ToZero: deps.ScaleToZero}
	return define(row[*hpa]{
		Name: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers",
		ShortNames: []string{"hpa"}, Categories: []string{"all"},
		Hub:     autoscalingv2.SchemeGroupVersion,
		Default: autoscaling.Default,
		Others: []Version{other(autoscalingv1.SchemeGroupVersion,
			autoscaling.FromV1, autoscaling.ToV1, autoscaling.DefaultV1)},
		Strategy: strategy[*hpa]{
			PrepareCreate:       hpaParts.plainCreate,
			PrepareUpdate:       hpaParts.keepStatus,
			Validate:            rules.Validate,
			ValidateUpdate:      rules.ValidateUpdate,
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &strategy[*hpa]{
			PrepareUpdate:  hpaParts.statusUpdate,
			ValidateUpdate: autoscaling.ValidateStatusUpdate,
			Reset:          []string{"spec"},
		},
		Columns: autoscaling.Columns(),
		Row:     autoscaling.Row,
	})
}
