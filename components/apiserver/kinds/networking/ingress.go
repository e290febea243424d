package networking

import (
	"fmt"
	"path"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	segments "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

// classAnnotation named the class before the field did.
const classAnnotation = "kubernetes.io/ingress.class"

// ValidateIngress checks an ingress.
func ValidateIngress(i *networkingv1.Ingress) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if len(i.Spec.Rules) == 0 && i.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(at, i.Spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if i.Spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(i.Spec.DefaultBackend, at.Child("defaultBackend"))...)
	}
	for n := range i.Spec.Rules {
		errs = append(errs, validateRule(&i.Spec.Rules[n], at.Child("rules").Index(n))...)
	}
	for n, t := range i.Spec.TLS {
		for h, host := range t.Hosts {
			errs = append(errs, validateHost(host, at.Child("tls").Index(n).Child("hosts").Index(h))...)
		}
		if t.SecretName != "" {
			errs = append(errs, checks.Text(t.SecretName, at.Child("tls").Index(n).Child("secretName"), checks.Subdomain)...)
		}
	}
	if c := i.Spec.IngressClassName; c != nil {
		errs = append(errs, checks.Text(*c, at.Child("ingressClassName"), checks.Subdomain)...)
	}
	return errs
}

// ValidateIngressCreate also refuses two ways of naming the class that disagree.
func ValidateIngressCreate(i *networkingv1.Ingress) field.ErrorList {
	errs := ValidateIngress(i)
	if a, ok := i.Annotations[classAnnotation]; ok && i.Spec.IngressClassName != nil && a != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), a,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

func validateHost(host string, at *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return checks.Text(host, at, utilvalidation.IsWildcardDNS1123Subdomain)
	}
	return checks.Text(host, at, utilvalidation.IsDNS1123Subdomain)
}

func validateRule(r *networkingv1.IngressRule, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(at.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, validateHost(r.Host, at.Child("host"))...)
	}
	if r.HTTP == nil {
		return errs
	}
	paths := at.Child("http", "paths")
	if len(r.HTTP.Paths) == 0 {
		return append(errs, field.Required(paths, ""))
	}
	for i := range r.HTTP.Paths {
		errs = append(errs, validatePath(&r.HTTP.Paths[i], paths.Index(i))...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, at *field.Path) field.ErrorList {
	known := sets.New(networkingv1.PathTypeExact, networkingv1.PathTypePrefix, networkingv1.PathTypeImplementationSpecific)
	if p.PathType == nil {
		return field.ErrorList{field.Required(at.Child("pathType"), "pathType must be specified")}
	}
	var errs field.ErrorList
	switch *p.PathType {
	case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
		if !path.IsAbs(p.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), p.Path, "must be an absolute path"))
		}
		for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
			if strings.Contains(p.Path, bad) {
				errs = append(errs, field.Invalid(at.Child("path"), p.Path, fmt.Sprintf("must not contain '%s'", bad)))
			}
		}
		for _, bad := range []string{"/..", "/."} {
			if strings.HasSuffix(p.Path, bad) {
				errs = append(errs, field.Invalid(at.Child("path"), p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
			}
		}
	case networkingv1.PathTypeImplementationSpecific:
		if p.Path != "" && !path.IsAbs(p.Path) {
			errs = append(errs, field.Invalid(at.Child("path"), p.Path, "must be an absolute path"))
		}
	default:
		errs = append(errs, field.NotSupported(at.Child("pathType"), *p.PathType, sets.List(known)))
	}
	return append(errs, validateBackend(&p.Backend, at.Child("backend"))...)
}

func validateBackend(b *networkingv1.IngressBackend, at *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(at, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return typedReference(b.Resource.APIGroup, b.Resource.Kind, b.Resource.Name, at.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(at, "", "resource or service backend is required")}
	}
	s := at.Child("service")
	var errs field.ErrorList
	if b.Service.Name == "" {
		errs = append(errs, field.Required(s.Child("name"), ""))
	} else {
		errs = append(errs, checks.Text(b.Service.Name, s.Child("name"), utilvalidation.IsDNS1123Label)...)
	}
	port := b.Service.Port
	switch {
	case port.Name != "" && port.Number != 0:
		errs = append(errs, field.Invalid(at, "", "cannot set both port name & port number"))
	case port.Name != "":
		errs = append(errs, checks.Text(port.Name, s.Child("port", "name"), utilvalidation.IsValidPortName)...)
	case port.Number != 0:
		for _, msg := range utilvalidation.IsValidPortNum(int(port.Number)) {
			errs = append(errs, field.Invalid(s.Child("port", "number"), port.Number, msg))
		}
	default:
		errs = append(errs, field.Required(at, "port name or number is required"))
	}
	return errs
}

// typedReference checks what names an object of any kind.
func typedReference(group *string, kind, name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, checks.Text(*group, at.Child("apiGroup"), utilvalidation.IsDNS1123Subdomain)...)
	}
	segment := func(child, value string) {
		if value == "" {
			errs = append(errs, field.Required(at.Child(child), ""))
			return
		}
		errs = append(errs, checks.Text(value, at.Child(child), segments.IsValidPathSegmentName)...)
	}
	segment("kind", kind)
	segment("name", name)
	return errs
}

// ValidateIngressStatus checks the status: where the ingress is reached.
func ValidateIngressStatus(new, old *networkingv1.Ingress) field.ErrorList {
	known := sets.New[string]()
	for _, i := range old.Status.LoadBalancer.Ingress {
		known.Insert(i.IP)
	}
	var errs field.ErrorList
	for n, i := range new.Status.LoadBalancer.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(n)
		if i.IP != "" {
			errs = append(errs, utilvalidation.IsValidIPForLegacyField(at.Child("ip"), i.IP, true, sets.List(known))...)
		}
		if i.Hostname == "" {
			continue
		}
		errs = append(errs, checks.Text(i.Hostname, at.Child("hostname"), utilvalidation.IsDNS1123Subdomain)...)
		if netutils.ParseIPSloppy(i.Hostname) != nil {
			errs = append(errs, field.Invalid(at.Child("hostname"), i.Hostname, "must be a DNS name, not an IP address"))
		}
	}
	return errs
}

// IngressWarnings tell a new ingress how its class is named today.
func IngressWarnings(new, old *networkingv1.Ingress) []string {
	if _, ok := new.Annotations[classAnnotation]; !ok || old != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", classAnnotation)}
}

// IngressColumns are the columns of ingresses.
func IngressColumns() show.Columns {
	return show.Name().
		String("Class", "The name of the IngressClass resource that should be used for additional configuration").
		String("Hosts", "Hosts that incoming requests are matched against before the ingress rule").
		String("Address", "Address is a list containing ingress points for the load-balancer").
		String("Ports", "Ports of TLS configurations that open").
		Age()
}

// IngressRow are the cells of an ingress.
func IngressRow(i *networkingv1.Ingress) []any {
	var hosts []string
	for _, r := range i.Spec.Rules {
		if r.Host != "" && len(hosts) < 3 {
			hosts = append(hosts, r.Host)
		}
	}
	names := strings.Join(hosts, ",")
	if len(hosts) == 0 {
		names = "*"
	} else if n := named(i.Spec.Rules); n > len(hosts) {
		names += fmt.Sprintf(" + %d more...", n-len(hosts))
	}
	ports := "80"
	if len(i.Spec.TLS) > 0 {
		ports = "80, 443"
	}
	class := show.None
	if i.Spec.IngressClassName != nil {
		class = *i.Spec.IngressClassName
	}
	var addresses []string
	for _, ing := range i.Status.LoadBalancer.Ingress {
		if ing.IP != "" {
			addresses = append(addresses, ing.IP)
		} else if ing.Hostname != "" {
			addresses = append(addresses, ing.Hostname)
		}
	}
	slices.Sort(addresses)
	return []any{i.Name, class, names, strings.Join(slices.Compact(addresses), ","), ports, show.Age(i.CreationTimestamp)}
}

func named(rules []networkingv1.IngressRule) int {
	n := 0
	for i := range rules {
		if rules[i].Host != "" {
			n++
		}
	}
	return n
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
	const cluster, namespaced = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
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
	return validation.ValidateImmutableField(new.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
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
