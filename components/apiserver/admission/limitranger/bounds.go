package limitranger

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresources "k8s.io/component-helpers/resource"
)

// checkPod reports how a pod breaks one item; items of other types bind it not.
func checkPod(pod *corev1.Pod, item *corev1.LimitRangeItem) []error {
	var errs []error
	switch item.Type {
	case corev1.LimitTypeContainer:
		for i := range pod.Spec.Containers {
			errs = append(errs, checkBounds(item, &pod.Spec.Containers[i].Resources)...)
		}
		for i := range pod.Spec.InitContainers {
			errs = append(errs, checkBounds(item, &pod.Spec.InitContainers[i].Resources)...)
		}
	case corev1.LimitTypePod:
		errs = checkBounds(item, &corev1.ResourceRequirements{
			Requests: podresources.PodRequests(pod, podresources.PodResourcesOptions{ExcludeOverhead: true}),
			Limits:   podresources.PodLimits(pod, podresources.PodResourcesOptions{ExcludeOverhead: true}),
		})
	}
	return errs
}

func checkBounds(item *corev1.LimitRangeItem, r *corev1.ResourceRequirements) []error {
	var errs []error
	each(item.Min, func(name corev1.ResourceName, bound resource.Quantity) {
		errs = appendErr(errs, checkMin(item.Type, name, bound, r))
	})
	each(item.Max, func(name corev1.ResourceName, bound resource.Quantity) {
		errs = appendErr(errs, checkMax(item.Type, name, bound, r))
	})
	each(item.MaxLimitRequestRatio, func(name corev1.ResourceName, bound resource.Quantity) {
		errs = appendErr(errs, checkRatio(item.Type, name, bound, r))
	})
	return errs
}

// checkClaim bounds what a claim asks for.
func checkClaim(claim *corev1.PersistentVolumeClaim, item *corev1.LimitRangeItem) []error {
	if item.Type != corev1.LimitTypePersistentVolumeClaim {
		return nil
	}
	var errs []error
	requests := claim.Spec.Resources.Requests
	each(item.Min, func(name corev1.ResourceName, bound resource.Quantity) {
		errs = appendErr(errs, checkMin(item.Type, name, bound, &corev1.ResourceRequirements{Requests: requests}))
	})
	each(item.Max, func(name corev1.ResourceName, bound resource.Quantity) {
		request, ok := requests[name]
		switch {
		case !ok:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type,
				bound.String()))
		case request.Cmp(bound) > 0:
			errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, item.Type,
				bound.String(), request.String()))
		}
	})
	return errs
}

// each visits a list in order of names, for messages that don't change from call to call.
func each(list corev1.ResourceList, visit func(corev1.ResourceName, resource.Quantity)) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		visit(name, list[name])
	}
}

func appendErr(errs []error, err error) []error {
	if err == nil {
		return errs
	}
	return append(errs, err)
}

func checkMin(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity,
	r *corev1.ResourceRequirements) error {
	request, hasRequest := r.Requests[name]
	limit, hasLimit := r.Limits[name]
	switch {
	case !hasRequest:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, kind, bound.String())
	case request.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, kind, bound.String(),
			request.String())
	case hasLimit && limit.Cmp(bound) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, kind, bound.String(), limit.String())
	}
	return nil
}

func checkMax(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity,
	r *corev1.ResourceRequirements) error {
	request, hasRequest := r.Requests[name]
	limit, hasLimit := r.Limits[name]
	switch {
	case !hasLimit:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, kind, bound.String())
	case limit.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, kind, bound.String(), limit.String())
	case hasRequest && request.Cmp(bound) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, kind, bound.String(),
			request.String())
	}
	return nil
}

func checkRatio(kind corev1.LimitType, name corev1.ResourceName, bound resource.Quantity,
	r *corev1.ResourceRequirements) error {
	request, limit := r.Requests[name], r.Limits[name]
	switch {
	case request.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0",
			name, kind, bound.String())
	case limit.IsZero():
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name,
			kind, bound.String())
	}
	if ratio, most := ratioOf(limit, request), float64(bound.MilliValue()); ratio*1000 > most {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, kind,
			bound.String(), ratio)
	}
	return nil
}

// ratioOf divides whole numbers, of thousandths where they fit: a division of fractions would miss by a little the
// ratio that a pod keeps exactly.
func ratioOf(limit, request resource.Quantity) float64 {
	if limit.Value() > resource.MaxMilliValue || request.Value() > resource.MaxMilliValue {
		return float64(limit.Value()) / float64(request.Value())
	}
	return float64(limit.MilliValue()) / float64(request.MilliValue())
}
