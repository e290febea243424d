package kinds_test

import (
	"bytes"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestEncodingGoesRound: every kind, in every version that is served, comes back from JSON, YAML and protobuf as it
// went.
func TestEncodingGoesRound(t *testing.T) {
	codecs := codec.NewCodec(codec.NewScheme())
	each(t, func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object) {
		if v.Unserved {
			return
		}
		gvk := v.WithKind(k.Name)
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		for _, m := range []codec.MediaType{codec.JSON, codec.YAML, codec.Protobuf} {
			var body bytes.Buffer
			if err := codecs.Encode(&body, obj, gvk, m); err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			back, got, err := codecs.Decode(body.Bytes(), m, nil, v.New(), true)
			if err != nil || *got != gvk {
				t.Fatalf("%s: %v, %v", m, got, err)
			}
			sameObjects(t, m.String(), obj, back.(api.Object))
		}
	})
}

// TestStorageGoesRound: what is stored is read back as it was, and what was read is stored in the same bytes again.
func TestStorageGoesRound(t *testing.T) {
	each(t, func(t *testing.T, k *api.Kind, v *api.Version, obj api.Object) {
		if v.GroupVersion != k.Hub || k.Virtual() {
			return
		}
		k.Reread(obj, false)
		if k.Strategy.Canonicalize != nil {
			k.Strategy.Canonicalize(obj)
		}
		obj.SetResourceVersion("")
		stored := codec.NewStorage(k, runtime.ContentTypeProtobuf)
		value, err := stored.Encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		back, err := stored.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		sameObjects(t, "what was stored", obj, back)
		again, err := stored.Encode(back)
		if err != nil {
			t.Fatal(err)
		}
		if back, err = stored.Decode(again); err != nil {
			t.Fatal(err)
		}
		third, err := stored.Encode(back)
		if err != nil || !bytes.Equal(again, third) {
			t.Fatalf("stored again as %q, %v, before as %q", third, err, again)
		}
	})
}

// TestClaimsOfLongAgo: claims were once stored with the older form of their source alone. They are read with both.
func TestClaimsOfLongAgo(t *testing.T) {
	var claims *api.Kind
	for _, k := range kinds.Table(api.Deps{}) {
		if k.Resource == "persistentvolumeclaims" {
			claims = k
		}
	}
	group := "example.com"
	for name, source := range map[string]*corev1.TypedLocalObjectReference{
		"of a claim":        {Kind: "PersistentVolumeClaim", Name: "c"},
		"of something else": {APIGroup: &group, Kind: "K", Name: "n"}, "none": nil,
	} {
		stored := codec.NewStorage(claims, runtime.ContentTypeProtobuf)
		value, err := stored.Encode(
			&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{DataSource: source}})
		if err != nil {
			t.Fatal(err)
		}
		obj, err := stored.Decode(value)
		if err != nil {
			t.Fatal(err)
		}
		spec := obj.(*corev1.PersistentVolumeClaim).Spec
		if !reflect.DeepEqual(spec.DataSource, source) {
			t.Errorf("%s: source %+v", name, spec.DataSource)
		}
		var want *corev1.TypedObjectReference
		if source != nil {
			want = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
		}
		if !reflect.DeepEqual(spec.DataSourceRef, want) {
			t.Errorf("%s: reference %+v, want %+v", name, spec.DataSourceRef, want)
		}
	}
}
