package crd

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/utils/clock"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	definition = apiextensionsv1.CustomResourceDefinition
	condition  = apiextensionsv1.CustomResourceDefinitionCondition
)

// taken are the names that a group's definitions have. Those of a definition itself are among them: one that it has for
// something else isn't free for it either.
type taken struct{ resources, kinds sets.Set[string] }

func takenBy(crds []*definition, group string) taken {
	t := taken{sets.New[string](), sets.New[string]()}
	for _, crd := range crds {
		if crd.Spec.Group != group {
			continue
		}
		n := crd.Status.AcceptedNames
		t.resources.Insert(n.Plural, n.Singular)
		t.resources.Insert(n.ShortNames...)
		t.kinds.Insert(n.Kind, n.ListKind)
	}
	return t
}

// accept decides which of the names wanted a definition gets, and says so in its status. Names that it has it keeps
// until it gets the new ones. A definition that gets its first names is to be served before it is established.
func accept(crd *definition, t taken) {
	wants, has := crd.Spec.Names, crd.Status.AcceptedNames.DeepCopy()
	c := condition{
		Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "NoConflicts",
		Message: "no conflicts found",
	}
	refuse := func(what string, err error) {
		c.Status, c.Reason, c.Message = apiextensionsv1.ConditionFalse, what+"Conflict", err.Error()
	}
	settle := func(what, wanted string, has *string, used sets.Set[string]) {
		if err := free(wanted, *has, used); err != nil {
			refuse(what, err)
			return
		}
		*has = wanted
	}
	settle("Plural", wants.Plural, &has.Plural, t.resources)
	settle("Singular", wants.Singular, &has.Singular, t.resources)
	var problems []error
	for _, name := range wants.ShortNames {
		if !slices.Contains(has.ShortNames, name) {
			if err := free(name, "", t.resources); err != nil {
				problems = append(problems, err)
			}
		}
	}
	if err := utilerrors.NewAggregate(problems); err != nil {
		refuse("ShortNames", err)
	} else {
		has.ShortNames = wants.ShortNames
	}
	settle("Kind", wants.Kind, &has.Kind, t.kinds)
	settle("ListKind", wants.ListKind, &has.ListKind, t.kinds)
	has.Categories = wants.Categories
	before := apihelpers.FindCRDCondition(crd, apiextensionsv1.NamesAccepted)
	if apihelpers.IsCRDConditionEquivalent(&c, before) &&
		apiequality.Semantic.DeepEqual(*has, crd.Status.AcceptedNames) {
		return
	}
	crd.Status.AcceptedNames = *has
	apihelpers.SetCRDCondition(crd, c)
	switch established := apihelpers.FindCRDCondition(crd, apiextensionsv1.Established); {
	case established != nil && established.Status == apiextensionsv1.ConditionTrue:
	case accepted(crd):
		setEstablished(crd, apiextensionsv1.ConditionFalse, "Installing", namesAccepted)
	case established == nil:
		setEstablished(crd, apiextensionsv1.ConditionFalse, "NotAccepted", "not all names are accepted")
	}
}

const namesAccepted = "the initial names have been accepted"

func setEstablished(crd *definition, status apiextensionsv1.ConditionStatus, reason, message string) {
	apihelpers.SetCRDCondition(crd,
		condition{Type: apiextensionsv1.Established, Status: status, Reason: reason, Message: message})
}

func free(wanted, has string, used sets.Set[string]) error {
	if wanted != has && used.Has(wanted) {
		return fmt.Errorf("%q is already in use", wanted)
	}
	return nil
}

// establish says in the status that the resource is served. It never takes that back.
func establish(crd *definition) {
	if !hasCA(crd) {
		setEstablished(crd, apiextensionsv1.ConditionFalse, "InvalidCABundle",
			"The conversion webhook CABundle is invalid")
		return
	}
	setEstablished(crd, apiextensionsv1.ConditionTrue, "InitialNamesAccepted", namesAccepted)
}

// hasCA tells whether the certificates by which a conversion webhook is known can be read, if there is one.
func hasCA(crd *definition) bool {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return true
	}
	return len(webhook.ValidateCABundle(nil, c.Webhook.ClientConfig.CABundle)) == 0
}

// approve says in the status whether a group of the Kubernetes project has the annotation that it must have
// (https://github.com/kubernetes/enhancements/pull/1111).
func approve(crd *definition) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	state, reason := apihelpers.GetAPIApprovalState(crd.Annotations)
	c := condition{Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Message: reason}
	switch state {
	case apihelpers.APIApprovalInvalid:
		c.Status, c.Reason = apiextensionsv1.ConditionFalse, "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		c.Status, c.Reason = apiextensionsv1.ConditionFalse, "MissingAnnotation"
	case apihelpers.APIApproved:
		c.Status, c.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		c.Status, c.Reason = apiextensionsv1.ConditionFalse, "UnapprovedAnnotation"
	}
	apihelpers.SetCRDCondition(crd, c)
}

func accepted(crd *definition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.NamesAccepted)
}

func established(crd *definition) bool {
	return apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established)
}

// servable tells whether requests are answered.
func servable(crd *definition) bool {
	return accepted(crd) || established(crd)
}

// conditionEvaluator decides the conditions of definitions. It remembers the results of unchanged ones: there
// may be hundreds, of which one changes.
type conditionEvaluator struct {
	known map[*definition]*condition // what of a schema isn't structural

	// pause is for how long definitions have their first names before they are established; clock is asked only if
	// there is one.
	pause   time.Duration
	clock   clock.Clock
	waiting map[types.UID]time.Time // since when they wait for that
}

// decide brings the status of all definitions up to date. The result holds copies of those that changed, of which all
// but the status is shared; all is what there is after that, older definitions first.
func (j *conditionEvaluator) decide(crds []*definition) (all []*definition, changed map[string]bool) {
	all, changed = slices.Clone(crds), map[string]bool{}
	slices.SortFunc(all, func(a, b *definition) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	known, waiting := make(map[*definition]*condition, len(all)), map[types.UID]time.Time{}
	for i, crd := range all {
		violated, ok := j.known[crd]
		if !ok {
			violated = violations(crd)
		}
		known[crd] = violated
		next := &definition{TypeMeta: crd.TypeMeta, ObjectMeta: crd.ObjectMeta, Spec: crd.Spec}
		crd.Status.DeepCopyInto(&next.Status)
		if !apiequality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames) {
			accept(next, takenBy(all, crd.Spec.Group))
		}
		if accepted(crd) && accepted(next) && !established(crd) { // in a step of its own: clients see both
			if since, ripe := j.waits(crd); ripe {
				establish(next)
			} else {
				waiting[crd.UID] = since
			}
		}
		approve(next)
		structured(next, violated)
		if !sameStatus(&next.Status, &crd.Status) {
			all[i], changed[crd.Name] = next, true
		}
	}
	j.known, j.waiting = known, waiting
	return all, changed
}

// waits tells since when a definition waits to be established, and whether that is long enough.
func (j *conditionEvaluator) waits(crd *definition) (since time.Time, ripe bool) {
	if j.pause == 0 {
		return since, true
	}
	since, ok := j.waiting[crd.UID]
	if !ok {
		since = j.clock.Now()
	}
	return since, j.clock.Since(since) >= j.pause
}

// due is when the next definition has waited for long enough; never if none waits.
func (j *conditionEvaluator) due() <-chan time.Time {
	if len(j.waiting) == 0 {
		return nil
	}
	first := slices.MinFunc(slices.Collect(maps.Values(j.waiting)), time.Time.Compare)
	return j.clock.After(j.pause - j.clock.Since(first))
}

// sameStatus compares all but the times of transitions.
func sameStatus(a, b *apiextensionsv1.CustomResourceDefinitionStatus) bool {
	return apiequality.Semantic.DeepEqual(timeless(a), timeless(b))
}

func timeless(s *apiextensionsv1.CustomResourceDefinitionStatus) *apiextensionsv1.CustomResourceDefinitionStatus {
	s = s.DeepCopy()
	for i := range s.Conditions {
		s.Conditions[i].LastTransitionTime = metav1.NewTime(time.Time{})
	}
	return s
}
