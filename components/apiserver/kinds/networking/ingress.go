package networking

import (
	"fmt"
	"path"
	"slices"
	"strings"

	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	segments "k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var ingressParts = api.Parts[*networkingv1.Ingress, networkingv1.IngressSpec, networkingv1.IngressStatus]{
	Spec:   func(i *networkingv1.Ingress) *networkingv1.IngressSpec { return &i.Spec },
	Status: func(i *networkingv1.Ingress) *networkingv1.IngressStatus { return &i.Status },
}

func ingresses(deps api.Deps) *api.Kind {
	rules := IngressRules{StrictServiceNames: deps.StrictServiceNames}
	return api.Define(api.Row[*networkingv1.Ingress]{
		Name: "Ingress", Resource: "ingresses", ShortNames: []string{"ing"}, Prefix: "ingress",
		Hub: networkingv1.SchemeGroupVersion,
		RemovedVersions: []api.Version{
			api.RemovedVersion(networkingv1beta1.SchemeGroupVersion, IngressFromV1beta1, nil),
			api.RemovedLike[*extensionsv1beta1.Ingress](extensionsv1beta1.SchemeGroupVersion, IngressFromV1beta1,
				nil),
		},
		Strategy: api.Strategy[*networkingv1.Ingress]{
			Meta:                api.MetaAll,
			PrepareCreate:       ingressParts.Create,
			PrepareUpdate:       ingressParts.Update,
			Validate:            api.OfObject(rules.Validate),
			ValidateUpdate:      api.OfChange(rules.ValidateUpdate),
			Warnings:            api.OfChange(IngressWarnings),
			ValidateName:        validation.NameIsDNSSubdomain,
			UnconditionalUpdate: true,
			Reset:               []string{"status"},
		},
		Status: &api.Strategy[*networkingv1.Ingress]{
			PrepareUpdate:  ingressParts.StatusUpdate,
			ValidateUpdate: api.OfChange(ValidateIngressStatus),
			Warnings:       api.OfChange(IngressStatusWarnings),
			Reset:          []string{"spec"},
		},
		Columns: IngressColumns(),
		Row:     IngressRow,
	})
}

// classAnnotation named the class before the field did.
const classAnnotation = "kubernetes.io/ingress.class"

// IngressRules are what can be chosen of how ingresses are checked. The zero value is that of the release.
type IngressRules struct {
	StrictServiceNames bool // services are sent to by names that begin with a letter
}

// nameCheck tells what is wrong with the name of a service.
type nameCheck = func(name string) []string

// ingressCheck is how one ingress is checked: what an old one had may stay in it.
type ingressCheck struct {
	service         nameCheck
	anySecret       bool // no name of a secret is looked at
	anyWildcardRule bool // nor where rules for wildcard hosts lead to
}

// Validate checks a new ingress: it must not name its class in two ways that disagree, either.
func (r IngressRules) Validate(i *networkingv1.Ingress) field.ErrorList {
	errs := validateIngress(i, ingressCheck{service: r.serviceNames(nil)})
	if a, ok := i.Annotations[classAnnotation]; ok && i.Spec.IngressClassName != nil && a != *i.Spec.IngressClassName {
		errs = append(errs, field.Invalid(field.NewPath("annotations").Child(classAnnotation), a,
			"must match `ingressClassName` when both are specified"))
	}
	return errs
}

// ValidateUpdate checks a change.
func (r IngressRules) ValidateUpdate(new, old *networkingv1.Ingress) field.ErrorList {
	return validateIngress(new, ingressCheck{
		service: r.serviceNames(old),
		anySecret: slices.ContainsFunc(old.Spec.TLS,
			func(t networkingv1.IngressTLS) bool { return len(validateSecret(t.SecretName, nil)) > 0 }),
		anyWildcardRule: slices.ContainsFunc(old.Spec.Rules, func(rule networkingv1.IngressRule) bool {
			// strict names, as upstream has it
			return isWildcard(rule.Host) && len(validatePaths(rule.HTTP, nil, utilvalidation.IsDNS1035Label)) > 0
		}),
	})
}

func isWildcard(host string) bool { return strings.Contains(host, "*") }

func validateSecret(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return nil
	}
	return checks.Text(name, at, checks.Subdomain)
}

// serviceNames is how names of services are checked: an ingress that has one of the freer kind may have others.
func (r IngressRules) serviceNames(old *networkingv1.Ingress) nameCheck {
	if !r.StrictServiceNames || old != nil && slices.ContainsFunc(servicesOf(old), onlyRelaxed) {
		return checks.Label
	}
	return utilvalidation.IsDNS1035Label
}

// servicesOf are the names of all services that an ingress sends to.
func servicesOf(i *networkingv1.Ingress) (names []string) {
	add := func(b *networkingv1.IngressBackend) {
		if b.Service != nil {
			names = append(names, b.Service.Name)
		}
	}
	if b := i.Spec.DefaultBackend; b != nil {
		add(b)
	}
	for _, rule := range i.Spec.Rules {
		if rule.HTTP == nil {
			continue
		}
		for n := range rule.HTTP.Paths {
			add(&rule.HTTP.Paths[n].Backend)
		}
	}
	return names
}

func onlyRelaxed(name string) bool {
	return len(checks.Label(name)) == 0 && len(utilvalidation.IsDNS1035Label(name)) > 0
}

func validateIngress(i *networkingv1.Ingress, c ingressCheck) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if len(i.Spec.Rules) == 0 && i.Spec.DefaultBackend == nil {
		errs = append(errs, field.Invalid(at, i.Spec.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if i.Spec.DefaultBackend != nil {
		errs = append(errs, validateBackend(i.Spec.DefaultBackend, at.Child("defaultBackend"), c.service)...)
	}
	for n := range i.Spec.Rules {
		errs = append(errs, validateRule(&i.Spec.Rules[n], at.Child("rules").Index(n), c)...)
	}
	for n, t := range i.Spec.TLS {
		for h, host := range t.Hosts {
			errs = append(errs, validateHost(host, at.Child("tls").Index(n).Child("hosts").Index(h))...)
		}
		if !c.anySecret {
			errs = append(errs, validateSecret(t.SecretName, at.Child("tls").Index(n).Child("secretName"))...)
		}
	}
	if class := i.Spec.IngressClassName; class != nil {
		errs = append(errs, checks.Text(*class, at.Child("ingressClassName"), checks.Subdomain)...)
	}
	return errs
}

func validateHost(host string, at *field.Path) field.ErrorList {
	if isWildcard(host) {
		return checks.Text(host, at, utilvalidation.IsWildcardDNS1123Subdomain)
	}
	return checks.Text(host, at, utilvalidation.IsDNS1123Subdomain)
}

func validateRule(r *networkingv1.IngressRule, at *field.Path, c ingressCheck) field.ErrorList {
	var errs field.ErrorList
	if r.Host != "" {
		if netutils.ParseIPSloppy(r.Host) != nil {
			errs = append(errs, field.Invalid(at.Child("host"), r.Host, "must be a DNS name, not an IP address"))
		}
		errs = append(errs, validateHost(r.Host, at.Child("host"))...)
	}
	if isWildcard(r.Host) && c.anyWildcardRule {
		return errs
	}
	return append(errs, validatePaths(r.HTTP, at.Child("http", "paths"), c.service)...)
}

func validatePaths(http *networkingv1.HTTPIngressRuleValue, at *field.Path, service nameCheck) (errs field.ErrorList) {
	if http == nil {
		return nil
	}
	if len(http.Paths) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	for i := range http.Paths {
		errs = append(errs, validatePath(&http.Paths[i], at.Index(i), service)...)
	}
	return errs
}

func validatePath(p *networkingv1.HTTPIngressPath, at *field.Path, service nameCheck) field.ErrorList {
	known := sets.New(networkingv1.PathTypeExact, networkingv1.PathTypePrefix,
		networkingv1.PathTypeImplementationSpecific)
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
	return append(errs, validateBackend(&p.Backend, at.Child("backend"), service)...)
}

func validateBackend(b *networkingv1.IngressBackend, at *field.Path, service nameCheck) field.ErrorList {
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
		errs = append(errs, checks.Text(b.Service.Name, s.Child("name"), service)...)
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
			errs = append(errs, field.Invalid(at.Child("hostname"), i.Hostname,
				"must be a DNS name, not an IP address"))
		}
	}
	return errs
}

// IngressWarnings tell a new ingress that doesn't know it how its class is named today.
func IngressWarnings(new, old *networkingv1.Ingress) []string {
	if _, ok := new.Annotations[classAnnotation]; !ok || new.Spec.IngressClassName != nil || old != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead",
		classAnnotation)}
}

// IngressStatusWarnings tell of addresses that can be written in a better way.
func IngressStatusWarnings(new, _ *networkingv1.Ingress) []string {
	var out []string
	for n, i := range new.Status.LoadBalancer.Ingress {
		if i.IP != "" {
			out = append(out, utilvalidation.GetWarningsForIP(
				field.NewPath("status", "loadBalancer", "ingress").Index(n), i.IP)...)
		}
	}
	return out
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
	return []any{i.Name, class, hosts(i.Spec.Rules), strings.Join(slices.Compact(addresses), ","), ports,
		show.Age(i.CreationTimestamp)}
}

// hosts names the first three. How many more there are is told if a rule follows them, and counts all rules beyond
// three.
func hosts(rules []networkingv1.IngressRule) string {
	const most = 3
	var list []string
	more := ""
	for _, r := range rules {
		if len(list) == most {
			more = fmt.Sprintf(" + %d more...", len(rules)-most)
			break
		}
		if r.Host != "" {
			list = append(list, r.Host)
		}
	}
	if len(list) == 0 {
		return "*"
	}
	return strings.Join(list, ",") + more
}
