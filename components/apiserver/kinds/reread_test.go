package kinds_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// TestRereadIsWhatIsStored: what becomes of a written object in memory is to the last bit what another server reads
// from the store.
func TestRereadIsWhatIsStored(t *testing.T) {
	for _, media := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		t.Run(media, func(t *testing.T) { rereadAsStored(t, media) })
	}
}

func rereadAsStored(t *testing.T, media string) {
	dropped := 0
	for _, kind := range kinds.Table(api.Deps{}) {
		if kind.Virtual() {
			continue
		}
		stored := codec.NewStorage(kind, media)
		for seed := range int64(20) {
			obj := kind.HubVersion().New()
			filler(seed).NilChance(0.2).NumElements(0,
				2).Funcs(func(v *apiextensionsv1.CustomResourceConversion, c randfill.Continue) {
				if c.FillNoCustom(v); v.Webhook != nil {
					v.Webhook.ConversionReviewVersions = []string{"v1"} // there must be some
				}
			}, func(s *apiextensionsv1.CustomResourceDefinitionSpec, c randfill.Continue) {
				if c.FillNoCustom(s); len(s.Versions) == 0 {
					s.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1"}} // as well
				}
			}, func(s *apiextensionsv1.JSONSchemaPropsOrBool, c randfill.Continue) {
				s.Allows = c.Bool() // which protobuf may leave out where there is a schema
				s.Schema = &apiextensionsv1.JSONSchemaProps{Type: c.String(5), Required: []string{}}
			}, func(at *metav1.Time, c randfill.Continue) {
				*at = metav1.Time{Time: time.Unix(c.Int63n(1e9), c.Int63n(1e9)).UTC()}
			}, func(at *metav1.MicroTime, c randfill.Continue) {
				*at = metav1.MicroTime{Time: time.Unix(c.Int63n(1e9), c.Int63n(1e9)).UTC()}
			}).Fill(obj)
			if v := kind.HubVersion(); v.Default != nil {
				v.Default(obj)
			}
			obj.SetResourceVersion("")
			obj.GetObjectKind().SetGroupVersionKind(kind.Hub.WithKind(kind.Name))
			value, err := stored.Encode(obj.DeepCopyObject().(api.Object))
			if err != nil {
				t.Fatal(kind.Name, err)
			}
			back, err := stored.Decode(value)
			if err != nil {
				t.Fatal(kind.Name, err)
			}
			before := obj.DeepCopyObject()
			kind.Reread(obj, media == runtime.ContentTypeJSON)
			if !reflect.DeepEqual(before, obj) {
				dropped++
			}
			obj.GetObjectKind().SetGroupVersionKind(back.GetObjectKind().GroupVersionKind())
			if !reflect.DeepEqual(obj, back) {
				t.Errorf("%s, seed %d: -read +in memory\n%s", kind.Name, seed,
					cmp.Diff(back, obj, cmp.Exporter(func(reflect.Type) bool { return true })))
				break
			}
		}
	}
	if dropped < 100 {
		t.Errorf("only %d objects had anything empty", dropped)
	}
}
