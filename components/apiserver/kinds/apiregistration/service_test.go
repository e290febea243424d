package apiregistration

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/utils/ptr"

	"quintet.dev/quintet/components/apiserver/kinds/show"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func service(name string, change ...func(*apiregistrationv1.APIServiceSpec)) apiService {
	s := &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1",
			CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec: apiregistrationv1.APIServiceSpec{Group: "zoo.io", Version: "v1", GroupPriorityMinimum: 1000,
			VersionPriority: 15},
	}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

func elsewhere(s *apiregistrationv1.APIServiceSpec) {
	s.Service = &apiregistrationv1.ServiceReference{Namespace: "default", Name: "zoo", Port: ptr.To[int32](443)}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name    string
		service apiService
		want    string
	}{
		{"good", service("v1.zoo.io"), ""},
		{"good, elsewhere", service("v1.zoo.io", elsewhere), ""},
		{"name", service("zoo"),
			"metadata.name: Invalid value: \"zoo\": must be `spec.version+\".\"+spec.group`: \"v1.zoo.io\""},
		{"priority", service("v1.zoo.io", func(s *apiregistrationv1.APIServiceSpec) { s.GroupPriorityMinimum = 20001 }),
			"spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000"},
		{"bundle of nobody", service("v1.zoo.io",
			func(s *apiregistrationv1.APIServiceSpec) { s.CABundle = []byte("x") }),
			`spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle`},
		{"bundle and blindness", service("v1.zoo.io", elsewhere,
			func(s *apiregistrationv1.APIServiceSpec) { s.CABundle, s.InsecureSkipTLSVerify = []byte("x"), true }),
			"spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := Validate(test.service)
			if got := errs.ToAggregate(); test.want == "" && got != nil ||
				test.want != "" && (got == nil || got.Error() != test.want) {
				t.Errorf("%v, want %s", got, test.want)
			}
		})
	}
	changed := service("v1.zoo.io")
	changed.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Available", Status: "Perhaps"}}
	if errs := ValidateStatusUpdate(changed, service("v1.zoo.io")); len(errs) != 1 ||
		errs[0].Field != "status.conditions[0].status" {
		t.Errorf("status: %v", errs)
	}
}

func TestPrepare(t *testing.T) {
	local := service("v1.zoo.io")
	local.Status.Conditions = []apiregistrationv1.APIServiceCondition{{Type: "Foo", Status: "True"}}
	PrepareCreate(local, metav1.NewTime(now))
	if c := local.Status.Conditions; len(c) != 1 || c[0].Reason != "Local" || c[0].Status != "True" ||
		!c[0].LastTransitionTime.Time.Equal(now) {
		t.Errorf("local: %+v", c)
	}
	remote := service("v1.zoo.io", elsewhere)
	remote.Status = local.Status
	if PrepareCreate(remote, metav1.NewTime(now)); len(remote.Status.Conditions) > 0 {
		t.Errorf("elsewhere: %+v", remote.Status)
	}
	changed := service("v1.zoo.io")
	changed.Labels, changed.Status = map[string]string{"a": "b"}, local.Status
	if PrepareStatusUpdate(t.Context(), changed, remote); changed.Labels != nil || changed.Spec.Service == nil ||
		len(changed.Status.Conditions) != 1 {
		t.Errorf("status update: %+v", changed)
	}
}

func TestRow(t *testing.T) {
	sick := service("v1.zoo.io", elsewhere)
	sick.Status.Conditions = []apiregistrationv1.APIServiceCondition{
		{Type: apiregistrationv1.Available, Status: "False", Reason: "ServiceNotFound"}}
	mute := service("v1.zoo.io", elsewhere)
	mute.Status.Conditions = []apiregistrationv1.APIServiceCondition{
		{Type: apiregistrationv1.Available, Status: "False"}}
	local := service("v1.zoo.io")
	PrepareCreate(local, metav1.NewTime(now))
	for _, test := range []struct {
		service apiService
		want    []any
	}{
		{local, []any{"v1.zoo.io", "Local", "True", "60s"}},
		{sick, []any{"v1.zoo.io", "default/zoo", "False (ServiceNotFound)", "60s"}},
		{mute, []any{"v1.zoo.io", "default/zoo", "False", "60s"}},
		{service("v1.zoo.io", elsewhere), []any{"v1.zoo.io", "default/zoo", "Unknown", "60s"}},
	} {
		if got := show.At(Row(test.service), now); !slices.Equal(got, test.want) {
			t.Errorf("%v, want %v", got, test.want)
		}
	}
}
