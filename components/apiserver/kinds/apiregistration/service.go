package apiregistration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	apiregistrationv1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/validation"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func apiServices(deps api.Deps) *api.Kind {
	type Service = *apiregistrationv1.APIService
	return api.Define(api.Row[Service]{
		Name: "APIService", Resource: "apiservices", Categories: []string{"api-extensions"}, Cluster: true,
		Prefix:        "apiregistration.k8s.io/apiservices",
		Hub:           apiregistrationv1.SchemeGroupVersion,
		AsJSON:        true,
		StatusNoTable: true,
		Default:       apiregistrationv1.SetObjectDefaults_APIService,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*apiregistrationv1beta1.APIService](apiregistrationv1beta1.SchemeGroupVersion,
				apiregistrationv1.SetObjectDefaults_APIService),
		},
		Strategy: api.Strategy[Service]{
			Meta: api.MetaNothing, AnyFinalizer: true, // the library checks it
			PrepareCreate: func(_ context.Context, obj Service) {
				PrepareCreate(obj, metav1.NewTime(deps.Now()))
			},
			PrepareUpdate:  func(_ context.Context, new, old Service) { new.Status = old.Status },
			Validate:       api.OfObject(Validate),
			ValidateUpdate: api.OfChange(ValidateUpdate),
			ValidateName:   path.ValidatePathSegmentName,
			Reset:          []string{"status"},
		},
		Status: &api.Strategy[Service]{
			Meta: api.MetaNothing, AnyFinalizer: true, // as above
			PrepareUpdate:  PrepareStatusUpdate,
			ValidateUpdate: api.OfChange(ValidateStatusUpdate),
			Reset:          []string{"spec", "metadata"},
		},
		Columns: Columns(),
		Row:     Row,
	})
}

type apiService = *apiregistrationv1.APIService

// PrepareCreate starts the status. What this server serves itself is available from the first.
func PrepareCreate(obj apiService, now metav1.Time) {
	obj.Status = apiregistrationv1.APIServiceStatus{}
	if obj.Spec.Service == nil {
		helper.SetAPIServiceCondition(obj, Local(now))
	}
}

// Local is the condition of what this server serves itself.
func Local(now metav1.Time) apiregistrationv1.APIServiceCondition {
	return apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: now,
		Reason: "Local", Message: "Local APIServices are always available",
	}
}

// PrepareStatusUpdate keeps all but the status.
func PrepareStatusUpdate(_ context.Context, new, old apiService) {
	new.Spec = old.Spec
	new.Labels, new.Annotations = old.Labels, old.Annotations
	new.Finalizers, new.OwnerReferences = old.Finalizers, old.OwnerReferences
}

// Validate checks a new object.
func Validate(obj apiService) field.ErrorList {
	in, err := internal(obj)
	if err != nil {
		return failed(err)
	}
	return validation.ValidateAPIService(in)
}

// ValidateUpdate checks a change.
func ValidateUpdate(new, old apiService) field.ErrorList {
	return checkChange(new, old, validation.ValidateAPIServiceUpdate)
}

// ValidateStatusUpdate checks a change of the status.
func ValidateStatusUpdate(new, old apiService) field.ErrorList {
	return checkChange(new, old, validation.ValidateAPIServiceStatusUpdate)
}

func checkChange(new, old apiService,
	check func(new, old *apiregistration.APIService) field.ErrorList) field.ErrorList {
	in, err := internal(new)
	if err != nil {
		return failed(err)
	}
	was, err := internal(old)
	if err != nil {
		return failed(err)
	}
	return check(in, was)
}

// internal makes the form that the library validates.
func internal(obj apiService) (*apiregistration.APIService, error) {
	out := &apiregistration.APIService{}
	return out, apiregistrationv1.Convert_v1_APIService_To_apiregistration_APIService(obj.DeepCopy(), out, nil)
}

func failed(err error) field.ErrorList {
	return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
}

// Columns are those of kubectl get.
func Columns() []metav1.TableColumnDefinition {
	return show.Name().
		String("Service", "The reference to the service that hosts this API endpoint.").
		String("Available", "Whether this service is available.").
		Age()
}

// Row are the cells of an object.
func Row(obj apiService) []any {
	service := "Local"
	if s := obj.Spec.Service; s != nil {
		service = s.Namespace + "/" + s.Name
	}
	available := string(apiregistrationv1.ConditionUnknown)
	if c := helper.GetAPIServiceConditionByType(obj, apiregistrationv1.Available); c != nil {
		available = string(c.Status)
		if c.Status != apiregistrationv1.ConditionTrue && c.Reason != "" {
			available = fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return []any{obj.Name, service, available, show.Age(obj.CreationTimestamp)}
}
