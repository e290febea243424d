package aggregation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/klog/v2"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
)

// How often a server is looked at, and how soon again after it failed.
const (
	checkEvery = 30 * time.Second
	firstRetry = time.Second
)

// Bounds of one look.
const (
	checkTimeout  = 5 * time.Second
	checkPatience = time.Second // how long a first attempt is waited for alone
	moreAttempts  = 4           // after a first that failed, or takes its time: others may serve the Service, too
)

// run looks at the server until ctx ends: when something that it depends on changes, and every now and then.
func (r *remote) run(ctx context.Context) {
	retry := firstRetry
	contested, calm := r.contested, (<-chan time.Time)(nil)
	for {
		condition := r.check(ctx)
		if ctx.Err() != nil {
			return
		}
		available := condition != nil && condition.Status == apiregistrationv1.ConditionTrue
		if condition != nil {
			if err := r.tell(ctx, *condition); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Failed to update APIService status", "name", r.name)
			}
		}
		r.describe(ctx, available)
		pause := checkEvery
		if available {
			retry = firstRetry
		} else {
			pause = retry
			retry = min(2*retry, checkEvery)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-contested:
			// perhaps by another server that sees it otherwise: the two must not write as fast as they can
			contested, calm = nil, r.owner.config.Clock.After(firstRetry)
		case <-calm:
			contested, calm = r.contested, nil
		case <-r.owner.config.Clock.After(pause):
		}
	}
}

// check finds out whether the server can be used. It can't tell (nil) with what can't be used to ask it: as upstream
// does, that is told to who asks for what the server serves, and no condition speaks of it.
func (r *remote) check(ctx context.Context) *apiregistrationv1.APIServiceCondition {
	now := metav1.NewTime(r.owner.config.Clock.Now())
	if status, reason, message := r.missing(ctx); reason != "" {
		return &apiregistrationv1.APIServiceCondition{
			Type: apiregistrationv1.Available, Status: status, LastTransitionTime: now, Reason: reason,
			Message: message,
		}
	}
	if r.broken != nil {
		klog.FromContext(ctx).Error(r.broken, "Failed to configure connection to extension server", "name", r.name)
		return nil
	}
	if err := r.probe(ctx); err != nil {
		return &apiregistrationv1.APIServiceCondition{
			Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, LastTransitionTime: now,
			Reason: "FailedDiscoveryCheck", Message: err.Error(),
		}
	}
	return &apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: now,
		Reason: "Passed", Message: "all checks passed",
	}
}

// missing tells what the server lacks in the cluster, as a condition does, or nothing. What can't be looked at is
// unknown.
func (r *remote) missing(ctx context.Context) (status apiregistrationv1.ConditionStatus, reason, message string) {
	const no, unknown = apiregistrationv1.ConditionFalse, apiregistrationv1.ConditionUnknown
	ref := r.spec.Service
	store := r.owner.config.Objects
	service, err := objects.As[*corev1.Service](store.Get(ctx, services, ref.Namespace, ref.Name))
	if apierrors.IsNotFound(err) {
		return no, "ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", ref.Name, ref.Namespace)
	}
	if err != nil {
		return unknown, "ServiceAccessError",
			fmt.Sprintf("service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, err)
	}
	slices, err := objects.ListAs[*discoveryv1.EndpointSlice](store.List(ctx, endpointSlices, ref.Namespace))
	if err != nil {
		return unknown, "EndpointsAccessError",
			fmt.Sprintf("service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, err)
	}
	reason, message = lacks(ref, service, slices)
	return no, reason, message
}

// lacks is why a Service can't be checked at all. Only Services with a cluster IP are checked.
func lacks(ref *apiregistrationv1.ServiceReference, service *corev1.Service, all []*discoveryv1.EndpointSlice) (reason,
	message string) {
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		return "", ""
	}
	port := int32(443)
	if ref.Port != nil {
		port = *ref.Port
	}
	i := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return "ServicePortError",
			fmt.Sprintf("service/%s in %q is not listening on port %d", ref.Name, ref.Namespace, port)
	}
	portName := service.Spec.Ports[i].Name
	found := false
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] != ref.Name {
			continue
		}
		if found = true; serves(slice, portName) {
			return "", ""
		}
	}
	if !found {
		return "EndpointsNotFound",
			fmt.Sprintf("cannot find endpointslices for service/%s in %q", ref.Name, ref.Namespace)
	}
	return "MissingEndpoints",
		fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q", ref.Name, ref.Namespace,
			portName)
}

// serves reports whether a slice has a ready endpoint behind a port of this name.
func serves(slice *discoveryv1.EndpointSlice, portName string) bool {
	ready := slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool {
		return len(e.Addresses) > 0 && (e.Conditions.Ready == nil || *e.Conditions.Ready)
	})
	return ready && slices.ContainsFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
		return p.Port != nil && p.Name != nil && *p.Name == portName
	})
}

// probe requests the group version from the server. If the first endpoint fails, or is slow, several others are tried
// at once: a Service is as good as its best endpoint.
func (r *remote) probe(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	results := make(chan error, 1+moreAttempts)
	pending := 0
	ask := func(times int) {
		pending += times
		for range times {
			asking.Go(func() { results <- r.probeOnce(ctx) })
		}
	}
	ask(1)
	alone := r.owner.config.Clock.NewTimer(checkPatience)
	defer alone.Stop()
	var err error
	for more := moreAttempts; pending > 0; {
		select {
		case err = <-results:
			pending--
			if err == nil || ctx.Err() != nil {
				return err
			}
		case <-alone.C():
		}
		ask(more)
		more = 0
	}
	return err
}

func (r *remote) probeOnce(ctx context.Context) error {
	at, err := r.at()
	if err != nil {
		return err
	}
	at.Path = r.path()
	got, err := r.fetch(ctx, at, asProber(), checkTimeout)
	if err == nil && (got.code < 200 || got.code > 299) {
		err = fmt.Errorf("bad status from %s: %d", at, got.code)
	}
	if err != nil {
		if ctx.Err() == nil {
			r.close() // the next attempt finds out whether it was the connection
		}
		return fmt.Errorf("failing or missing response from %s: %w", at, err)
	}
	return nil
}

// asProber are the headers of a user with all permissions.
func asProber() http.Header {
	return http.Header{"X-Remote-User": {prober}, "X-Remote-Group": {user.SystemPrivilegedGroup}}
}

// tell writes the condition, if it says anything new.
func (r *remote) tell(ctx context.Context, condition apiregistrationv1.APIServiceCondition) error {
	lost := false
	_, err := r.owner.config.Objects.UpdateStatus(ctx, resource, "", r.name,
		func(obj api.Object) (api.Object, error) {
			s, ok := obj.(*apiService)
			if !ok || !reflect.DeepEqual(&s.Spec, r.spec) {
				return nil, errOutdated
			}
			lost = helper.IsAPIServiceConditionTrue(s, condition.Type)
			helper.SetAPIServiceCondition(s, condition)
			return s, nil
		})
	if err == nil && lost && condition.Status != apiregistrationv1.ConditionTrue {
		r.owner.metrics.marked.WithLabelValues(r.name, condition.Reason).Inc()
	}
	if err == nil {
		r.told.Store(&condition)
	}
	if apierrors.IsNotFound(err) || errors.Is(err, errOutdated) {
		return nil // it is about to be given up
	}
	return err
}
