package suite

import (
	"context"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// probeStorage looks for a default class. Whether its volumes come is for the cases to find out.
func (c *Cluster) probeStorage(ctx context.Context) error {
	classes, err := c.Client.StorageV1().StorageClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.Features[DefaultStorage] = slices.ContainsFunc(classes.Items, func(class storagev1.StorageClass) bool {
		return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true"
	})
	return nil
}
