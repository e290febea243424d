package podspec

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

type volumeSource = corev1.VolumeSource

func TestVolumeNames(t *testing.T) {
	with := func(names ...string) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) {
			for _, name := range names {
				s.Volumes = append(s.Volumes, corev1.Volume{Name: name,
					VolumeSource: volumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
		}
	}
	checkSpecs(t, "spec.volumes[0]", []specCase{
		{"good", with("a", "b"), nil},
		{"none", with(""), texts{".name: Required value"}},
		{"bad", with("A"), texts{`.name: Invalid value: "A": a lowercase RFC 1123 label must…`}},
		{"twice", with("a", "a"), texts{`spec.volumes[1].name: Duplicate value: "a"`}},
		{"no type", withVolume(volumeSource{}), texts{": Required value: must specify a volume type"}},
		{"mounted, but bad", func(s *corev1.PodSpec) { // such a volume isn't there for containers
			withVolume(volumeSource{HostPath: &corev1.HostPathVolumeSource{}})(s)
			s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		}, texts{".hostPath.path: Required value", `spec.containers[0].volumeMounts[0].name: Not found: "v"`}},
	})
}

// TestVolumeTypes: of two types the one that upstream looks at later is one too many, under the name it has there.
func TestVolumeTypes(t *testing.T) {
	all := reflect.TypeFor[volumeSource]()
	for i := range all.NumField() {
		name, _, _ := strings.Cut(all.Field(i).Tag.Get("json"), ",")
		if name == "emptyDir" {
			continue
		}
		s := volumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		v := reflect.ValueOf(&s).Elem().Field(i)
		v.Set(reflect.New(v.Type().Elem()))
		want := map[string]string{"cephfs": "cephFS", "downwardAPI": "downwarAPI"}[name]
		if want == "" {
			want = name
		}
		checkSpecs(t, "spec.volumes[0].", []specCase{
			{name, withVolume(s), texts{want + ": Forbidden: may not specify more than 1 volume type"}}})
	}
}

// TestClaimsMadeForPods: a pod doesn't use the claim that is made for one of its volumes by name, and that name is one.
func TestClaimsMadeForPods(t *testing.T) {
	ephemeral := volumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: *claimOf(func(*corev1.PersistentVolumeClaimSpec) {}),
		},
	}}
	claim := func(name string) corev1.Volume {
		return corev1.Volume{Name: "c", VolumeSource: volumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	list := []corev1.Volume{claim("p-e"), {Name: "e", VolumeSource: ephemeral}}
	used := texts{
		`v[0].persistentVolumeClaim.claimName: Invalid value: "p-e": must not reference a PVC that gets created for an ephemeral volume`,
	}
	long := strings.Repeat("a", 253)
	for name, c := range map[string]struct {
		meta *metav1.ObjectMeta
		list []corev1.Volume
		want texts
	}{
		"of the pod":         {&metav1.ObjectMeta{Name: "p"}, list, used},
		"of another pod":     {&metav1.ObjectMeta{Name: "q"}, list, nil},
		"of a generated one": {&metav1.ObjectMeta{GenerateName: "p"}, list, nil},
		"of a template":      {nil, list, nil},
		"too long": {&metav1.ObjectMeta{Name: long}, list[1:],
			texts{`v[0].name: Invalid value: "e": PVC name "` + long + `-e": must be no more than 253 characters`}},
		"long, in a template": {nil, list[1:], nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, errs := validateVolumes(c.list, nil, c.meta, field.NewPath("v"))
			sameTexts(t, errorsBelow("", errs), c.want)
		})
	}
}

func TestEphemeralVolumes(t *testing.T) {
	type template = corev1.PersistentVolumeClaimTemplate
	with := func(t *template) func(*corev1.PodSpec) {
		return withVolume(volumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: t}})
	}
	good := func(meta metav1.ObjectMeta) *template {
		return &template{ObjectMeta: meta, Spec: *claimOf(func(*corev1.PersistentVolumeClaimSpec) {})}
	}
	const never = ": Forbidden: cannot be set"
	checkSpecs(t, "spec.volumes[0].ephemeral.volumeClaimTemplate", []specCase{
		{"labels",
			with(good(metav1.ObjectMeta{Labels: map[string]string{"a": "b"},
				Annotations: map[string]string{"a": "b"}})), nil},
		{"no template", with(nil), texts{": Required value"}},
		{"no spec", with(&template{}), texts{".spec.accessModes: Required value: at least 1 access mode is required",
			".spec.resources[storage]: Required value"}},
		{"bad labels",
			with(good(metav1.ObjectMeta{Labels: map[string]string{"a": "b c"},
				Annotations: map[string]string{"a b": ""}})),
			texts{`.metadata.annotations: Invalid value: "a b": name part must consist of…`,
				`.metadata.labels: Invalid value: "b c": a valid label must be…`}},
		{"names",
			with(good(metav1.ObjectMeta{Name: "a", GenerateName: "b", Namespace: "c", UID: "d", ResourceVersion: "1"})),
			texts{".metadata.name" + never, ".metadata.generateName" + never, ".metadata.namespace" + never,
				".metadata.uID" + never, ".metadata.resourceVersion" + never}},
		{"times",
			with(good(metav1.ObjectMeta{Generation: 1, CreationTimestamp: metav1.Unix(1, 0),
				DeletionTimestamp:          &metav1.Time{},
				DeletionGracePeriodSeconds: ptr.To[int64](1)})), texts{".metadata.generation" + never,
				".metadata.creationTimestamp" + never,
				".metadata.deletionTimestamp" + never, ".metadata.deletionGracePeriodSeconds" + never}},
		{"owners",
			with(good(metav1.ObjectMeta{SelfLink: "a", OwnerReferences: []metav1.OwnerReference{}, Finalizers: texts{},
				ManagedFields: []metav1.ManagedFieldsEntry{}})), texts{".metadata.selfLink" + never,
				".metadata.ownerReferences" + never, ".metadata.finalizers" + never, ".metadata.managedFields" + never}},
	})
}

// TestImageVolumes: a template may leave it open which image that is (KEP-4639).
func TestImageVolumes(t *testing.T) {
	with := func(reference string, policy corev1.PullPolicy) func(*corev1.PodSpec) {
		return withVolume(volumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: policy}})
	}
	const policies = `supported values: "Always", "IfNotPresent", "Never"`
	for _, c := range []struct {
		specCase
		template texts
	}{
		{specCase{"good", with("i", "Never"), nil}, nil},
		{specCase{"no image", with("", "Always"), texts{"reference: Required value"}}, nil},
		{specCase{"no policy", with("i", ""), texts{"pullPolicy: Required value"}},
			texts{"pullPolicy: Required value"}},
		{specCase{"policy", with("i", "A"), texts{`pullPolicy: Unsupported value: "A": ` + policies}},
			texts{`pullPolicy: Unsupported value: "A": ` + policies}},
	} {
		checkSpecs(t, "spec.volumes[0].image.", []specCase{c.specCase})
		p := template(minimal())
		c.change(&p.Spec)
		sameTexts(t, errorsBelow("spec.volumes[0].image.", Rules{}.ValidateTemplate(p, nil, nil)), c.template)
	}
}
