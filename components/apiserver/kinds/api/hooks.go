package api

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OfObject makes a hook of a function that asks for nothing but the object.
func OfObject[P Object, R any](f func(obj P) R) func(context.Context, P) R {
	return func(_ context.Context, obj P) R { return f(obj) }
}

// OfChange makes a hook of a function that asks for nothing but the objects.
func OfChange[P Object, R any](f func(new, old P) R) func(ctx context.Context, new, old P) R {
	return func(_ context.Context, new, old P) R { return f(new, old) }
}

// WholeFirst tells of the whole changed object, metadata first, and then of the change in the same order.
func WholeFirst[P Object](whole, change func(new, old P) field.ErrorList) func(ctx context.Context,
	new, old P, meta MetaErrors) field.ErrorList {
	return func(_ context.Context, new, old P, meta MetaErrors) field.ErrorList {
		return slices.Concat(meta.Object, whole(new, old), meta.Change, change(new, old))
	}
}

// ChangeFirst tells of the change, metadata first, and then of the whole changed object in the same order.
func ChangeFirst[P Object](change, whole func(new, old P) field.ErrorList) func(ctx context.Context,
	new, old P, meta MetaErrors) field.ErrorList {
	return func(_ context.Context, new, old P, meta MetaErrors) field.ErrorList {
		return slices.Concat(meta.Change, change(new, old), meta.Object, whole(new, old))
	}
}

// IgnoreOld makes a function of a change of one that asks for nothing but the new object.
func IgnoreOld[P Object, R any](f func(obj P) R) func(new, old P) R {
	return func(new, _ P) R { return f(new) }
}

// AnyChange allows any change.
func AnyChange[P Object](_, _ P) field.ErrorList { return nil }
