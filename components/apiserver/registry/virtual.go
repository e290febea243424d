package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/cache"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// CreateVirtual serves a create of a kind of which nothing is stored: a new hub object, which belongs to it, is filled
// in and given back. It may be nil.
func (w Writer) CreateVirtual(
	ctx context.Context, obj api.Object, options *metav1.CreateOptions, manager string,
) (api.Object, error) {
	WipeSystemFields(obj)
	DropDuplicateOwners(ctx, obj)
	w.Track(nil, obj, manager)
	a := attributes{operation: admission.Create, options: options, dryRun: IsDryRun(options.DryRun)}
	if err := w.mutate(ctx, a, obj, nil); err != nil {
		return nil, err
	}
	dropDuplicateOwners(ctx, obj, duplicateOwnersAdmitted)
	return w.Kind.CreateFunc(ctx, obj, api.CreateRequest{
		DryRun: a.dryRun, Admit: func() error { return w.validate(ctx, a, obj, nil) },
	})
}

// ReadOne returns an object as it is now, of a kind of which nothing is stored.
func (r Reader) ReadOne(ctx context.Context) (*cache.Entry, error) {
	for _, obj := range r.Kind.Read(ctx, r.Name) {
		return Unstored(obj), nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: r.Resource.Group, Resource: r.Kind.Singular}, r.Name)
}

// ReadAll returns all objects of such a kind that the predicate chooses.
func (r Reader) ReadAll(ctx context.Context, p cache.Predicate) *cache.List {
	l := &cache.List{}
	for _, obj := range r.Kind.Read(ctx, "") {
		if p.Label != nil && !p.Label.Matches(labels.Set(obj.GetLabels())) {
			continue
		}
		if p.Field == nil || p.Field.Matches(r.Kind.FieldSet(obj)) {
			l.Entries = append(l.Entries, Unstored(obj))
		}
	}
	return l
}

// NewBody makes an empty object of the endpoint's kind, where that is the body of an action.
func (ep *Endpoint) NewBody() (api.Object, error) {
	obj, err := ep.registry.config.Scheme.New(ep.GVK)
	if err != nil {
		return nil, err
	}
	return obj.(api.Object), nil
}

// AdmitAction takes what was sent to an action through mutating admission. It returns what asks validating admission,
// when nothing is wrong with the body. Whether its name is that of the URL is for the action to say.
func (w Writer) AdmitAction(
	ctx context.Context, body api.Object, options *metav1.CreateOptions, manager string,
) (validate func(body runtime.Object) error, err error) {
	if err := w.InNamespace(body); err != nil {
		return nil, err
	}
	DropDuplicateOwners(ctx, body)
	if err := w.trackBody(body, manager); err != nil {
		return nil, err
	}
	a := attributes{operation: admission.Create, options: options, dryRun: IsDryRun(options.DryRun)}
	if err := w.mutate(ctx, a, body, nil); err != nil {
		return nil, err
	}
	dropDuplicateOwners(ctx, body, duplicateOwnersAdmitted)
	return func(body runtime.Object) error { return w.validate(ctx, a, body, nil) }, nil
}

// trackBody records the manager of the fields sent: admission sees it, and so does the answer to a TokenRequest, which
// is the completed request.
func (w Writer) trackBody(body api.Object, manager string) error {
	empty, err := w.NewBody()
	if err != nil {
		return err
	}
	for _, obj := range []api.Object{empty, body} {
		obj.GetObjectKind().SetGroupVersionKind(w.GVK)
	}
	w.Track(empty, body, manager)
	return nil
}
