package twin_test

import (
	"reflect"
	"testing"

	"quintet.dev/quintet/components/apiserver/kinds/twin"
)

type (
	name  string
	item  struct{ A string }
	other struct{ A name }
	tree  struct {
		Items map[name]*item
		Below []tree
	}
	wood struct {
		Items map[string]*other
		Below []wood
	}
)

func TestOf(t *testing.T) {
	in := &tree{Items: map[name]*item{"a": {"b"}}, Below: []tree{{}}}
	out := twin.Of[wood](in)
	if out.Items["a"].A != "b" || len(out.Below) != 1 || out.Items["none"] != nil {
		t.Errorf("%+v", out)
	}
	if list := twin.List[wood](in.Below); len(list) != 1 || twin.List[wood]([]tree(nil)) != nil {
		t.Errorf("%+v", list)
	}
}

func TestAlike(t *testing.T) {
	for _, test := range []struct {
		a, b any
		want bool
	}{
		{tree{}, wood{}, true},
		{item{}, other{}, true},
		{item{}, struct{ B string }{}, false},
		{item{}, struct{ A, B string }{}, false},
		{struct{ A, B string }{}, struct{ B, A string }{}, false},
		{struct{ A *int32 }{}, struct{ A *int64 }{}, false},
		{struct{ A string }{}, struct{ A *string }{}, false},
		{struct{ A []item }{}, struct{ A []other }{}, true},
		{struct{ A map[string]int32 }{}, struct{ A map[string]uint32 }{}, false},
		{struct{ A error }{}, struct{ A any }{}, false},
		{[2]int{}, [3]int{}, false},
	} {
		if got := twin.Alike(reflect.TypeOf(test.a), reflect.TypeOf(test.b)); got != test.want {
			t.Errorf("%T and %T: %v", test.a, test.b, got)
		}
	}
}
