package networking

import (
	"net/netip"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	networkingv1beta1 "k8s.io/api/networking/v1beta1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func ipAddresses() *api.Kind {
	return api.Define(api.Row[*networkingv1.IPAddress]{
		Name: "IPAddress", Resource: "ipaddresses", ShortNames: []string{"ip"}, Cluster: true,
		Hub: networkingv1.SchemeGroupVersion,
		Others: []api.Version{api.TwinVersion[*networkingv1beta1.IPAddress, *networkingv1.IPAddress](
			networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*networkingv1.IPAddress]{
			Validate:            api.OfObject(ValidateAddress),
			ValidateAmong:       api.WholeFirst(api.IgnoreOld(ValidateAddress), ValidateAddressChange),
			ValidateName:        ValidateAddressName,
			NoGeneratedNames:    true,
			UnconditionalUpdate: true,
		},
		Columns: AddressColumns(),
		Row:     AddressRow,
	})
}

var cidrParts = api.Parts[*networkingv1.ServiceCIDR, networkingv1.ServiceCIDRSpec, networkingv1.ServiceCIDRStatus]{
	Spec:   func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRSpec { return &c.Spec },
	Status: func(c *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDRStatus { return &c.Status },
}

func serviceCIDRs(deps api.Deps) *api.Kind {
	s := api.Strategy[*networkingv1.ServiceCIDR]{
		PrepareCreate:       cidrParts.PlainCreate,
		PrepareUpdate:       cidrParts.KeepStatus,
		Validate:            api.OfObject(ValidateCIDR),
		ValidateUpdate:      api.OfChange(ValidateCIDRUpdate),
		ValidateName:        validation.NameIsDNSSubdomain,
		UnconditionalUpdate: true,
		Reset:               []string{"status"},
	}
	if deps.OpenCIDRStatus {
		s.PrepareCreate, s.PrepareUpdate, s.Reset = nil, nil, nil
	}
	return api.Define(api.Row[*networkingv1.ServiceCIDR]{
		Name: "ServiceCIDR", Resource: "servicecidrs", Cluster: true,
		Hub: networkingv1.SchemeGroupVersion,
		Others: []api.Version{api.TwinVersion[*networkingv1beta1.ServiceCIDR, *networkingv1.ServiceCIDR](
			networkingv1beta1.SchemeGroupVersion, nil)},
		Strategy: s,
		Status: &api.Strategy[*networkingv1.ServiceCIDR]{
			PrepareUpdate: cidrParts.StatusUpdateOnly,
			Reset:         []string{"spec", "metadata"},
		},
		Columns: CIDRColumns(),
		Row:     CIDRRow,
	})
}

// ValidateAddressName checks the name of an IPAddress: the address itself, in canonical form.
func ValidateAddressName(name string, _ bool) []string {
	var out []string
	for _, err := range utilvalidation.IsValidIP(nil, name) {
		out = append(out, err.Detail)
	}
	return out
}

// ValidateAddress checks an IPAddress.
func ValidateAddress(a *networkingv1.IPAddress) field.ErrorList {
	at := field.NewPath("spec", "parentRef")
	r := a.Spec.ParentRef
	if r == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if r.Group != "" {
		errs = append(errs, checks.Text(r.Group, at.Child("group"), utilvalidation.IsDNS1123Subdomain)...)
	}
	segment := func(name, value string, required bool) {
		if value == "" {
			if required {
				errs = append(errs, field.Required(at.Child(name), ""))
			}
			return
		}
		errs = append(errs, checks.Text(value, at.Child(name), path.IsValidPathSegmentName)...)
	}
	segment("resource", r.Resource, true)
	segment("name", r.Name, true)
	segment("namespace", r.Namespace, false)
	return errs
}

// ValidateAddressChange checks a change alone: the owner stays.
func ValidateAddressChange(new, old *networkingv1.IPAddress) field.ErrorList {
	if apiequality.Semantic.DeepEqual(new.Spec.ParentRef, old.Spec.ParentRef) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "parentRef"), checks.Unversioned(new.Spec.ParentRef),
		"field is immutable")}
}

// AddressColumns are the columns of IP addresses. Their rows have a cell more, as upstream's.
func AddressColumns() show.Columns {
	return show.Name().String("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"])
}

// AddressRow are the cells of an IP address.
func AddressRow(a *networkingv1.IPAddress) []any {
	parent := show.None
	if r := a.Spec.ParentRef; r != nil {
		parts := []string{strings.ToLower(schema.GroupResource{Group: r.Group, Resource: r.Resource}.String())}
		for _, p := range []string{r.Namespace, r.Name} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		parent = strings.Join(parts, "/")
	}
	return []any{a.Name, parent, show.Age(a.CreationTimestamp)}
}

// ValidateCIDR checks a range of service addresses.
func ValidateCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
	at := field.NewPath("spec", "cidrs")
	switch n := len(c.Spec.CIDRs); {
	case n == 0:
		return field.ErrorList{field.Required(at, "at least one CIDR required")}
	case n > 2:
		return field.ErrorList{field.Invalid(at, checks.Unversioned(c.Spec), "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	var families []bool
	for i, text := range c.Spec.CIDRs {
		errs = append(errs, utilvalidation.IsValidCIDR(at.Index(i), text)...)
		if p, err := netip.ParsePrefix(text); err == nil {
			families = append(families, p.Addr().Is4())
		}
	}
	if len(families) == 2 && families[0] == families[1] {
		errs = append(errs, field.Invalid(at, c.Spec.CIDRs,
			"may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
	}
	return errs
}

// ValidateCIDRUpdate checks a change: ranges stay, but that one of the other family may be added.
func ValidateCIDRUpdate(new, old *networkingv1.ServiceCIDR) field.ErrorList {
	at := field.NewPath("spec", "cidrs")
	is, was := new.Spec.CIDRs, old.Spec.CIDRs
	if len(is) != len(was) && (len(was) != 1 || len(is) != 2) {
		return validation.ValidateImmutableField(is, was, at)
	}
	var errs field.ErrorList
	for i := range was {
		errs = append(errs, validation.ValidateImmutableField(is[i], was[i], at.Index(i))...)
	}
	if len(is) > len(was) {
		errs = append(errs, ValidateCIDR(new)...)
	}
	return errs
}

// CIDRColumns are the columns of service CIDRs.
func CIDRColumns() show.Columns {
	return show.Name().String("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]).Age()
}

// CIDRRow are the cells of a service CIDR.
func CIDRRow(c *networkingv1.ServiceCIDR) []any {
	return []any{c.Name, strings.Join(c.Spec.CIDRs, ","), show.Age(c.CreationTimestamp)}
}
