package suite

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// probeMetrics looks whether usage of nodes and pods is served. Whether there is any is for the cases to find out.
func (c *Cluster) probeMetrics() error {
	_, err := c.Client.Discovery().ServerResourcesForGroupVersion("metrics.k8s.io/v1beta1")
	c.Features[ResourceMetrics] = err == nil
	if apierrors.IsNotFound(err) || apierrors.IsServiceUnavailable(err) {
		return nil
	}
	return err
}
