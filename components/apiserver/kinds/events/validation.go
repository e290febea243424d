package events

import (
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// Bounds of the texts of an event, in bytes.
const (
	maxReportingInstance = 128
	maxAction            = 128
	maxReason            = 128
	maxNote              = 1024
)

// Validate checks a new event; strict is for events.k8s.io/v1, which allows only the newer form.
func Validate(e *corev1.Event, strict bool) field.ErrorList {
	errs := validateCommon(e, strict)
	if !strict {
		return errs
	}
	metadata := field.NewPath("metadata")
	errs = append(errs, validation.ValidateObjectMetaAccessor(e, true, validation.NameIsDNSSubdomain, metadata)...)
	errs = append(errs, checks.Finalizers(e.Finalizers, metadata.Child("finalizers"))...)
	errs = append(errs, validateSeries(e.Series)...)
	if e.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if e.Type != corev1.EventTypeNormal && e.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+e.Type))
	}
	if !e.FirstTimestamp.IsZero() {
		errs = append(errs, field.Invalid(field.NewPath("firstTimestamp"), "", "needs to be unset"))
	}
	if !e.LastTimestamp.IsZero() {
		errs = append(errs, field.Invalid(field.NewPath("lastTimestamp"), "", "needs to be unset"))
	}
	if e.Count != 0 {
		errs = append(errs, field.Invalid(field.NewPath("count"), "", "needs to be unset"))
	}
	if e.Source.Component != "" || e.Source.Host != "" {
		errs = append(errs, field.Invalid(field.NewPath("source"), "", "needs to be unset"))
	}
	return errs
}

// ValidateUpdate checks a change: of the newer form, only the series may change.
func ValidateUpdate(new, old *corev1.Event, strict bool) field.ErrorList {
	errs := validateCommon(new, strict)
	if !strict {
		return errs
	}
	metadata := field.NewPath("metadata")
	errs = append(errs, validation.ValidateObjectMetaAccessorUpdate(new, old, metadata)...)
	errs = append(errs, checks.Finalizers(new.Finalizers, metadata.Child("finalizers"))...)
	if !reflect.DeepEqual(new.Series, old.Series) {
		errs = append(errs, validateSeries(new.Series)...)
	}
	keep := func(a, b any, name string) {
		errs = append(errs, validation.ValidateImmutableField(a, b, field.NewPath(name))...)
	}
	keepWhole := func(a, b any, name string) {
		if !apiequality.Semantic.DeepEqual(a, b) {
			errs = append(errs, field.Invalid(field.NewPath(name), checks.Unversioned(a), "field is immutable"))
		}
	}
	keepWhole(new.InvolvedObject, old.InvolvedObject, "involvedObject")
	keep(new.Reason, old.Reason, "reason")
	keep(new.Message, old.Message, "message")
	keepWhole(new.Source, old.Source, "source")
	keep(new.FirstTimestamp, old.FirstTimestamp, "firstTimestamp")
	keep(new.LastTimestamp, old.LastTimestamp, "lastTimestamp")
	keep(new.Count, old.Count, "count")
	keep(new.Reason, old.Reason, "reason") // once more, as upstream has it
	keep(new.Type, old.Type, "type")
	// A client that decoded JSON has it in its own zone, and no finer than microseconds.
	if !new.EventTime.Truncate(time.Microsecond).Equal(old.EventTime.Truncate(time.Microsecond)) {
		keep(new.EventTime, old.EventTime, "eventTime")
	}
	keep(new.Action, old.Action, "action")
	keepWhole(new.Related, old.Related, "related")
	keep(new.ReportingController, old.ReportingController, "reportingController")
	keep(new.ReportingInstance, old.ReportingInstance, "reportingInstance")
	return errs
}

// validateCommon checks what holds for events of either form. The newer one, which has an event time, may lie in
// another namespace than its object.
func validateCommon(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	has, object := e.Namespace, e.InvolvedObject.Namespace
	wrong := has != object
	switch newer := !e.EventTime.IsZero(); {
	case newer:
		wrong = object == "" && has != metav1.NamespaceDefault && has != metav1.NamespaceSystem
	case object == "": // events about what has no namespace live in the default one
		wrong = has != metav1.NamespaceNone && has != metav1.NamespaceDefault
	}
	if wrong {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), object,
			"does not match event.namespace"))
	}
	if !e.EventTime.IsZero() {
		errs = append(errs, validateReport(e, strict)...)
	}
	for _, msg := range utilvalidation.IsDNS1123Subdomain(has) {
		errs = append(errs, field.Invalid(field.NewPath("namespace"), has, msg))
	}
	return errs
}

// validateSeries checks that a series is one. Paths are upstream's.
func validateSeries(s *corev1.EventSeries) field.ErrorList {
	var errs field.ErrorList
	if s != nil && s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s != nil && s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

// validateReport checks the fields about the reporting component that the newer form of an event requires.
func validateReport(e *corev1.Event, strict bool) field.ErrorList {
	var errs field.ErrorList
	controller := field.NewPath("reportingComponent")
	if strict {
		controller = field.NewPath("reportingController")
	}
	if e.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, msg := range utilvalidation.IsQualifiedName(e.ReportingController) {
		errs = append(errs, field.Invalid(controller, e.ReportingController, msg))
	}
	for _, f := range []struct {
		name, value string
		max         int
	}{
		{"reportingInstance", e.ReportingInstance, maxReportingInstance},
		{"action", e.Action, maxAction},
		{"reason", e.Reason, maxReason},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(field.NewPath(f.name), ""))
		}
		if len(f.value) > f.max {
			errs = append(errs, tooLong(field.NewPath(f.name), f.max))
		}
	}
	if len(e.Message) > maxNote {
		errs = append(errs, tooLong(field.NewPath("message"), maxNote))
	}
	return errs
}

func tooLong(path *field.Path, limit int) *field.Error {
	return field.Invalid(path, "", fmt.Sprintf("can have at most %v characters", limit))
}
