package autoscaling

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

type hpa = autoscalingv2.HorizontalPodAutoscaler

var hpaParts = api.Parts[*hpa, autoscalingv2.HorizontalPodAutoscalerSpec, autoscalingv2.HorizontalPodAutoscalerStatus]{
	Spec:   func(h *hpa) *autoscalingv2.HorizontalPodAutoscalerSpec { return &h.Spec },
	Status: func(h *hpa) *autoscalingv2.HorizontalPodAutoscalerStatus { return &h.Status },
}

// horizontalPodAutoscalers are served as v2 and as v1, and stored as v2.
func horizontalPodAutoscalers(deps api.Deps) *api.Kind {
	rules := Rules{ToZero: deps.ScaleToZero}
	return api.Define(api.Row[*hpa]{
		Name: "HorizontalPodAutoscaler", Resource: "horizontalpodautoscalers",
		ShortNames: []string{"hpa"}, Categories: []string{"all"},
		Hub:     autoscalingv2.SchemeGroupVersion,
		Default: Default,
		Others: []api.Version{api.OtherVersion(autoscalingv1.SchemeGroupVersion,
			FromV1, ToV1, DefaultV1)},
		Strategy: api.Strategy[*hpa]{
			PrepareCreate:       hpaParts.PlainCreate,
			PrepareUpdate:       hpaParts.KeepStatus,
			Validate:            api.OfObject(rules.Validate),
			ValidateUpdate:      api.OfChange(rules.ValidateUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*hpa]{
			PrepareUpdate:  hpaParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateStatusUpdate),
			Reset:          []string{"spec"},
		},
		Columns: Columns(),
		Row:     Row,
	})
}
