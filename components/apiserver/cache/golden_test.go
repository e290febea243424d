package cache

import (
	"bytes"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"

	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/serial"
	"quintet.dev/quintet/components/apiserver/storage/memory"
)

// oddPrefixes are where Kubernetes keeps the kinds that don't lie below their resource's name.
var oddPrefixes = map[string]string{
	"nodes":                     "minions",
	"services":                  "services/specs",
	"endpoints":                 "services/endpoints",
	"replicationcontrollers":    "controllers",
	"ingresses":                 "ingress",
	"customresourcedefinitions": "apiextensions.k8s.io/customresourcedefinitions",
	"apiservices":               "apiregistration.k8s.io/apiservices",
}

// TestEveryKindLiesWhereAndAsUpstreamKeepsIt holds keys and bytes fast, so that either server can open the other's data.
func TestEveryKindLiesWhereAndAsUpstreamKeepsIt(t *testing.T) {
	store := memory.New(nil)
	defer store.Close()
	set, err := NewSet(Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	scheme := serial.NewScheme()
	upstream := protobuf.NewSerializer(scheme, scheme)
	for _, kind := range kinds.Table(kinds.Deps{}) {
		if kind.Answer != nil {
			continue
		}
		c := set.Add(kind)
		want := oddPrefixes[kind.Resource]
		if want == "" {
			want = kind.Resource
		}
		want = "/registry/" + want + "/"
		if kind.Namespaced {
			want += "ns/"
		}
		if got := c.Key("ns", "name"); got != want+"name" {
			t.Errorf("%s lies at %s, want %s", kind.Name, got, want+"name")
		}
		obj := kind.HubVersion().New()
		obj.SetName("name")
		if crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition); ok {
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}} // one at least
			crd.Spec.Scope, crd.Status.StoredVersions = apiextensionsv1.NamespaceScoped, []string{"v1"}
		}
		value, err := c.encode(obj)
		if err != nil {
			t.Fatal(err)
		}
		if kind.HubVersion().FromHub != nil {
			t.Errorf("%s: the hub has conversions", kind.Name)
		}
		if !kind.Stored.Empty() {
			head := `{"kind":"` + kind.Name + `","apiVersion":"` + kind.Stored.String() + `","metadata":{"name":"name"},"spec":{`
			sameBytes(t, kind.Name, value[:min(len(head), len(value))], []byte(head))
		} else if want, err := runtime.Encode(upstream, obj); err != nil {
			t.Logf("%s has no protobuf form: %v", kind.Name, err)
		} else {
			sameBytes(t, kind.Name, value, want)
		}
		if v := kind.HubVersion(); v.Default != nil {
			v.Default(obj)
		}
		back, err := c.stored.Decode(value)
		if err != nil || !apiequality.Semantic.DeepEqual(back, obj) {
			t.Errorf("%s came back as %v, %v", kind.Name, back, err)
		}
	}
}

func sameBytes(t *testing.T, name string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s is stored as %q, want %q", name, got, want)
	}
}
