package suite

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// probeServed looks for API groups that a cluster may lack. Whether anything stands behind them is for the cases to
// find out.
func (c *Cluster) probeServed() error {
	for feature, groupVersion := range map[Feature]string{
		ResourceMetrics: "metrics.k8s.io/v1beta1",
		DeviceClaims:    "resource.k8s.io/v1",
	} {
		_, err := c.Client.Discovery().ServerResourcesForGroupVersion(groupVersion)
		c.Features[feature] = err == nil
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsServiceUnavailable(err) {
			return err
		}
	}
	return nil
}
