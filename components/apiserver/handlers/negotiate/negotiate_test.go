package negotiate

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"quintet.dev/quintet/components/apiserver/codec"
)

func TestAccept(t *testing.T) {
	offer := Offer{Media: All, Shapes: []string{Table}}
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	cases := map[string]struct {
		accept string
		want   Choice
		fails  bool
	}{
		"nothing":         {accept: "", want: Choice{Media: codec.JSON}},
		"anything":        {accept: "*/*", want: Choice{Media: codec.JSON}},
		"any application": {accept: "application/*", want: Choice{Media: codec.JSON}},
		"YAML":            {accept: "application/yaml", want: Choice{Media: codec.YAML}},
		"the first known": {accept: "text/html, application/vnd.kubernetes.protobuf, application/json",
			want: Choice{Media: codec.Protobuf}},
		"a plain list": {accept: "text/html,application/vnd.kubernetes.protobuf,application/json",
			want: Choice{Media: codec.Protobuf}},
		"a plain list of none": {accept: "text/html,text/plain", fails: true},
		"by quality": {accept: "application/json;q=0.1,application/yaml;q=0.9",
			want: Choice{Media: codec.YAML}},
		"table": {accept: table + ",application/json",
			want: Choice{Media: codec.JSON, Shape: Table, Version: "v1"}},
		"table of old": {accept: "application/yaml;as=Table;v=v1beta1;g=meta.k8s.io",
			want: Choice{Media: codec.YAML, Shape: Table, Version: "v1beta1"}},
		"stream": {accept: "application/vnd.kubernetes.protobuf;stream=watch",
			want: Choice{Media: codec.Protobuf}},
		"unknown stream":    {accept: "application/json;stream=list", fails: true},
		"no stream as YAML": {accept: "application/yaml;stream=watch", fails: true},
		"half a shape":      {accept: "application/json;v=v1,application/yaml", want: Choice{Media: codec.YAML}},
		"server version": {accept: "application/json;sv=v2,application/yaml;sv=v1",
			want: Choice{Media: codec.YAML}},
		"unknown shape": {accept: "application/json;as=Chair;v=v1;g=meta.k8s.io,application/json",
			want: Choice{Media: codec.JSON}},
		"unknown version": {accept: "application/json;as=Table;v=v9;g=meta.k8s.io,application/json",
			want: Choice{Media: codec.JSON}},
		"no table as protobuf": {accept: "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io",
			fails: true},
		"none known":         {accept: "text/html", fails: true},
		"refused, as a joke": {accept: "application/json;q=0", want: Choice{Media: codec.JSON}},
		"pretty":             {accept: "application/json;pretty=1", want: Choice{Media: codec.JSON, Pretty: true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			if c.accept != "" {
				r.Header.Set("Accept", c.accept)
			}
			got, err := offer.Accept(r)
			if c.fails != apierrors.IsNotAcceptable(err) || got != c.want {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestBody(t *testing.T) {
	for header, want := range map[string]codec.MediaType{
		"": codec.JSON, "application/json": codec.JSON, "application/json; charset=utf-8": codec.JSON,
		"application/yaml": codec.YAML, "APPLICATION/JSON": codec.JSON,
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", header)
		if got, err := Body(r, All...); err != nil || got != want {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("Content-Type", "text/plain")
	if _, err := Body(r, All...); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("got %v", err)
	}
}

func FuzzAccept(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
	f.Add("*/*;q=0.5, application/*;;")
	f.Fuzz(func(t *testing.T, accept string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", accept)
		choice, err := Offer{Media: All, Shapes: []string{"Table"}}.Accept(r)
		if err == nil && choice.Shape != "" && choice.Shape != "Table" {
			t.Errorf("%q gives shape %q", accept, choice.Shape)
		}
	})
}
