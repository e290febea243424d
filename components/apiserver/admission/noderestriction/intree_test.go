package noderestriction

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// TestOldVolumes: the drivers of volumes from before CSI have use for audiences, too.
func TestOldVolumes(t *testing.T) {
	deny := authorizer.AuthorizerFunc(
		func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
			return authorizer.DecisionNoOpinion, "", nil
		})
	for driver, volume := range map[string]struct {
		inline corev1.VolumeSource
		stored corev1.PersistentVolumeSource
	}{
		"ebs.csi.aws.com": {corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}},
			corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}},
		"disk.csi.azure.com": {corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}},
			corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}},
		"file.csi.azure.com": {corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}},
			corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{}}},
		"cinder.csi.openstack.org": {corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}},
			corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{}}},
		"pd.csi.storage.gke.io": {corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}},
			corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}}},
		"pxd.portworx.com": {corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}},
			corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}},
		"csi.vsphere.vmware.com": {corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}},
			corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}},
		"own.example.com": {corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "own.example.com"}},
			corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "own.example.com"}}},
	} {
		store := &objectstest.Store{}
		store.Put(corev1.Resource("nodes"), newNode("n1", nil))
		store.Put(storagev1.Resource("csidrivers"), &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver},
			Spec:       storagev1.CSIDriverSpec{TokenRequests: []storagev1.TokenRequest{{Audience: "cloud"}}},
		})
		store.Put(corev1.Resource("persistentvolumes"), &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: volume.stored},
		})
		store.Put(corev1.Resource("persistentvolumeclaims"), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim"},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
		})
		claimed := corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		for name, source := range map[string]corev1.VolumeSource{"inline": volume.inline, "claimed": claimed} {
			pod := onNode(name, "n1", nil)
			pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
			store.Put(corev1.Resource("pods"), pod)
			ask := func(p *Plugin, audience string) error {
				return p.Admit(context.Background(),
					admission.NewAttributesRecord(tokenFor(name, name+"-uid", audience), nil, schema.GroupVersionKind{},
						"ns", "sa",
						corev1.SchemeGroupVersion.WithResource("serviceaccounts"), "token", admission.Create, nil,
						false,
						&user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}), nil)
			}
			if err := ask(New(Config{Objects: store, Authorizer: deny}), "cloud"); err != nil {
				t.Errorf("%s, %s: %v", driver, name, err)
			}
			if err := ask(New(Config{Objects: store, Authorizer: deny}), "bank"); err == nil {
				t.Errorf("%s, %s: any audience will do", driver, name)
			}
			if err := ask(New(Config{Objects: store, Authorizer: deny, AnyAudience: true}), "bank"); err != nil {
				t.Errorf("%s, %s, unrestricted: %v", driver, name, err)
			}
		}
	}
}
