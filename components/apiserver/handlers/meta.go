package handlers

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"quintet.dev/quintet/components/apiserver/kinds"
)

// Generated names end in a random suffix and fit a DNS label.
const (
	suffixLength    = 5
	maxGeneratePart = 63 - suffixLength
)

// birth gives a new object what the system owns of its metadata.
func (c *call) birth(obj kinds.Object) {
	obj.SetUID(types.UID(uuid.NewUUID()))
	obj.SetCreationTimestamp(c.now())
	obj.SetSelfLink("")
	obj.SetResourceVersion("")
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	if base := obj.GetGenerateName(); base != "" && obj.GetName() == "" {
		obj.SetName(generate(base))
	}
}

func generate(base string) string {
	if len(base) > maxGeneratePart {
		base = base[:maxGeneratePart]
	}
	return base + rand.String(suffixLength)
}

// inNamespace makes obj one of the request's namespace, or fails if it says that it belongs elsewhere.
func (c *call) inNamespace(obj metav1.Object) error {
	switch obj.GetNamespace() {
	case c.namespace:
	case "":
		obj.SetNamespace(c.namespace)
	default:
		if c.namespace == "" {
			return apierrors.NewBadRequest("namespace is not allowed on this type")
		}
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// sameName fails if a body names another object than the URL.
func (c *call) sameName(obj metav1.Object) error {
	switch name := obj.GetName(); {
	case name == "":
		return apierrors.NewBadRequest("name must be provided")
	case name != c.name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, c.name))
	}
	if ns := obj.GetNamespace(); ns != "" && ns != c.namespace {
		if c.namespace == "" {
			return apierrors.NewBadRequest("namespace is not allowed on this type")
		}
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", ns, c.namespace))
	}
	return nil
}

func (c *call) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: c.version.Group, Kind: c.kind.Name}
}

// prepareCreate runs a new object through its strategy: what upstream does between admission's two halves.
func (c *call) prepareCreate(obj kinds.Object) error {
	s := &c.kind.Strategy
	if s.PrepareCreate != nil {
		s.PrepareCreate(c.ctx, obj)
	}
	validName := s.ValidateName
	if validName == nil {
		validName = validation.NameIsDNSSubdomain
	}
	errs := validation.ValidateObjectMetaAccessor(obj, c.kind.Namespaced, validName, field.NewPath("metadata"))
	if s.Validate != nil {
		errs = append(errs, s.Validate(c.ctx, obj)...)
	}
	for _, problem := range path.ValidatePathSegmentName(obj.GetName(), false) {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), problem))
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(c.groupKind(), obj.GetName(), distinct(errs))
	}
	if s.Warnings != nil {
		c.warn(s.Warnings(c.ctx, obj, nil))
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// prepareUpdate runs a change through the strategy of this door. obj has its resource version settled.
func (c *call) prepareUpdate(obj, old kinds.Object) error {
	if err := c.inNamespace(obj); err != nil {
		return err
	}
	s := c.strategy
	obj.SetGeneration(old.GetGeneration())
	keepIdentity(obj, old)
	if s.PrepareUpdate != nil {
		s.PrepareUpdate(c.ctx, obj, old)
	}
	keepIdentity(obj, old)
	errs := validation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))
	if s.ValidateUpdate != nil {
		errs = append(errs, s.ValidateUpdate(c.ctx, obj, old)...)
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(c.groupKind(), obj.GetName(), distinct(errs))
	}
	if s.Warnings != nil {
		c.warn(s.Warnings(c.ctx, obj, old))
	}
	if s.Canonicalize != nil {
		s.Canonicalize(obj)
	}
	return nil
}

// keepIdentity restores the metadata that no update changes; clients may leave them out.
func keepIdentity(obj, old metav1.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if t := old.GetCreationTimestamp(); !t.IsZero() {
		obj.SetCreationTimestamp(t)
	}
	if t := old.GetDeletionTimestamp(); !t.IsZero() {
		obj.SetDeletionTimestamp(t)
	}
	if old.GetDeletionGracePeriodSeconds() != nil && obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
	obj.SetSelfLink("")
}

// distinct drops errors that say the same twice, as two validators of one field may.
func distinct(errs field.ErrorList) field.ErrorList {
	seen := make(map[string]bool, len(errs))
	out := errs[:0]
	for _, e := range errs {
		if text := string(e.Type) + e.Error(); !seen[text] {
			seen[text] = true
			out = append(out, e)
		}
	}
	return out
}

// modified is the answer to a write that was based on another version than the current one.
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// settleVersion checks the resource version that a change was based on against the current one.
func (c *call) settleVersion(obj, old kinds.Object) error {
	switch given := obj.GetResourceVersion(); {
	case given == old.GetResourceVersion():
	case given == "" || given == "0":
		if !c.kind.Strategy.UnconditionalUpdate {
			return apierrors.NewInvalid(c.groupKind(), c.name, field.ErrorList{field.Invalid(
				field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
		}
		obj.SetResourceVersion(old.GetResourceVersion())
	default:
		if _, err := strconv.ParseUint(given, 10, 64); err != nil {
			return apierrors.NewInvalid(c.groupKind(), c.name, field.ErrorList{field.Invalid(
				field.NewPath("metadata", "resourceVersion"), given, err.Error())})
		}
		return apierrors.NewConflict(c.resource, c.name, fmt.Errorf("%s", modified))
	}
	return nil
}
