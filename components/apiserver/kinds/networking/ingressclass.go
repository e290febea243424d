package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var ingressClassParts = api.Parts[*networkingv1.IngressClass, networkingv1.IngressClassSpec, struct{}]{
	Spec: func(c *networkingv1.IngressClass) *networkingv1.IngressClassSpec { return &c.Spec },
}

func ingressClasses() *api.Kind {
	return api.Define(api.Row[*networkingv1.IngressClass]{
		Name: "IngressClass", Resource: "ingressclasses", Cluster: true,
		Hub:     networkingv1.SchemeGroupVersion,
		Default: DefaultIngressClass,
		RemovedVersions: []api.Version{api.RemovedTwin[*networkingv1beta1.IngressClass, *networkingv1.IngressClass](
			networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*networkingv1.IngressClass]{
			PrepareCreate: ingressClassParts.Create,
			PrepareUpdate: ingressClassParts.Update,
			Validate:      api.OfObject(ValidateIngressClass),
			ValidateAmong: api.ChangeFirst(ValidateIngressClassChange,
				api.IgnoreOld(ValidateIngressClass)),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
		},
		Columns: IngressClassColumns(),
		Row:     IngressClassRow,
	})
}

// DefaultIngressClass sets the defaults of an ingress class.
func DefaultIngressClass(c *networkingv1.IngressClass) {
	if p := c.Spec.Parameters; p != nil && p.Scope == nil {
		scope := networkingv1.IngressClassParametersReferenceScopeCluster
		p.Scope = &scope
	}
}

// maxController bounds the name of an ingress controller.
const maxController = 250

// ValidateIngressClass checks an ingress class.
func ValidateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if len(c.Spec.Controller) > maxController {
		errs = append(errs, field.TooLong(at.Child("controller"), "", maxController))
	}
	errs = append(errs, utilvalidation.IsDomainPrefixedPath(at.Child("controller"), c.Spec.Controller)...)
	p := c.Spec.Parameters
	if p == nil {
		return errs
	}
	at = at.Child("parameters")
	errs = append(errs, typedReference(p.APIGroup, p.Kind, p.Name, at)...)
	if p.Scope == nil {
		return append(errs, field.Required(at.Child("scope"), ""))
	}
	const cluster, namespaced = networkingv1.IngressClassParametersReferenceScopeCluster,
		networkingv1.IngressClassParametersReferenceScopeNamespace
	errs = append(errs, checks.In(*p.Scope, at.Child("scope"), cluster, namespaced)...)
	switch {
	case *p.Scope == namespaced && p.Namespace == nil:
		errs = append(errs, field.Required(at.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
	case *p.Scope == namespaced:
		errs = append(errs, checks.Text(*p.Namespace, at.Child("namespace"), utilvalidation.IsDNS1123Label)...)
	case *p.Scope == cluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(at.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
	}
	return errs
}

// ValidateIngressClassChange checks a change alone: the controller stays.
func ValidateIngressClassChange(new, old *networkingv1.IngressClass) field.ErrorList {
	return validation.ValidateImmutableField(new.Spec.Controller, old.Spec.Controller,
		field.NewPath("spec", "controller"))
}

// IngressClassColumns are the columns of ingress classes.
func IngressClassColumns() show.Columns {
	return show.Name().
		String("Controller", "Controller that is responsible for handling this class").
		String("Parameters", "A reference to a resource with additional parameters").
		Age()
}

// IngressClassRow are the cells of an ingress class.
func IngressClassRow(c *networkingv1.IngressClass) []any {
	name, parameters := c.Name, show.None
	if c.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
		name += " (default)"
	}
	if p := c.Spec.Parameters; p != nil {
		parameters = p.Kind
		if p.APIGroup != nil {
			parameters += "." + *p.APIGroup
		}
		parameters += "/" + p.Name
	}
	return []any{name, c.Spec.Controller, parameters, show.Age(c.CreationTimestamp)}
}
