package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"quintet.dev/quintet/internal/conflict"
)

// nodeIDs is the annotation of a node with the name that each driver has for it.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// NodeObjects write what drivers tell of a node into its CSINode, and its annotation and labels on the Node.
type NodeObjects struct {
	Client kubernetes.Interface
	Clock  clock.WithTicker
	Name   string // of the node
	// Node returns the node as it is, nil while it is not known.
	Node func() *v1.Node
}

// Ensure makes the node's CSINode, which says that no driver is registered yet. It tries until the API server answers.
func (n *NodeObjects) Ensure(ctx context.Context) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 5*time.Second) {
		err := n.ensure(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Info("CSINode can't be created yet, will be retried", "err", err)
		select {
		case <-ctx.Done():
			return
		case <-n.Clock.After(delay):
		}
	}
}

func (n *NodeObjects) ensure(ctx context.Context) error {
	nodes := n.Client.StorageV1().CSINodes()
	_, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	object, err := n.empty()
	if err != nil {
		return err
	}
	_, err = nodes.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// empty is a CSINode without drivers, which ends with its node.
func (n *NodeObjects) empty() (*storagev1.CSINode, error) {
	node := n.Node()
	if node == nil {
		return nil, errors.New("the node is not registered yet")
	}
	return &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name:            n.Name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: node.UID}},
	}}, nil
}

// Publish implements the function of Drivers.
func (n *NodeObjects) Publish(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error {
	if info.GetNodeId() == "" {
		return fmt.Errorf("error adding CSI driver node info: driverNodeID must not be empty")
	}
	topology := info.GetAccessibleTopology().GetSegments()
	if err := n.patchNode(ctx, driver, info.GetNodeId(), topology); err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: %w", err)
	}
	entry := storagev1.CSINodeDriver{
		Name: driver, NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(topology)),
	}
	if most := info.GetMaxVolumesPerNode(); most > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(most, math.MaxInt32)))}
	}
	err := n.changeCSINode(ctx, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		return append(without(drivers, driver), entry)
	})
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: %w", err)
	}
	return nil
}

// Withdraw implements the function of Drivers.
func (n *NodeObjects) Withdraw(ctx context.Context, driver string) error {
	err := n.changeCSINode(ctx, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		return without(drivers, driver)
	})
	if err == nil {
		err = n.patchNode(ctx, driver, "", nil)
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Driver can't be withdrawn from the node's objects", "driver", driver)
	}
	return err
}

func without(drivers []storagev1.CSINodeDriver, name string) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(drivers), func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}

// changeCSINode changes the drivers of the CSINode, which is made if it is missing.
func (n *NodeObjects) changeCSINode(ctx context.Context,
	change func([]storagev1.CSINodeDriver) []storagev1.CSINodeDriver) error {
	nodes := n.Client.StorageV1().CSINodes()
	return conflict.Retry(retry.DefaultBackoff, func() error {
		if err := n.ensure(ctx); err != nil {
			return err
		}
		object, err := nodes.Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Spec.Drivers = change(object.Spec.Drivers)
		_, err = nodes.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

// patchNode writes the driver's name of the node, or removes it if it is "", and labels the node with its topology.
func (n *NodeObjects) patchNode(ctx context.Context, driver, id string, topology map[string]string) error {
	node, err := n.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for key, value := range topology {
		if has, ok := node.Labels[key]; ok && has != value {
			return fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q",
				key, value, key, has)
		}
	}
	ids := map[string]string{}
	if text := node.Annotations[nodeIDs]; text != "" {
		if err := json.Unmarshal([]byte(text), &ids); err != nil {
			return fmt.Errorf("annotation %s of the node: %w", nodeIDs, err)
		}
	}
	if id == "" {
		delete(ids, driver)
	} else {
		ids[driver] = id
	}
	metadata := map[string]any{"labels": topology}
	if len(ids) == 0 {
		metadata["annotations"] = map[string]any{nodeIDs: nil}
	} else {
		text, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		metadata["annotations"] = map[string]any{nodeIDs: string(text)}
	}
	if len(topology) == 0 {
		delete(metadata, "labels")
	}
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = n.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{})
	return err
}
