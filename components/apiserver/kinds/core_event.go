package kinds

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	eventsv1beta1 "k8s.io/api/events/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"

	"quintet.dev/quintet/components/apiserver/kinds/events"
)

// eventTTL is how long events are kept, as upstream's --event-ttl has it by default.
const eventTTL = time.Hour

// eventKind serves events under "" and events.k8s.io from one stored form.
func eventKind() *Kind {
	k := define(row[*corev1.Event]{
		Name: "Event", Resource: "events", ShortNames: []string{"ev"},
		Hub: corev1.SchemeGroupVersion,
		Others: []Version{func() Version {
			v := other(eventsv1.SchemeGroupVersion, events.ToCore, events.FromCore, nil)
			v.Fields = regardingFields()
			return v
		}()},
		Former:   []Version{formerLike[*eventsv1beta1.Event](eventsv1beta1.SchemeGroupVersion, events.ToCore, nil)},
		Strategy: strategy[*corev1.Event]{Meta: MetaNothing, AnyFinalizer: true, CreateOnUpdate: true, UnconditionalUpdate: true, NoDependents: true},
		Columns:  events.Columns(),
		Row:      events.Row,
		Fields:   eventFields(),
		Indexed:  []string{"involvedObject.uid", "involvedObject.name"},
		TTL:      func(*corev1.Event) time.Duration { return eventTTL },
	})
	// The two APIs ask for different things, so the version of the request decides.
	k.Strategy.Validate = func(ctx context.Context, obj Object) field.ErrorList {
		return events.Validate(obj.(*corev1.Event), isNewEventAPI(ctx))
	}
	k.Strategy.ValidateUpdate = func(ctx context.Context, new, old Object) field.ErrorList {
		return events.ValidateUpdate(new.(*corev1.Event), old.(*corev1.Event), isNewEventAPI(ctx))
	}
	return k
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
