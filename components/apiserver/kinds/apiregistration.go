package kinds

import (
	"context"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"

	"quintet.dev/quintet/components/apiserver/kinds/apiregistration"
)

func apiServices(deps Deps) *Kind {
	type Service = *apiregistrationv1.APIService
	return define(row[Service]{
		Name: "APIService", Resource: "apiservices", Categories: []string{"api-extensions"}, Cluster: true,
		Prefix:        "apiregistration.k8s.io/apiservices",
		Hub:           apiregistrationv1.SchemeGroupVersion,
		AsJSON:        true,
		StatusNoTable: true,
		Default:       apiregistrationv1.SetObjectDefaults_APIService,
		Former: []Version{
			formerTwin[*apiregistrationv1beta1.APIService](apiregistrationv1beta1.SchemeGroupVersion, apiregistrationv1.SetObjectDefaults_APIService),
		},
		Strategy: strategy[Service]{
			Meta: MetaNothing, AnyFinalizer: true, // the library checks it
			PrepareCreate: func(_ context.Context, obj Service) {
				apiregistration.PrepareCreate(obj, metav1.NewTime(deps.now()))
			},
			PrepareUpdate:  func(_ context.Context, new, old Service) { new.Status = old.Status },
			Validate:       apiregistration.Validate,
			ValidateUpdate: apiregistration.ValidateUpdate,
			ValidateName:   path.ValidatePathSegmentName,
			Reset:          []string{"status"},
		},
		Status: &strategy[Service]{
			Meta: MetaNothing, AnyFinalizer: true, // as above
			PrepareUpdate:  apiregistration.PrepareStatusUpdate,
			ValidateUpdate: apiregistration.ValidateStatusUpdate,
			Reset:          []string{"spec", "metadata"},
		},
		Columns: apiregistration.Columns(),
		Row:     apiregistration.Row,
	})
}
