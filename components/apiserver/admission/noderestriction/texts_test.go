package noderestriction

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// asNode asks for something as the node n1.
func asNode(o admission.Operation, resource schema.GroupVersionResource, sub, name string, obj,
	old runtime.Object) string {
	store := &objectstest.Store{}
	store.Put(corev1.Resource("nodes"), newNode("n1", nil))
	err := New(Config{Objects: store}).Admit(context.Background(),
		admission.NewAttributesRecord(obj, old, schema.GroupVersionKind{}, "ns", name,
			resource, sub, o, nil, false, &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup}}),
		nil)
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestMirrorPodReferences: whatever of the API a mirror pod names, even in a volume that takes no secret.
func TestMirrorPodReferences(t *testing.T) {
	volume := func(s corev1.VolumeSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}},
				{Name: "v", VolumeSource: s}}
		}
	}
	projected := func(p corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{
			Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}, p}}})
	}
	const references = `node "n1" can not create pods that reference `
	for _, c := range []struct {
		change func(*corev1.Pod)
		want   string
	}{
		{func(*corev1.Pod) {}, ""},
		{projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{}}), ""},
		{func(p *corev1.Pod) { p.Spec.ServiceAccountName = "sa" }, references + "serviceaccounts"},
		{func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
			references + "secrets"},
		{volume(corev1.VolumeSource{
			ISCSI: &corev1.ISCSIVolumeSource{SecretRef: &corev1.LocalObjectReference{Name: "s"}}}),
			references + "secrets"},
		{volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}), ""},
		{volume(corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}),
			references + "configmaps"},
		{func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: ptr.To("t")}}
		}, references + "resourceclaims"},
		{volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
			references + "configmaps (via configmap volumes)"},
		{volume(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}),
			references + "secrets (via secret volumes)"},
		{volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}),
			references + "csidrivers (via CSI volumes)"},
		{volume(corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}),
			references + "endpoints (via glusterFS volumes)"},
		{volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			references + "persistentvolumeclaims"},
		{volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}),
			references + "persistentvolumeclaims (via ephemeral volumes)"},
		{volume(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}),
			references + "secrets (via azureFile volumes)"},
		{projected(corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{}}),
			references + "configmaps (via projected volumes)"},
		{projected(corev1.VolumeProjection{Secret: &corev1.SecretProjection{}}),
			references + "secrets (via projected volumes)"},
		{projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}),
			references + "serviceaccounts (via projected volumes)"},
		{projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}),
			references + "clustertrustbundles"},
		{projected(corev1.VolumeProjection{PodCertificate: &corev1.PodCertificateProjection{}}),
			references + "podcertificates"},
		{projected(corev1.VolumeProjection{}),
			`error checking mirror pod for API references: unknown source for projected volume "v"`},
		{volume(corev1.VolumeSource{}),
			`error checking mirror pod for API references: unknown volume type for volume  "v"`},
	} {
		want := c.want
		if want != "" {
			want = `pods "static" is forbidden: ` + want
		}
		if got := asNode(admission.Create, corev1.SchemeGroupVersion.WithResource("pods"), "", "static",
			mirror(c.change), nil); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNodesAndSlices(t *testing.T) {
	nodes, slices := corev1.SchemeGroupVersion.WithResource("nodes"),
		resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	restricted := newNode("n2", map[string]string{"node-restriction.kubernetes.io/x": "y"})
	slice := func(node *string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: meta("", "s"), Spec: resourcev1.ResourceSliceSpec{NodeName: node}}
	}
	const another, foreign = `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`,
		` is forbidden: can only delete ResourceSlice with the same NodeName as the requesting node`
	for _, c := range []struct {
		o        admission.Operation
		resource schema.GroupVersionResource
		name     string
		obj, old runtime.Object
		want     string
	}{
		{admission.Create, nodes, "n2", restricted, nil, another},
		{admission.Update, nodes, "n2", restricted, newNode("n2", nil), another},
		{admission.Create, slices, "s", slice(ptr.To("n2")), nil,
			`resourceslices.resource.k8s.io "s" is forbidden: can only create ResourceSlice with the same NodeName as the requesting node`},
		{admission.Update, slices, "s", slice(ptr.To("n1")), slice(ptr.To("n1")), ""},
		{admission.Delete, slices, "s", nil, slice(ptr.To("n1")), ""},
		{admission.Delete, slices, "s", nil, slice(ptr.To("n2")), `resourceslices.resource.k8s.io "s"` + foreign},
		{admission.Delete, slices, "", nil, slice(nil), `resourceslices.resource.k8s.io "Unknown"` + foreign},
	} {
		if got := asNode(c.o, c.resource, "", c.name, c.obj, c.old); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestClaimStatus: a node is told what of a claim it may not change, the class of its attributes among it.
func TestClaimStatus(t *testing.T) {
	claim := func(class string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta("ns", "pvc"),
			Status: corev1.PersistentVolumeClaimStatus{CurrentVolumeAttributesClassName: &class}}
	}
	got := asNode(admission.Update, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "status", "pvc",
		claim("gold"), claim("silver"))
	for _, want := range []string{
		`persistentvolumeclaims "pvc" is forbidden: node "n1" is not allowed to update fields other than status.quantity and status.conditions: @@`,
		"\n-  \"currentVolumeAttributesClassName\": \"silver\"\n+  \"currentVolumeAttributesClassName\": \"gold\"\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
