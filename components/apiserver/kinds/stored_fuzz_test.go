package kinds_test

import (
	"bytes"
	"k8s.io/apimachinery/pkg/runtime"
	"testing"

	"quintet.dev/quintet/components/apiserver/codec"
	"quintet.dev/quintet/components/apiserver/kinds"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// FuzzStored: whatever lies in the store is refused, or read, and then written and read again the same.
func FuzzStored(f *testing.F) {
	var stored []*codec.Storage
	for _, k := range kinds.Table(api.Deps{}) {
		if k.Virtual() {
			continue
		}
		stored = append(stored, codec.NewStorage(k, runtime.ContentTypeProtobuf))
		obj := k.HubVersion().New()
		filler(1).Fill(obj)
		obj.SetResourceVersion("")
		value, err := stored[len(stored)-1].Encode(obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(len(stored)-1), value)
	}
	f.Add(uint8(2), []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{}]}}`))
	f.Fuzz(func(t *testing.T, kind uint8, value []byte) {
		s := stored[int(kind)%len(stored)]
		obj, err := s.Decode(value)
		if err != nil {
			return
		}
		obj.SetResourceVersion("")
		once, err := s.Encode(obj)
		if err != nil {
			return // raw parts may be no JSON
		}
		back, err := s.Decode(once)
		if err != nil {
			t.Fatalf("%q is read, and not what is written of it, %q: %v", value, once, err)
		}
		back.SetResourceVersion("")
		if again, err := s.Encode(back); err != nil || !bytes.Equal(again, once) {
			t.Fatalf("%q was written, then %q, %v", once, again, err)
		}
	})
}
