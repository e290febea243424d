package aggregation

import (
	"context"
	"errors"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// managed is the label by which a server knows the APIServices that are its own: those of the built-in groups are
// reconciled at start only, those of custom resources always. Removing it takes the object over.
const (
	managed = "kube-aggregator.kubernetes.io/automanaged"
	onStart = "onstart"
	always  = "true"
)

// registrations are the APIServices of what this server serves itself, and of what definitions of custom resources
// speak of, though it may not be served yet, by name.
func registrations(table []*api.Kind, defined []schema.GroupVersion) map[string]*apiService {
	out := map[string]*apiService{}
	for _, gv := range defined {
		s := registration(gv, true)
		out[s.Name] = s
	}
	for _, kind := range table {
		for i := range kind.Versions {
			gv := kind.Versions[i].GroupVersion
			if kind.Versions[i].Unserved || gv.Group == apiregistrationv1.GroupName {
				continue
			}
			s := registration(gv, kind.Custom != nil)
			out[s.Name] = s
		}
	}
	return out
}

func registration(gv schema.GroupVersion, isCustom bool) *apiService {
	s := &apiService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managed: onStart}},
		Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version},
	}
	p := builtIn[s.Name]
	if isCustom {
		p, s.Labels[managed] = custom, always
	}
	s.Spec.GroupPriorityMinimum, s.Spec.VersionPriority = p.group, p.version
	return s
}

// action is what registering does about one APIService.
type action int

const (
	leave action = iota
	create
	update
	remove
)

// decide compares what is stored with what is wanted; either may be nil. first says that it is stored since before this
// server started, and that this server hasn't settled it yet; settled, that it once has.
func decide(stored, wanted *apiService, first, settled bool) action {
	var is, want string
	if stored != nil {
		is = stored.Labels[managed]
	}
	if wanted != nil {
		want = wanted.Labels[managed]
	}
	switch {
	case stored == nil && wanted == nil, stored != nil && is != onStart && is != always:
		return leave
	case stored == nil && (want == always || !settled):
		return create
	case stored == nil:
		return leave
	case is == onStart && !first, wanted != nil && want == onStart && settled:
		return leave
	case wanted == nil:
		return remove
	case !reflect.DeepEqual(stored.Spec, wanted.Spec):
		return update
	}
	return leave
}

// register brings what is stored into line with what this server serves itself.
func (a *Aggregator) register(ctx context.Context, stored []*apiService, wanted map[string]*apiService) error {
	byName := make(map[string]*apiService, len(stored))
	names := make([]string, 0, len(stored)+len(wanted))
	for _, s := range stored {
		byName[s.Name] = s
		names = append(names, s.Name)
	}
	for name := range wanted {
		if byName[name] == nil {
			names = append(names, name)
		}
	}
	if a.atStart == nil {
		a.atStart = make(map[string]bool, len(stored))
		for name := range byName {
			a.atStart[name] = true
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	workqueue.ParallelizeUntil(ctx, max(a.config.Writers, 1), len(names), func(i int) {
		name := names[i]
		was, want := byName[name], wanted[name]
		do := decide(was, want, a.atStart[name] && !a.settled[name], a.settled[name])
		if do == leave {
			return
		}
		if err := a.carryOut(ctx, do, was, want); err != nil {
			end(err)
		}
	})
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, name := range names {
		a.settled[name] = true
	}
	return nil
}

func (a *Aggregator) carryOut(ctx context.Context, do action, was, want *apiService) (err error) {
	switch do {
	case create:
		_, err = a.config.Objects.Create(ctx, resource, want.DeepCopy())
	case update:
		_, err = a.config.Objects.Update(ctx, resource, "", was.Name, func(obj api.Object) (api.Object, error) {
			now, ok := obj.(*apiService)
			if !ok || now.ResourceVersion != was.ResourceVersion {
				return nil, errOutdated
			}
			now.Spec = want.Spec
			return now, nil
		})
	case remove:
		err = a.config.Objects.Delete(ctx, resource, "", was.Name, was.UID)
	}
	if isOvertaken(err) {
		return nil // and its event brings the next pass
	}
	return err
}

// errOutdated tells that a decision was made on a state that isn't the newest.
var errOutdated = errors.New("the APIService has changed")

func isOvertaken(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) ||
		errors.Is(err, errOutdated)
}
