package bootstrap

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	testingclock "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/kinds/api"
	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

// stubborn is a store that takes no changes.
type stubborn struct{ *objectstest.Store }

var errStubborn = errors.New("no")

func (stubborn) Update(context.Context, schema.GroupResource, string, string,
	func(api.Object) (api.Object, error)) (api.Object, error) {
	return nil, errStubborn
}

func (stubborn) ApplyStatus(context.Context, schema.GroupResource, string, string, string, any) (api.Object, error) {
	return nil, errStubborn
}

// TestServiceCIDRIsToldOf: what is wrong with the ranges is told: each time that something fails, and once what stays
// as it is.
func TestServiceCIDRIsToldOf(t *testing.T) {
	const first, second = "10.96.0.0/16", "fd00::/108"
	unready := metav1.Condition{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse,
		Reason: "Odd", Message: "it is odd"}
	for name, c := range map[string]struct {
		is, configured []string
		conditions     []metav1.Condition
		want           []string
	}{
		"in order": {[]string{first}, []string{first},
			[]metav1.Condition{{Type: unready.Type, Status: metav1.ConditionTrue}}, nil},
		"another range": {[]string{"10.97.0.0/16"}, []string{first}, nil, []string{
			"Warning KubernetesDefaultServiceCIDRInconsistent The default ServiceCIDR [10.97.0.0/16] does not match the " +
				"controller flag configurations [10.96.0.0/16]"}},
		"not ready": {[]string{first}, []string{first}, []metav1.Condition{unready},
			[]string{"Warning Odd Configuration matches, but it is odd"}},
		"no status": {[]string{first}, []string{first}, nil, slices.Repeat([]string{
			"Warning KubernetesDefaultServiceCIDRError The default ServiceCIDR Status can not be set to Ready=True"},
			2)},
		"no second family": {[]string{first}, []string{first, second}, nil, slices.Repeat([]string{
			"Warning KubernetesDefaultServiceCIDRError The default ServiceCIDR can not be upgraded from 10.96.0.0/16 to dual " +
				"stack [10.96.0.0/16 fd00::/108] : no"}, 2)},
	} {
		store := &objectstest.Store{}
		store.Put(networkingv1.Resource("servicecidrs"),
			&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
				Spec:   networkingv1.ServiceCIDRSpec{CIDRs: c.is},
				Status: networkingv1.ServiceCIDRStatus{Conditions: c.conditions}})
		b := newBootstrap(store, "host", "192.0.2.1", testingclock.NewFakeClock(time.Unix(1700000000, 0)))
		b.writer.objects, b.serviceCIDR.ranges = stubborn{store}, nil
		for _, r := range c.configured {
			b.serviceCIDR.ranges = append(b.serviceCIDR.ranges, netip.MustParsePrefix(r))
		}
		recorder := record.NewFakeRecorder(10)
		b.serviceCIDR.events = recorder
		for range 2 {
			if err := b.serviceCIDR.ensure(t.Context()); err != nil && !errors.Is(err, errStubborn) {
				t.Fatal(err)
			}
		}
		close(recorder.Events)
		var got []string
		for text := range recorder.Events {
			got = append(got, text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: told\n%q, want\n%q", name, got, c.want)
		}
	}
}
