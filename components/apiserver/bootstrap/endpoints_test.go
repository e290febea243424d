package bootstrap

import (
	"context"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// endpointsOf are the endpoints and the slice of the Service.
func endpointsOf(t *testing.T, store *objectstest.Store) (*corev1.Endpoints, *discoveryv1.EndpointSlice) {
	t.Helper()
	e, err := objects.As[*corev1.Endpoints](
		store.Get(t.Context(), corev1.Resource("endpoints"), "default", "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	slice, err := objects.As[*discoveryv1.EndpointSlice](
		store.Get(t.Context(), discoveryv1.Resource("endpointslices"), "default", "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	return e, slice
}

// The port and other changes stay until the next start, if the addresses and the form are right; so do those of the
// slice.
func TestEndpointsThatWereChanged(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := newBootstrap(store, "host", "192.0.2.1", clk)
	defer b.endpoints.masters.Store.Close()
	changes := func(f func(*corev1.Endpoints)) {
		t.Helper()
		if _, err := store.Update(ctx, corev1.Resource("endpoints"), "default", "kubernetes",
			func(o api.Object) (api.Object, error) {
				f(o.(*corev1.Endpoints))
				return o, nil
			}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, step func(context.Context) error, port int32, ready ...string) {
		t.Helper()
		if err := step(ctx); err != nil {
			t.Fatal(err)
		}
		e, slice := endpointsOf(t, store)
		var addresses, sliced []string
		for _, a := range e.Subsets[0].Addresses {
			addresses = append(addresses, a.IP)
		}
		for _, p := range slice.Endpoints {
			if *p.Conditions.Ready {
				sliced = append(sliced, p.Addresses...)
			}
		}
		if !slices.Equal(addresses, ready) || !slices.Equal(sliced, ready) || e.Subsets[0].Ports[0].Port != port ||
			*slice.Ports[0].Port != port {
			t.Errorf("%s: %+v, %+v", when, e.Subsets, slice)
		}
		before := store.Writes
		if err := step(ctx); err != nil || store.Writes != before {
			t.Errorf("%s: written again, %v", when, err)
		}
	}
	check("at first", b.endpoints.ensure, 6443, "192.0.2.1")
	changes(func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 7 })
	check("another port", b.endpoints.keep, 7, "192.0.2.1")
	changes(func(e *corev1.Endpoints) {
		e.Subsets[0].Addresses = append(e.Subsets[0].Addresses, corev1.EndpointAddress{IP: "192.0.2.9"})
		e.Subsets[0].NotReadyAddresses = []corev1.EndpointAddress{{IP: "192.0.2.8", NodeName: ptr.To("n")}}
		e.Labels["mine"] = "kept"
	})
	check("another address", b.endpoints.keep, 7, "192.0.2.1")
	if e, slice := endpointsOf(t, store); e.Labels["mine"] != "kept" || len(slice.Endpoints) != 2 ||
		*slice.Endpoints[1].NodeName != "n" {
		t.Errorf("labels %v, slice %+v", e.Labels, slice.Endpoints)
	}
	check("a start", b.endpoints.ensure, 6443, "192.0.2.1")
	changes(func(e *corev1.Endpoints) { e.Subsets = append(e.Subsets, e.Subsets[0]); e.Subsets[0].Ports[0].Port = 8 })
	check("another form", b.endpoints.keep, 6443, "192.0.2.1")
}

// The slice is compared by its labels, too, and replaced as a whole.
func TestSliceThatWasChanged(t *testing.T) {
	ctx, store, clk := t.Context(), &objectstest.Store{}, testingclock.NewFakeClock(time.Unix(1700000000, 0))
	b := newBootstrap(store, "host", "192.0.2.1", clk)
	defer b.endpoints.masters.Store.Close()
	resource := discoveryv1.Resource("endpointslices")
	change := func(f func(*discoveryv1.EndpointSlice)) {
		t.Helper()
		if err := b.endpoints.keep(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Update(ctx, resource, "default", "kubernetes", func(o api.Object) (api.Object, error) {
			f(o.(*discoveryv1.EndpointSlice))
			return o, nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.endpoints.keep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	annotated := func(s *discoveryv1.EndpointSlice) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "a", "b") }
	change(annotated)
	if _, slice := endpointsOf(t, store); slice.Annotations["a"] != "b" {
		t.Error("an annotation alone is no reason for a write")
	}
	_, before := endpointsOf(t, store)
	change(func(s *discoveryv1.EndpointSlice) {
		annotated(s)
		s.Labels["more"] = "x"
		s.Finalizers = []string{"f"}
	})
	_, slice := endpointsOf(t, store)
	want := map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	if !maps.Equal(slice.Labels, want) || len(slice.Annotations)+len(slice.Finalizers) != 0 || slice.UID != before.UID {
		t.Errorf("replaced by %+v", slice.ObjectMeta)
	}
	change(func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN })
	if _, slice := endpointsOf(t, store); slice.AddressType != discoveryv1.AddressTypeIPv4 || slice.UID == before.UID {
		t.Errorf("of the type %s, %s", slice.AddressType, slice.UID)
	}
	b.endpoints.masters, b.endpoints.servers, b.endpoints.address = nil, 1, net.ParseIP("2001:db8::1")
	if err := b.endpoints.keep(ctx); err != nil {
		t.Fatal(err)
	}
	if _, slice := endpointsOf(t, store); slice.AddressType != discoveryv1.AddressTypeIPv6 ||
		len(slice.Endpoints) != 1 {
		t.Errorf("of the other family: %+v", slice)
	}
}
