package api

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Strategy is how a kind behaves under writes. A row is written with hooks of its hub type P; the table has those of
// any Object, which Erase makes of them. Every hook may be nil. All take hub objects; those named obj or new may be
// changed, old must not. Metadata common to all kinds (uid, timestamps, generateName, deletion, managed fields, the
// immutability of name and namespace) is the registry's work, not the strategy's.
type Strategy[P Object] struct {
	// PrepareCreate drops what a creator may not set (status) and sets what the system owns (generation 1).
	PrepareCreate func(ctx context.Context, obj P)
	// PrepareUpdate restores what this update may not touch and raises the generation when the spec changed.
	PrepareUpdate func(ctx context.Context, new, old P)
	// Authorize tells what of a new object its creator has no right to, or what else clients are told of first.
	Authorize func(ctx context.Context, obj P) field.ErrorList
	// Validate checks an object to be created, besides its ObjectMeta, which the registry checks with ValidateName.
	Validate func(ctx context.Context, obj P) field.ErrorList
	// ValidateUpdate checks a change, besides ObjectMeta.
	ValidateUpdate func(ctx context.Context, new, old P) field.ErrorList
	// ValidateAmong stands in the place of ValidateUpdate and Meta where upstream tells of faults of the metadata amid
	// the others.
	ValidateAmong func(ctx context.Context, new, old P, meta MetaErrors) field.ErrorList
	// ValidateName checks metadata.name (prefix: it is a generateName); nil means a DNS subdomain.
	ValidateName func(name string, prefix bool) []string
	// NoGeneratedNames: a generateName is the name, as none can be made out of it.
	NoGeneratedNames bool
	// Meta and AnyFinalizer tell how the kind's own validation looks at metadata.
	Meta         MetaCheck
	AnyFinalizer bool // also at names without a domain that are none of Kubernetes' own
	// Warnings are told to the client with a request that succeeds. old is nil on create.
	Warnings func(ctx context.Context, new, old P) []string
	// Canonicalize runs after validation, before storing.
	Canonicalize func(obj P)
	// Allocate takes what must be unique over objects (cluster IPs, node ports). It is called before all other
	// hooks, so that these see what will be stored, with old nil on create and new nil on delete; new still changes
	// until done is called, exactly once, with what became of the write. dryRun must leave no trace.
	Allocate func(ctx context.Context, new, old P, dryRun bool) (done func(Outcome), err error)
	// Stored is told of a change that is stored. Neither object is to be changed.
	Stored func(new, old P)

	// CreateOnUpdate: PUT may create (leases, endpoints, ... as upstream's AllowCreateOnUpdate), also through a
	// subresource. CreateOnApply: apply may, through a subresource; it always may otherwise.
	CreateOnUpdate bool
	CreateOnApply  bool
	// UnconditionalUpdate: PUT without a resourceVersion is taken (upstream's AllowUnconditionalUpdate).
	UnconditionalUpdate bool
	// Grace prepares a graceful deletion: it sets options.GracePeriodSeconds to what will be used and reports whether
	// the deletion is graceful at all. nil means never.
	Grace func(ctx context.Context, obj P, options *metav1.DeleteOptions) bool
	// Terminate is called when a deletion begins that can't be finished at once; it may change obj (a namespace's
	// phase). HasSpecFinalizers reports whether, besides metadata.finalizers, the object itself holds its removal back
	// (spec.finalizers).
	Terminate         func(obj P)
	HasSpecFinalizers func(obj P) bool
	// StorePreconditions: of a deletion's preconditions that aren't met the store tells.
	StorePreconditions bool
	// ReturnDeleted: DELETE answers with the object as it was, else with a Status.
	// DocumentStatus: the OpenAPI documents say that it is a Status all the same, as upstream's do of namespaces.
	ReturnDeleted  bool
	DocumentStatus bool
	// OrphanByDefault: a delete without propagation policy orphans dependents (none of apps/v1 does).
	OrphanByDefault bool
	// NoDependents: deletions ask nothing of the garbage collector, whatever their propagation policy.
	NoDependents bool
	// CollectedLater: the deletion that only marks the object (see HasSpecFinalizers) asks nothing of the garbage
	// collector; what follows may.
	CollectedLater bool
	// OrphanWarning is the warning for deletions without a propagation policy; "" gives none.
	OrphanWarning string
	// Reset are the fields that this strategy resets on writes, and that server-side apply therefore must not own
	// through it, as dotted paths. ResetFields are the same by API version ("apps/v1"): Erase makes them of Reset, and
	// custom resources, whose versions may differ, have nothing but them.
	Reset       []string
	ResetFields map[string]*fieldpath.Set
}

// MetaCheck is what a kind's own validation says of metadata, beside what is said of all kinds: clients are told of a
// fault that both find twice, as with upstream.
type MetaCheck int

// The checks. New objects are checked by all but MetaNothing.
const (
	MetaChanges    MetaCheck = iota // of changed objects, whether the change is allowed
	MetaObjects                     // of changed objects, all that new ones are checked for
	MetaAll                         // both
	MetaAllInOrder                  // both, first of the object
	MetaNothing
)

// MetaErrors are the faults that a kind finds itself with a changed object's metadata: with the object, as new ones are
// checked, and with the change.
type MetaErrors struct{ Object, Change field.ErrorList }

// Erase makes of the hooks of a type those of any Object, for the versions of a kind.
func (s Strategy[P]) Erase(versions ...schema.GroupVersion) Strategy[Object] {
	out := Strategy[Object]{
		ValidateName: s.ValidateName, Meta: s.Meta, AnyFinalizer: s.AnyFinalizer, NoGeneratedNames: s.NoGeneratedNames,
		CreateOnUpdate: s.CreateOnUpdate, CreateOnApply: s.CreateOnApply, UnconditionalUpdate: s.UnconditionalUpdate,
		OrphanByDefault: s.OrphanByDefault, NoDependents: s.NoDependents, CollectedLater: s.CollectedLater,
		OrphanWarning: s.OrphanWarning, ReturnDeleted: s.ReturnDeleted, DocumentStatus: s.DocumentStatus,
		StorePreconditions: s.StorePreconditions,
		PrepareCreate:      eraseObject(s.PrepareCreate), PrepareUpdate: eraseChange(s.PrepareUpdate),
		Authorize: eraseCheck(s.Authorize), Validate: eraseCheck(s.Validate),
		Canonicalize: apply1(s.Canonicalize), Terminate: apply1(s.Terminate),
		Reset: s.Reset, ResetFields: resetFields(versions, s.Reset),
	}
	if f := s.ValidateUpdate; f != nil {
		out.ValidateUpdate = func(ctx context.Context, new, old Object) field.ErrorList {
			return f(ctx, new.(P), old.(P))
		}
	}
	if f := s.ValidateAmong; f != nil {
		out.ValidateAmong = func(ctx context.Context, new, old Object, meta MetaErrors) field.ErrorList {
			return f(ctx, new.(P), old.(P), meta)
		}
		out.ValidateUpdate = func(ctx context.Context, new, old Object) field.ErrorList {
			return f(ctx, new.(P), old.(P), MetaErrors{})
		}
	}
	if f := s.Warnings; f != nil {
		out.Warnings = func(ctx context.Context, new, old Object) []string { return f(ctx, new.(P), orNil[P](old)) }
	}
	if f := s.Allocate; f != nil {
		out.Allocate = func(ctx context.Context, new, old Object, dryRun bool) (func(Outcome), error) {
			return f(ctx, orNil[P](new), orNil[P](old), dryRun)
		}
	}
	if f := s.Stored; f != nil {
		out.Stored = func(new, old Object) { f(new.(P), old.(P)) }
	}
	if f := s.Grace; f != nil {
		out.Grace = func(ctx context.Context, obj Object, o *metav1.DeleteOptions) bool { return f(ctx, obj.(P), o) }
	}
	if f := s.HasSpecFinalizers; f != nil {
		out.HasSpecFinalizers = func(obj Object) bool { return f(obj.(P)) }
	}
	return out
}

func eraseObject[P Object](f func(context.Context, P)) func(context.Context, Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj Object) { f(ctx, obj.(P)) }
}

func eraseChange[P Object](f func(ctx context.Context, new, old P)) func(ctx context.Context, new, old Object) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, new, old Object) { f(ctx, new.(P), old.(P)) }
}

func eraseCheck[P Object](f func(context.Context, P) field.ErrorList) func(context.Context, Object) field.ErrorList {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, obj Object) field.ErrorList { return f(ctx, obj.(P)) }
}
