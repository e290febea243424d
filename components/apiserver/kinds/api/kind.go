// Package api says what a row of the table of kinds is: Row is the form in which a group writes one down, and Define
// makes of it the Kind that the rest of the server works with.
package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/component-base/featuregate"
)

// Object is what the API server holds: a versioned Go type of k8s.io/api, or unstructured content for custom resources.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is one row of the table. Rows are immutable once the server runs.
//
// In memory and in storage an object has one Go type, the hub (the version that upstream stores); other served
// versions are converted at the edge. There are no "internal" types.
type Kind struct {
	Name       string // "Pod"
	Resource   string // plural, "pods"
	Singular   string // "pod"
	ShortNames []string
	Categories []string
	Namespaced bool

	// Hub is the version that is held in memory, and stored. It is one of Versions.
	Hub schema.GroupVersion
	// Stored is the version in which objects lie in the store, if that is not the Hub; StoredAsJSON tells that they lie
	// there as JSON though they have a protobuf form.
	Stored       schema.GroupVersion
	StoredAsJSON bool
	// Versions are all group versions under which the kind is served, preferred first. They may span groups: events are
	// served by "" and by events.k8s.io from one stored form.
	Versions []Version
	// RemovedVersions are those that no server of the release serves, preferred or not: what lies in the store in them is
	// read, and patches may make such of an object. Each has but a type, ToHub, which sets the version's defaults and
	// may change its argument, and Check.
	RemovedVersions []Version
	// Gate is the feature that the kind belongs to: it is served only where that is on. "" for most.
	Gate featuregate.Feature
	// Prefix is the place below /registry, as upstream has it: "pods", "services/specs", "minions" (for nodes).
	Prefix string
	// Verbs are those of the main resource, in discovery's spelling and order; nil means all eight.
	Verbs []string
	// CreateFunc makes the kind virtual: create is its only verb, is served by this, and nothing is stored (reviews).
	// It gets a hub object that it owns and may return. Errors are API status errors.
	CreateFunc func(ctx context.Context, obj Object, asked CreateRequest) (Object, error)
	// Read makes the kind virtual in the other direction: get and list are its only verbs, and show what Read finds at
	// that moment, of one name or, for "", of all. Nothing is stored. The caller owns the objects.
	Read func(ctx context.Context, name string) []Object
	// TTL bounds the life of a stored object (events); nil or 0 means for ever.
	TTL func(obj Object) time.Duration

	Strategy     Strategy[Object]
	Subresources []Subresource
	Columns      []metav1.TableColumnDefinition
	// Row returns the cells for Columns, ages as what they are counted from (show.Ago). nil means that there is no
	// Table of the kind.
	Row func(obj Object) []any
	// RowConditions tells of a Table's row what readers may want to hide (pods that have ended); nil means never any.
	RowConditions func(obj Object) []metav1.TableRowCondition

	// RowOrder sorts the rows of a Table of a list; nil leaves them as the list has them.
	RowOrder func(a, b Object) int

	// Fields are the values that field selectors may name, besides metadata.name and metadata.namespace. Each key is a
	// label of the selector, e.g. "spec.nodeName"; nil means there are none.
	Fields map[string]func(obj Object) string
	// Unselectable is the answer to a selector that names another field, which %[1]s or %[1]q stand for, with %[2]s for
	// the group version; "" is the usual one.
	Unselectable string
	// Indexed names those of Fields (or metadata.name) that the cache keeps an index for.
	Indexed []string

	// PlainRows tells that rows have nothing but a name and an age; where there are none, a Table of such has null.
	PlainRows bool

	// FieldAnnotations are annotations that stand for removed fields: they are left out of metadata-only responses.
	FieldAnnotations []string

	// Custom is set for custom resources, and nil for the kinds that are part of the program.
	Custom *Custom

	// OnRead fills in what releases long ago didn't store, in an object that was freshly read from the store; requests
	// go without. nil if there is nothing of the kind.
	OnRead func(hub Object)

	reread, rereadText func(hub Object) // nil for custom resources
}

// Custom is what sets a custom resource apart: its objects are unstructured, known from a schema only, and have no
// protobuf form and no strategic merge. As each object says of which version it is, and each version has a schema that
// takes away what it doesn't know, there is no hub in memory: objects that were read are of the version in which they
// lie in the store, and writes are worked on in the version of the request. FromHub of every version takes one of any
// version; there is no ToHub.
type Custom struct {
	ListKind string
	// Established tells that the definition has all its names: discovery and OpenAPI tell of the resource.
	Established func() bool
	// Settle waits while other servers may not know of the resource yet, so that what is created here is found there.
	// It may be nil.
	Settle func(ctx context.Context)
	// Ending tells that the definition is being deleted: nothing may be created any more.
	Ending func() bool
	// Fault is why no request can be answered, though the definition has its names; nil if they can.
	Fault error
	// Convert makes an object of a version out of one of another, without holding it against a schema.
	Convert func(obj Object, to schema.GroupVersion) (Object, error)
	// Remote tells that a webhook is called for that, whose answer may differ from call to call.
	Remote bool
	// Types describes all versions to structured merge. It is made on first use.
	Types func() (managedfields.TypeConverter, error)
	// Definitions are the OpenAPI schemas of a version, by the names that CustomModel gives. Revision stands for their
	// content, and is the same as long as that is.
	Definitions func(version string, v2 bool) (map[string]json.RawMessage, error)
	Revision    func(version string) string
}

// ConversionError tells why an object of a custom resource can't be had in a version.
type ConversionError struct{ Err error }

func (e *ConversionError) Error() string { return e.Err.Error() }

func (e *ConversionError) Unwrap() error { return e.Err }

// Version is one served form of a kind.
type Version struct {
	schema.GroupVersion
	// New makes an empty object of this version.
	New func() Object
	// ToHub and FromHub convert; both nil for the hub itself. They must not change their argument and may share its
	// memory; the result is not changed afterwards, unless it came fresh from ToHub.
	ToHub   func(obj Object) (Object, error)
	FromHub func(hub Object) (Object, error)
	// Check tells what of a freshly decoded object can't be understood, though its types are right: upstream's
	// conversions fail of such. nil if there is nothing of the kind.
	Check func(obj Object) error
	// Default sets the defaults of this version on a freshly decoded object
	// (https://kubernetes.io/docs/reference/using-api/api-concepts/#default-values); idempotent.
	Default func(obj Object)
	// Fields translates selector labels of this version into those of Kind.Fields; nil means they are the same.
	Fields map[string]string
	// DeprecationWarning is sent with every request for this version, "" for none.
	DeprecationWarning string
	// RemovedRelease is the release that no longer has the version, "" if none is named.
	RemovedRelease string
	// Unserved versions are only for what is stored in them.
	Unserved bool

	// Twin tells that the type is laid out as that of the hub: see TwinVersion.
	Twin bool

	// The rest is for custom resources, whose versions may differ in more than their fields.

	// Subresources are those of this version alone.
	Subresources []Subresource
	// Columns and Row take the place of the kind's. Row gets a hub object.
	Columns []metav1.TableColumnDefinition
	Row     func(hub Object) []any
	// Coerce does for unstructured content what decoding into a Go type does: it drops what the schema of the version
	// that the content says it is of doesn't know, and returns its paths. An object from the store is repaired where
	// one from a client is refused.
	Coerce func(obj Object, stored bool) (unknown []string, err error)
}

// AllVerbs are the verbs of a kind that supports everything, in discovery's order.
func AllVerbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
}

// Virtual reports whether nothing of the kind is stored.
func (k *Kind) Virtual() bool { return k.CreateFunc != nil || k.Read != nil }

// FieldSet returns the values of all selectable fields of obj.
func (k *Kind) FieldSet(obj Object) fields.Set {
	set := make(fields.Set, len(k.Fields)+2)
	set["metadata.name"] = obj.GetName()
	if k.Namespaced {
		set["metadata.namespace"] = obj.GetNamespace()
	}
	for name, value := range k.Fields {
		set[name] = value(obj)
	}
	return set
}

// StoredAs is the kind under which objects lie in the store.
func (k *Kind) StoredAs() schema.GroupVersionKind {
	if !k.Stored.Empty() {
		return k.Stored.WithKind(k.Name)
	}
	return k.Hub.WithKind(k.Name)
}

// HubVersion returns the version that is in memory.
func (k *Kind) HubVersion() *Version {
	for i := range k.Versions {
		if k.Versions[i].GroupVersion == k.Hub {
			return &k.Versions[i]
		}
	}
	return nil
}

// Reread makes of a hub object that was written what is read from the store: without what the store can't keep, and
// with the defaults that its strategy may have taken away. asText tells that the store has JSON, or YAML, of kinds that
// have a protobuf form, too.
func (k *Kind) Reread(hub Object, asText bool) {
	if reread := k.reread; reread != nil {
		if asText {
			reread = k.rereadText
		}
		reread(hub)
	}
	if v := k.HubVersion(); v.Default != nil {
		v.Default(hub)
	}
	if k.OnRead != nil {
		k.OnRead(hub)
	}
}

// ToStore makes what is stored of the object that a write has come to: the same, but for custom resources, which are
// worked on in the version of the request.
func (k *Kind) ToStore(obj Object) (Object, error) {
	if k.Custom == nil {
		return obj, nil
	}
	return k.HubVersion().FromHub(obj)
}

// Version returns the served version gv, or nil.
func (k *Kind) Version(gv schema.GroupVersion) *Version {
	for i := range k.Versions {
		if k.Versions[i].GroupVersion == gv {
			return &k.Versions[i]
		}
	}
	return nil
}

// Readable returns the version gv, be it served or a former one, or nil.
func (k *Kind) Readable(gv schema.GroupVersion) *Version {
	if v := k.Version(gv); v != nil {
		return v
	}
	for i := range k.RemovedVersions {
		if k.RemovedVersions[i].GroupVersion == gv {
			return &k.RemovedVersions[i]
		}
	}
	return nil
}

// SubresourcesIn returns the subresources that a version serves.
func (k *Kind) SubresourcesIn(gv schema.GroupVersion) []Subresource {
	if v := k.Version(gv); v != nil && len(v.Subresources) > 0 {
		return v.Subresources
	}
	return k.Subresources
}

// ListKind is the kind of lists of k.
func (k *Kind) ListKind() string {
	if k.Custom != nil {
		return k.Custom.ListKind
	}
	return k.Name + "List"
}

// CustomModel names the OpenAPI schema of a custom resource.
func CustomModel(kind schema.GroupVersionKind) string {
	parts := strings.Split(kind.Group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + kind.Version + "." + kind.Kind
}

// Subresource returns the subresource of that name, or nil.
func (k *Kind) Subresource(name string) *Subresource {
	for i := range k.Subresources {
		if k.Subresources[i].Name == name {
			return &k.Subresources[i]
		}
	}
	return nil
}
