package resource

import (
	"strings"

	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/checks"
)

// label checks the name of something inside an object: a request, a device, a counter.
func label(name string, at *field.Path) field.ErrorList {
	return checks.Text(name, at, utilvalidation.IsDNS1123Label)
}

// requiredLabel is label, for names that are missed before they are checked.
func requiredLabel(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return label(name, at)
}

// driverName checks the name of a driver, in any case.
func driverName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DriverNameMaxLength))
	}
	for _, msg := range utilvalidation.IsDNS1123Subdomain(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}

// poolName checks the name of a pool: subdomains, separated by slashes.
func poolName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.PoolNameMaxLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.PoolNameMaxLength))
	}
	for part := range strings.SplitSeq(name, "/") {
		errs = append(errs, checks.Text(part, at, utilvalidation.IsDNS1123Subdomain)...)
	}
	return errs
}

// qualifiedName checks the name of an attribute or capacity: an identifier, or one with a domain.
func qualifiedName(name string, at *field.Path) field.ErrorList {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return identifier(name, at)
	case 2:
		var errs field.ErrorList
		if parts[0] == "" {
			errs = append(errs, field.Invalid(at, "", "the domain must not be empty"))
		} else {
			errs = driverName(parts[0], at)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(at, "", "the name must not be empty"))
		}
		return append(errs, identifier(parts[1], at)...)
	}
	return nil
}

// fullyQualifiedName is qualifiedName with a domain.
func fullyQualifiedName(name resourcev1.FullyQualifiedName, at *field.Path) field.ErrorList {
	errs := qualifiedName(string(name), at)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(at, name,
			"a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func identifier(id string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, checks.Text(id, at, utilvalidation.IsCIdentifier)...)
}

// shareID checks the identity of a share of a device.
func shareID(id string, at *field.Path) field.ErrorList {
	parsed, err := uuid.Parse(id)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, id, "error validating uid: "+err.Error())}
	case parsed.String() != id:
		return field.ErrorList{field.Invalid(at, id, "uid must be in RFC 4122 normalized form, "+
			"`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")}
	}
	return nil
}

// labelKey checks the key of a taint or the type of a condition.
func labelKey(key string, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelName(key, at)
}

// distinct checks each item of a list, and then that none is there twice. Of a list that is too long nothing else is
// told.
func distinct[T any, K comparable](list []T, max int, at *field.Path, key func(T) K,
	check func(T, *field.Path) field.ErrorList) field.ErrorList {
	errs := each(list, max, at, check)
	if len(list) > max {
		return errs
	}
	return append(errs, twice(list, at, key)...)
}

// twice tells of the items of a list that were there before.
func twice[T any, K comparable](list []T, at *field.Path, key func(T) K) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[K]()
	for i, item := range list {
		k := key(item)
		if seen.Has(k) {
			errs = append(errs, field.Duplicate(at.Index(i), k))
		}
		seen.Insert(k)
	}
	return errs
}

// each checks the items of a list that isn't too long.
func each[T any](list []T, max int, at *field.Path, check func(T, *field.Path) field.ErrorList) field.ErrorList {
	if len(list) > max {
		return field.ErrorList{field.TooMany(at, len(list), max)}
	}
	var errs field.ErrorList
	for i, item := range list {
		errs = append(errs, check(item, at.Index(i))...)
	}
	return errs
}

func same[T any](v T) T { return v }
