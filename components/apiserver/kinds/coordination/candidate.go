package coordination

import (
	"strings"

	"github.com/blang/semver/v4"
	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1alpha2 "k8s.io/api/coordination/v1alpha2"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/show"
)

func leaseCandidates() *api.Kind {
	type candidate = coordinationv1beta1.LeaseCandidate
	return api.Define(api.Row[*candidate]{
		Name: "LeaseCandidate", Resource: "leasecandidates",
		Hub: coordinationv1beta1.SchemeGroupVersion,
		Others: []api.Version{api.TwinVersion[*coordinationv1alpha2.LeaseCandidate, *candidate](
			coordinationv1alpha2.SchemeGroupVersion, nil)},
		Strategy: api.Strategy[*candidate]{
			AnyFinalizer:   true,
			Validate:       api.OfObject(ValidateCandidate),
			ValidateUpdate: api.OfChange(ValidateCandidateUpdate),
			ValidateName:   ValidCandidateName,
			CreateOnUpdate: true,
		},
		Columns: CandidateColumns(),
		Row:     CandidateRow,
	})
}

// ValidCandidateName checks the name of a candidate, which may be any key of a config map.
func ValidCandidateName(name string, _ bool) []string { return utilvalidation.IsConfigMapKey(name) }

// ValidateCandidate checks a candidate for leadership.
func ValidateCandidate(c *coordinationv1beta1.LeaseCandidate) field.ErrorList {
	var errs field.ErrorList
	path, s := field.NewPath("spec"), &c.Spec
	if s.LeaseName == "" {
		errs = append(errs, field.Required(path.Child("leaseName"), ""))
	}
	emulated, err := semver.Parse(s.EmulationVersion)
	if err != nil && s.EmulationVersion != "" {
		errs = append(errs, field.Invalid(path.Child("emulationVersion"), s.EmulationVersion,
			"must be a valid semantic version"))
	}
	binary, err := semver.Parse(s.BinaryVersion)
	switch at := path.Child("binaryVersion"); {
	case s.BinaryVersion == "":
		errs = append(errs, field.Required(at, ""))
	case err != nil:
		errs = append(errs, field.Invalid(at, s.BinaryVersion, "must be a valid semantic version"))
	}
	if s.BinaryVersion != "" && s.EmulationVersion != "" && binary.LT(emulated) {
		errs = append(errs, field.Invalid(path.Child("binaryVersion"), s.BinaryVersion,
			"must be greater than or equal to `emulationVersion`"))
	}
	if s.Strategy == "" {
		return append(errs, field.Required(path.Child("strategy"), ""))
	}
	if s.Strategy == coordinationv1.OldestEmulationVersion && emulated.EQ(semver.Version{}) {
		errs = append(errs, field.Required(path.Child("emulationVersion"),
			"must be specified when `strategy` is 'OldestEmulationVersion'"))
	}
	return append(errs, validateStrategy(s.Strategy, path.Child("strategy", "strategy"))...)
}

// validateStrategy takes Kubernetes' own strategy, and those of others with a domain.
func validateStrategy(s coordinationv1.CoordinatedLeaseStrategy, at *field.Path) field.ErrorList {
	if !strings.Contains(string(s), "/") {
		if s != coordinationv1.OldestEmulationVersion {
			return field.ErrorList{field.NotSupported(at, s,
				[]coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion})}
		}
		return nil
	}
	var errs field.ErrorList
	for _, msg := range utilvalidation.IsQualifiedName(string(s)) {
		errs = append(errs, field.Invalid(at, s, msg))
	}
	return errs
}

// ValidateCandidateUpdate checks a change: the lease stays.
func ValidateCandidateUpdate(new, old *coordinationv1beta1.LeaseCandidate) field.ErrorList {
	return append(ValidateCandidate(new),
		validation.ValidateImmutableField(new.Spec.LeaseName, old.Spec.LeaseName,
			field.NewPath("spec", "leaseName"))...)
}

// CandidateColumns are the columns of candidates.
func CandidateColumns() show.Columns {
	return show.Name().
		String("LeaseName", coordinationv1alpha2.LeaseCandidateSpec{}.SwaggerDoc()["leaseName"]).
		String("BinaryVersion", "").
		String("EmulationVersion", "").
		Age()
}

// CandidateRow are the cells of a candidate.
func CandidateRow(c *coordinationv1beta1.LeaseCandidate) []any {
	return []any{c.Name, c.Spec.LeaseName, c.Spec.BinaryVersion, c.Spec.EmulationVersion, show.Age(c.CreationTimestamp)}
}
