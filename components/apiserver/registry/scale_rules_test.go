package registry

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/fieldmanager"
	"quintet.dev/quintet/components/apiserver/kinds/api"
)

// scaled changes the deployment "x" through its Scale.
func scaled(f *fixture, verb string, mutate func(*autoscalingv1.Scale), dryRun ...string) (*appsv1.Deployment, error) {
	f.Helper()
	e, err := f.writer("deployments/scale", verb, "x").UpdateScale(f.ctx(), ScaleChange{
		Options: &metav1.UpdateOptions{}, DryRun: dryRun,
		Next: func(live *autoscalingv1.Scale, fields *fieldmanager.Manager) (*autoscalingv1.Scale, error) {
			next := live.DeepCopy()
			mutate(next)
			fields.Update(live, next, "scaler")
			return next, nil
		}})
	if err != nil {
		return nil, err
	}
	return e.Object.(*appsv1.Deployment), nil
}

func replicas(n int32) func(*autoscalingv1.Scale) {
	return func(s *autoscalingv1.Scale) { s.Spec.Replicas = n }
}

// TestScale: the Scale shows what the object says, and a change of it is one of the object's replicas alone.
func TestScale(t *testing.T) {
	f := newFixture(t, setup{}, "deployments")
	sent := deployment(meta("x", "a", "1"))
	sent.Spec.Replicas = new(int32(2))
	made := f.mustCreate("deployments", sent)
	e, err := f.writer("deployments", "get", "x").Get(f.ctx(), "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.at("deployments/scale").Scale(e)
	if err != nil || s.Kind != "Scale" || s.APIVersion != "autoscaling/v1" || s.Spec.Replicas != 2 ||
		s.Status.Selector != "app=x" || s.UID != made.GetUID() || s.ResourceVersion != made.GetResourceVersion() ||
		s.Labels != nil || s.Namespace != "a" {
		t.Errorf("the scale is %+v, %v", s, err)
	}
	d, err := scaled(f, "update", func(s *autoscalingv1.Scale) {
		s.Spec.Replicas, s.Labels, s.Status.Replicas = 5, map[string]string{"b": "2"}, 9
	})
	if err != nil || *d.Spec.Replicas != 5 || len(d.Labels) != 1 || d.Status.Replicas != 0 || d.Generation != 2 {
		t.Errorf("scaled to %+v, %v", d, err)
	}
	if got := managers(d); !slices.Equal(got, []string{"scaler Update scale", "tester Update"}) {
		t.Errorf("managed by %q", got)
	}
	for _, entry := range d.ManagedFields {
		if entry.Manager == "scaler" && entry.FieldsV1.GetRawString() != `{"f:spec":{"f:replicas":{}}}` {
			t.Errorf("the scaler owns %s", entry.FieldsV1.GetRawString())
		}
	}
	defer f.unwritten()()
	if again, err := scaled(f, "update", replicas(5)); err != nil || again.ResourceVersion != d.ResourceVersion {
		t.Errorf("scaled to the same: %v, %v", again, err)
	}
	if dry, err := scaled(f, "update", replicas(7), metav1.DryRunAll); err != nil || *dry.Spec.Replicas != 7 {
		t.Errorf("a dry run: %v, %v", dry, err)
	}
}

// TestScaleErrors: what is wrong with a Scale is told of the Scale or of its object, as upstream does.
func TestScaleErrors(t *testing.T) {
	f := newFixture(t, setup{}, "deployments")
	made := f.mustCreate("deployments", deployment(meta("x")))
	defer f.unwritten()()
	const key = "/registry/deployments/a/x"
	for what, c := range map[string]struct {
		verb   string
		mutate func(*autoscalingv1.Scale)
		fails  string
	}{
		"fewer than none": {"update", replicas(-1),
			`Scale.autoscaling "x" is invalid: spec.replicas: Invalid value: -1: ` +
				`must be greater than or equal to 0`},
		"another version": {"update", func(s *autoscalingv1.Scale) { s.ResourceVersion = "1" },
			`Operation cannot be fulfilled on deployments.apps "x": the object has been modified; please apply your ` +
				`changes to the latest version and try again`},
		"another object": {"update", func(s *autoscalingv1.Scale) { s.UID = "u" },
			`Operation cannot be fulfilled on deployments.apps "x": StorageError: invalid object, Code: 4, Key: ` +
				key +
				`, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: u, ` +
				`UID in object meta: ` + string(made.GetUID())},
		"a patch to another object": {"patch", func(s *autoscalingv1.Scale) { s.UID = "u" },
			`Operation cannot be fulfilled on deployments/scale.apps "x": Precondition failed: UID in ` +
				`precondition: u, ` +
				`UID in object meta: ` + string(made.GetUID())},
		"another name": {"update", func(s *autoscalingv1.Scale) { s.Name = "y" },
			"the name of the object (y) does not match the name on the URL (x)"},
	} {
		if _, err := scaled(f, c.verb, c.mutate); textOf(err) != c.fails {
			t.Errorf("%s: %v", what, err)
		}
	}
	w := f.writer("deployments/scale", "update", "none")
	_, err := w.UpdateScale(f.ctx(), ScaleChange{})
	f.fails(err, `deployments.apps "none" not found`)
}

// TestScaleIsAdmitted: admission sees Scales, and may change what is wanted.
func TestScaleIsAdmitted(t *testing.T) {
	kinds := map[string]bool{}
	see := func(half string) func(admission.Attributes) error {
		return func(a admission.Attributes) error {
			if a.GetOperation() != admission.Update {
				return nil
			}
			for _, obj := range []runtime.Object{a.GetObject(), a.GetOldObject()} {
				s, ok := obj.(*autoscalingv1.Scale)
				kinds[half] = ok && a.GetSubresource() == "scale" && a.GetKind().Kind == "Scale"
				if ok && half == "mutating" && s.Spec.Replicas == 4 {
					s.Spec.Replicas = 3
				}
			}
			return nil
		}
	}
	f := newFixture(t, setup{admission: admits{see("mutating"), see("validating")}}, "deployments")
	f.mustCreate("deployments", deployment(meta("x")))
	d, err := scaled(f, "update", replicas(4))
	if err != nil || *d.Spec.Replicas != 3 || !kinds["mutating"] || !kinds["validating"] {
		t.Errorf("scaled to %v, %v; scales were shown: %v", d, err, kinds)
	}
}

// TestScaleRaces: a change that another writer overtakes is made again of what that left.
func TestScaleRaces(t *testing.T) {
	f := newFixture(t, setup{}, "deployments")
	f.mustCreate("deployments", deployment(meta("x")))
	tries := 0
	d, err := scaled(f, "patch", func(s *autoscalingv1.Scale) {
		if tries++; tries == 1 {
			if _, err := f.update("deployments", "x", func(obj api.Object) {
				obj.(*appsv1.Deployment).Spec.Replicas = new(int32(10))
			}); err != nil {
				t.Error(err)
			}
		}
		s.Spec.Replicas++
	})
	if err != nil || tries != 2 || *d.Spec.Replicas != 11 {
		t.Errorf("after %d tries %v, %v", tries, d, err)
	}
}

// TestScaleOfNothingSaid: an object that doesn't say how many replicas are wanted has no Scale to show, and can be
// given a number, none at all among them.
func TestScaleOfNothingSaid(t *testing.T) {
	f := newFixture(t, setup{kind: func(k *api.Kind) {
		for i := range k.Subresources {
			if s := k.Subresources[i].Scale; s != nil {
				s.Field = ".spec.replicas"
				s.Has = func(obj api.Object) bool { return *obj.(*appsv1.Deployment).Spec.Replicas != 1 }
			}
		}
	}}, "deployments")
	f.mustCreate("deployments", deployment(meta("x"))) // of one replica, which stands for nothing said
	e, err := f.writer("deployments", "get", "x").Get(f.ctx(), "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.at("deployments/scale").Scale(e)
	f.fails(err, `Internal error occurred: the spec replicas field ".spec.replicas" does not exist`)
	_, err = scaled(f, "update", func(*autoscalingv1.Scale) {})
	f.fails(err, `the spec replicas field ".spec.replicas" cannot be empty`)
	if d, err := scaled(f, "update", replicas(0)); err != nil || *d.Spec.Replicas != 0 {
		t.Errorf("scaled to none: %v, %v", d, err)
	}
}
