package aggregation

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/kinds/apiregistration"
)

// restoreStatus restores the status of APIServices that are served here, where it was changed.
func (a *Aggregator) restoreStatus(ctx context.Context, stored []*apiService) error {
	local := apiregistration.Local(metav1.NewTime(a.config.Clock.Now()))
	var problems []error
	for _, s := range stored {
		if s.Spec.Service != nil || says(s, &local) {
			continue
		}
		_, err := a.config.Objects.UpdateStatus(ctx, resource, "", s.Name,
			func(obj api.Object) (api.Object, error) {
				now, ok := obj.(*apiService)
				if !ok || now.Spec.Service != nil {
					return nil, errOutdated
				}
				helper.SetAPIServiceCondition(now, local)
				return now, nil
			})
		if !isOvertaken(err) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// contest makes the remote be looked at if its status doesn't say what this server has said last.
func (r *remote) contest(s *apiService) {
	if told := r.told.Load(); told != nil && !says(s, told) {
		signal(r.contested)
	}
}

// says tells whether a status has a condition. Its message isn't compared, as it may depend on the endpoint that was
// checked.
func says(s *apiService, c *apiregistrationv1.APIServiceCondition) bool {
	has := helper.GetAPIServiceConditionByType(s, c.Type)
	return has != nil && has.Status == c.Status && has.Reason == c.Reason
}
