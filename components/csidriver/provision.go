package csidriver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	provisioning "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisioner makes and deletes volumes of this node for the library's controller.
type provisioner struct {
	config  *Config
	driver  csi.ControllerClient
	objects kubernetes.Interface
}

// ShouldProvision implements provisioning.Qualifier: drivers of other nodes take claims whose pod is there.
func (p *provisioner) ShouldProvision(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
	node := claim.Annotations[storagehelpers.AnnSelectedNode]
	return node == "" || node == p.config.NodeID
}

// ShouldDelete implements provisioning.DeletionGuard.
func (p *provisioner) ShouldDelete(_ context.Context, pv *v1.PersistentVolume) bool {
	return p.config.owns(pv)
}

// owns tells whether a persistent volume is one of this driver, on this node.
func (c *Config) owns(pv *v1.PersistentVolume) bool {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != c.DriverName || pv.Spec.NodeAffinity == nil ||
		pv.Spec.NodeAffinity.Required == nil {
		return false
	}
	return slices.ContainsFunc(pv.Spec.NodeAffinity.Required.NodeSelectorTerms, func(t v1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(t.MatchExpressions, func(r v1.NodeSelectorRequirement) bool {
			return r.Key == c.topologyKey() && slices.Contains(r.Values, c.NodeID)
		})
	})
}

// SupportsBlock implements provisioning.BlockProvisioner.
func (*provisioner) SupportsBlock(context.Context) bool { return true }

// Provision implements provisioning.Provisioner.
func (p *provisioner) Provision(ctx context.Context,
	options provisioning.ProvisionOptions) (*v1.PersistentVolume, provisioning.ProvisioningState, error) {
	request, fsType, err := p.request(ctx, options)
	if err != nil {
		return nil, provisioning.ProvisioningFinished, err
	}
	response, err := p.driver.CreateVolume(ctx, request)
	switch status.Code(err) {
	case codes.OK:
		return newVolume(p.config, options, response.GetVolume(), fsType), provisioning.ProvisioningFinished, nil
	case codes.ResourceExhausted, codes.OutOfRange: // another node may have space
		return nil, provisioning.ProvisioningReschedule, err
	case codes.DeadlineExceeded, codes.Canceled, codes.Unavailable:
		return nil, provisioning.ProvisioningInBackground, err
	default:
		return nil, provisioning.ProvisioningFinished, err
	}
}

// Parameters of classes with this prefix are for the provisioner, the rest is for the driver
// (https://kubernetes-csi.github.io/docs/external-provisioner.html).
const (
	parameterPrefix = "csi.storage.k8s.io/"
	fsTypeParameter = parameterPrefix + "fstype"
)

// request is what the driver is asked for a claim, and the type of the file system.
func (p *provisioner) request(ctx context.Context,
	options provisioning.ProvisionOptions) (*csi.CreateVolumeRequest, string, error) {
	claim, class := options.PVC, options.StorageClass
	if err := refusal(claim, class, options.SelectedNodeName); err != nil {
		return nil, "", err
	}
	parameters, fsType := map[string]string{}, class.Parameters[fsTypeParameter]
	for key, value := range class.Parameters {
		if !strings.HasPrefix(key, parameterPrefix) {
			parameters[key] = value
		}
	}
	source, err := p.source(ctx, claim)
	if err != nil {
		return nil, "", err
	}
	size := claim.Spec.Resources.Requests[v1.ResourceStorage]
	return &csi.CreateVolumeRequest{
		Name: options.PVName, Parameters: parameters, CapacityRange: &csi.CapacityRange{RequiredBytes: size.Value()},
		VolumeCapabilities: capabilities(claim, class, fsType), VolumeContentSource: source,
		AccessibilityRequirements: &csi.TopologyRequirement{Requisite: []*csi.Topology{{
			Segments: map[string]string{p.config.topologyKey(): options.SelectedNodeName}}}},
	}, fsType, nil
}

// refusal says what of a claim or its class can't be had; nil if everything can.
func refusal(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node string) error {
	if node == "" {
		return status.Errorf(codes.InvalidArgument, "storage class %q: volumeBindingMode must be %s: a volume is made on "+
			"the node of its pod", class.Name, storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if claim.Spec.Selector != nil {
		return status.Error(codes.InvalidArgument, "claim Selector is not supported")
	}
	if name := claim.Spec.VolumeAttributesClassName; name != nil && *name != "" {
		return status.Error(codes.InvalidArgument, "a volume attributes class is not supported")
	}
	for _, key := range slices.Sorted(maps.Keys(class.Parameters)) {
		if strings.HasPrefix(key, parameterPrefix) && key != fsTypeParameter {
			return status.Errorf(codes.InvalidArgument, "storage class %q: parameter %q is not supported", class.Name, key)
		}
	}
	return nil
}

// capabilities are those that a claim asks for.
func capabilities(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass,
	fsType string) []*csi.VolumeCapability {
	var all []*csi.VolumeCapability
	for _, mode := range claim.Spec.AccessModes {
		c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: accessMode(mode)}}
		if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == v1.PersistentVolumeBlock {
			c.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		} else {
			c.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: fsType,
				MountFlags: class.MountOptions}}
		}
		all = append(all, c)
	}
	return all
}

// accessMode is that of CSI for a mode of claims, for a driver that tells writers of one node apart.
func accessMode(mode v1.PersistentVolumeAccessMode) csi.VolumeCapability_AccessMode_Mode {
	switch mode {
	case v1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case v1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case v1.ReadWriteOncePod:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
	default:
		return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	}
}

// source is what a claim's volume is a clone of; nil for none.
func (p *provisioner) source(ctx context.Context, claim *v1.PersistentVolumeClaim) (*csi.VolumeContentSource, error) {
	from := claim.Spec.DataSource
	if from == nil {
		return nil, nil
	}
	if from.Kind != "PersistentVolumeClaim" || from.APIGroup != nil && *from.APIGroup != "" {
		return nil, status.Errorf(codes.InvalidArgument, "data source of kind %s: only a PersistentVolumeClaim is supported",
			from.Kind)
	}
	other, err := p.objects.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(ctx, from.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("data source: %w", err)
	}
	if other.Spec.VolumeName == "" {
		return nil, fmt.Errorf("data source: claim %s is not bound", from.Name)
	}
	pv, err := p.objects.CoreV1().PersistentVolumes().Get(ctx, other.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("data source: %w", err)
	}
	if !p.config.owns(pv) {
		return nil, fmt.Errorf("data source: volume %s is none of driver %s on node %s", pv.Name, p.config.DriverName,
			p.config.NodeID)
	}
	return &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
		Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: pv.Spec.CSI.VolumeHandle}}}, nil
}

// newVolume is the persistent volume of what the driver made.
func newVolume(c *Config, options provisioning.ProvisionOptions, made *csi.Volume, fsType string) *v1.PersistentVolume {
	claim, class := options.PVC, options.StorageClass
	policy, mode := v1.PersistentVolumeReclaimDelete, v1.PersistentVolumeFilesystem
	if class.ReclaimPolicy != nil {
		policy = *class.ReclaimPolicy
	}
	if claim.Spec.VolumeMode != nil {
		mode = *claim.Spec.VolumeMode
	}
	if mode == v1.PersistentVolumeBlock {
		fsType = ""
	}
	terms := []v1.NodeSelectorTerm{}
	for _, place := range made.GetAccessibleTopology() {
		term := v1.NodeSelectorTerm{}
		for _, key := range slices.Sorted(maps.Keys(place.GetSegments())) {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: key,
				Operator: v1.NodeSelectorOpIn, Values: []string{place.GetSegments()[key]}})
		}
		terms = append(terms, term)
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, VolumeMode: &mode, MountOptions: class.MountOptions,
			PersistentVolumeReclaimPolicy: policy,
			Capacity:                      v1.ResourceList{v1.ResourceStorage: bytesQuantity(made.GetCapacityBytes())},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: c.DriverName, VolumeHandle: made.GetVolumeId(), FSType: fsType,
				VolumeAttributes: made.GetVolumeContext(),
			}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}},
		},
	}
}

// Delete implements provisioning.Provisioner. The driver refuses to delete what is in use; it is tried again then.
func (p *provisioner) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	if pv.Spec.CSI == nil {
		return errors.New("it is no CSI volume")
	}
	_, err := p.driver.DeleteVolume(ctx, &csi.DeleteVolumeRequest{VolumeId: pv.Spec.CSI.VolumeHandle})
	return err
}
