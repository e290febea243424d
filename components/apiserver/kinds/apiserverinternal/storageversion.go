package apiserverinternal

import (
	"context"
	"fmt"
	"slices"
	"strings"

	internalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/checks"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func storageVersions() *api.Kind {
	type version = internalv1alpha1.StorageVersion
	return api.Define(api.Row[*version]{
		Name: "StorageVersion", Resource: "storageversions", Cluster: true,
		Hub: internalv1alpha1.SchemeGroupVersion,
		Strategy: api.Strategy[*version]{
			PrepareCreate: func(_ context.Context, v *version) { v.Status = internalv1alpha1.StorageVersionStatus{} },
			PrepareUpdate: func(_ context.Context, new, old *version) { new.Status = old.Status },
			ValidateAmong: func(_ context.Context, _, _ *version, _ api.MetaErrors) field.ErrorList { return nil },
			ValidateName:  ValidName,
			Reset:         []string{"status"},
		},
		Status: &api.Strategy[*version]{
			PrepareUpdate: func(_ context.Context, new, old *version) {
				new.Spec = old.Spec
				metav1.ResetObjectMetaForStatus(&new.ObjectMeta, &old.ObjectMeta)
			},
			ValidateAmong: func(_ context.Context, new, old *version, _ api.MetaErrors) field.ErrorList {
				return ValidateStatus(new, old)
			},
			Reset: []string{"metadata", "spec"},
		},
		Columns: Columns(),
		Row:     Row,
	})
}

type storageVersion = internalv1alpha1.StorageVersion

// ValidName checks a name: group and resource, with a dot between.
func ValidName(name string, _ bool) []string {
	dot := strings.LastIndex(name, ".")
	if dot < 0 {
		return []string{"name must be in the form of <group>.<resource>"}
	}
	return append(prefixed("the group segment ", utilvalidation.IsDNS1123Subdomain(name[:dot])),
		prefixed("the resource segment ", utilvalidation.IsDNS1035Label(name[dot+1:]))...)
}

// ValidateStatus checks a change of the status.
func ValidateStatus(new, _ *storageVersion) field.ErrorList {
	path, s := field.NewPath("status"), &new.Status
	var errs field.ErrorList
	servers := sets.New[string]()
	for i := range s.StorageVersions {
		v, at := &s.StorageVersions[i], path.Child("storageVersions").Index(i)
		if servers.Has(v.APIServerID) {
			errs = append(errs, field.Duplicate(at.Child("apiServerID"), v.APIServerID))
		}
		servers.Insert(v.APIServerID)
		errs = append(errs, validateServer(v, at)...)
	}
	errs = append(errs, validateCommon(s, path.Child("commonEncodingVersion"))...)
	return append(errs, validateConditions(s.Conditions, path)...)
}

func validateServer(v *internalv1alpha1.ServerStorageVersion, at *field.Path) field.ErrorList {
	errs := checks.Text(v.APIServerID, at.Child("apiServerID"), utilvalidation.IsDNS1123Subdomain)
	errs = append(errs, validateVersion(v.EncodingVersion, at.Child("encodingVersion"))...)
	for i, d := range v.DecodableVersions {
		errs = append(errs, validateVersion(d, at.Child("decodableVersions").Index(i))...)
	}
	if !slices.Contains(v.DecodableVersions, v.EncodingVersion) {
		errs = append(errs, field.Invalid(at.Child("decodableVersions"), v.DecodableVersions,
			"decodableVersions must include encodingVersion "+v.EncodingVersion))
	}
	for i, s := range v.ServedVersions {
		at := at.Child("servedVersions").Index(i)
		errs = append(errs, validateVersion(s, at)...)
		if !slices.Contains(v.DecodableVersions, s) {
			errs = append(errs, field.Invalid(at, s,
				fmt.Sprintf("individual served version : %s must be included in decodableVersions : %s", s,
					v.DecodableVersions)))
		}
	}
	return errs
}

// validateCommon checks that the version in which all servers store is what is told of it.
func validateCommon(s *internalv1alpha1.StorageVersionStatus, at *field.Path) field.ErrorList {
	agreed := len(s.StorageVersions) > 0
	for i := range s.StorageVersions {
		agreed = agreed && s.StorageVersions[i].EncodingVersion == s.StorageVersions[0].EncodingVersion
	}
	told := s.CommonEncodingVersion
	switch {
	case !agreed && told != nil:
		return field.ErrorList{field.Invalid(at, *told,
			"should be nil if servers do not agree on the same encoding version, or if there is no server reporting the "+
				"supported versions yet")}
	case !agreed:
		return nil
	}
	switch common := s.StorageVersions[0].EncodingVersion; {
	case told == nil:
		return field.ErrorList{field.Invalid(at, told, "the common encoding version is "+common)}
	case *told != common:
		return field.ErrorList{field.Invalid(at, *told, "the actual common encoding version is "+common)}
	}
	return nil
}

// validateConditions names conditions as if they were the items of the status, as upstream does.
func validateConditions(list []internalv1alpha1.StorageVersionCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[internalv1alpha1.StorageVersionConditionType]int{}
	for i, c := range list {
		at := path.Index(i)
		if first, ok := seen[c.Type]; ok {
			errs = append(errs, field.Invalid(at.Child("type"), string(c.Type),
				fmt.Sprintf("the type of the condition is not unique, it also appears in conditions[%d]", first)))
		}
		seen[c.Type] = i
		errs = append(errs, checks.Text(string(c.Type), at.Child("type"), utilvalidation.IsQualifiedName)...)
		errs = append(errs, checks.Text(string(c.Status), at.Child("status"), utilvalidation.IsQualifiedName)...)
		if c.Reason == "" {
			errs = append(errs, field.Required(at.Child("reason"), ""))
		}
		if c.Message == "" {
			errs = append(errs, field.Required(at.Child("message"), ""))
		}
	}
	return errs
}

func validateVersion(apiVersion string, at *field.Path) field.ErrorList {
	msgs := versionFaults(apiVersion)
	if len(msgs) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, apiVersion, strings.Join(msgs, ","))}
}

func versionFaults(apiVersion string) []string {
	parts := strings.Split(apiVersion, "/")
	if len(parts) > 2 {
		const form = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an " +
			"alphabetic character, and end with an alphanumeric character"
		return []string{"an apiVersion is " +
			utilvalidation.RegexError(form, "[a-z]([-a-z0-9]*[a-z0-9])?", "my-name", "abc-123") +
			" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"}
	}
	var out []string
	if len(parts) == 2 {
		out = part("group part: ", parts[0], utilvalidation.IsDNS1123Subdomain)
	}
	return append(out, part("version part: ", parts[len(parts)-1], utilvalidation.IsDNS1035Label)...)
}

func part(prefix, text string, check func(string) []string) []string {
	if text == "" {
		return []string{prefix + utilvalidation.EmptyError()}
	}
	return prefixed(prefix, check(text))
}

func prefixed(prefix string, msgs []string) []string {
	for i := range msgs {
		msgs[i] = prefix + msgs[i]
	}
	return msgs
}

// Columns are the columns of storage versions.
func Columns() show.Columns {
	doc := internalv1alpha1.StorageVersionStatus{}.SwaggerDoc()
	return show.Name().String("CommonEncodingVersion", doc["commonEncodingVersion"]).String("StorageVersions",
		doc["storageVersions"]).Age()
}

// Row are the cells of a storage version.
func Row(v *storageVersion) []any {
	var servers []string
	for _, s := range v.Status.StorageVersions {
		servers = append(servers, s.APIServerID+"="+s.EncodingVersion)
	}
	return []any{v.Name, show.Or(v.Status.CommonEncodingVersion, show.Unset), show.Few(servers, show.Unset),
		show.Age(v.CreationTimestamp)}
}
