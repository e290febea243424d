package apps

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	appsv1beta1 "k8s.io/api/apps/v1beta1"
	appsv1beta2 "k8s.io/api/apps/v1beta2"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func controllerRevisions() *api.Kind {
	return api.Define(api.Row[*appsv1.ControllerRevision]{
		Name: "ControllerRevision", Resource: "controllerrevisions",
		Hub: appsv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedTwin[*appsv1beta2.ControllerRevision, *appsv1.ControllerRevision](appsv1beta2.SchemeGroupVersion,
				nil),
			api.RemovedTwin[*appsv1beta1.ControllerRevision, *appsv1.ControllerRevision](appsv1beta1.SchemeGroupVersion,
				nil),
		},
		Strategy: api.Strategy[*appsv1.ControllerRevision]{
			Meta:                api.MetaAll,
			Validate:            api.OfObject(ValidateRevision),
			ValidateUpdate:      api.OfChange(ValidateRevisionUpdate),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: RevisionColumns(),
		Row:     RevisionRow,
	})
}

// RevisionColumns are the columns of controller revisions.
func RevisionColumns() show.Columns {
	return show.Name().
		String("Controller", "Controller of the object").
		String("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]).
		Age()
}

// RevisionRow are the cells of a controller revision.
func RevisionRow(r *appsv1.ControllerRevision) []any {
	controller := show.None
	if ref := metav1.GetControllerOf(r); ref != nil {
		resource := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind().String()
		controller = strings.ToLower(resource) + "/" + ref.Name
	}
	return []any{r.Name, controller, r.Revision, show.Age(r.CreationTimestamp)}
}
