package events

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// eventTTL is how long events are kept, as upstream's --event-ttl has it by default.
const eventTTL = time.Hour

// eventKind serves events under "" and events.k8s.io from one stored form.
func eventKind() *api.Kind {
	return api.Define(api.Row[*corev1.Event]{
		Name: "Event", Resource: "events", ShortNames: []string{"ev"},
		Hub: corev1.SchemeGroupVersion,
		Others: []api.Version{func() api.Version {
			v := api.OtherVersion(eventsv1.SchemeGroupVersion, ToCore, FromCore, nil)
			v.Fields = regardingFields()
			return v
		}()},
		RemovedVersions: []api.Version{api.RemovedLike[*eventsv1beta1.Event](eventsv1beta1.SchemeGroupVersion, ToCore, nil)},
		Strategy: api.Strategy[*corev1.Event]{
			Meta: api.MetaNothing, AnyFinalizer: true,
			// The two APIs ask for different things, so the version of the request decides.
			Validate: func(ctx context.Context, e *corev1.Event) field.ErrorList {
				return Validate(e, isNewEventAPI(ctx))
			},
			ValidateUpdate: func(ctx context.Context, new, old *corev1.Event) field.ErrorList {
				return ValidateUpdate(new, old, isNewEventAPI(ctx))
			},
			CreateOnUpdate: true, UnconditionalUpdate: true, NoDependents: true,
		},
		Columns: Columns(),
		Row:     Row,
		Fields:  eventFields(),
		Indexed: []string{"involvedObject.uid", "involvedObject.name"},
		TTL:     func(*corev1.Event) time.Duration { return eventTTL },
	})
}

func isNewEventAPI(ctx context.Context) bool {
	info, ok := request.RequestInfoFrom(ctx)
	return ok && info.APIGroup == eventsv1.GroupName
}

func eventFields() map[string]func(*corev1.Event) string {
	return map[string]func(*corev1.Event) string{
		"involvedObject.kind":            func(e *corev1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *corev1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *corev1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *corev1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *corev1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *corev1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *corev1.Event) string { return e.Reason },
		"reportingComponent":             func(e *corev1.Event) string { return e.ReportingController },
		"source": func(e *corev1.Event) string {
			if e.Source.Component != "" {
				return e.Source.Component
			}
			return e.ReportingController
		},
		"type": func(e *corev1.Event) string { return e.Type },
	}
}

// regardingFields are the labels of selectors in events.k8s.io, and what they mean in the stored form.
func regardingFields() map[string]string {
	out := map[string]string{
		"metadata.name": "metadata.name", "metadata.namespace": "metadata.namespace",
		"reason": "reason", "type": "type", "reportingController": "reportingComponent",
	}
	for _, name := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		out["regarding."+name] = "involvedObject." + name
	}
	return out
}
