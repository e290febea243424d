package subresources

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", ResourceVersion: "7",
			Labels: map[string]string{"app": "a", "zone": "own"}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, NominatedNodeName: "wish",
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

func binding() *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: map[string]string{"x": "y"},
			Labels: map[string]string{"zone": "z", "rack": "r"}},
		Target: corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
}

// isPlain reports whether an error has no reason, as upstream's that aren't meant for clients.
func isPlain(err error) bool {
	return err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown
}

func admitted(runtime.Object) error { return nil }

func TestBind(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pod    func(*corev1.Pod)
		bind   func(*corev1.Binding)
		dryRun bool
		want   func(error) bool
		text   string
	}{
		{name: "binds"},
		{name: "dry run", dryRun: true},
		{name: "uid", bind: func(b *corev1.Binding) { b.UID = "other" }, want: apierrors.IsConflict,
			text: `Operation cannot be fulfilled on pods "p": StorageError: invalid object, Code: 4, Key: /registry/pods/ns/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, UID in object meta: `},
		{name: "version, dry run", bind: func(b *corev1.Binding) { b.ResourceVersion = "1" }, dryRun: true,
			want: apierrors.IsConflict,
			text: "Key: /pods/ns/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: ResourceVersion in " +
				"precondition: 1, ResourceVersion in object meta: 7"},
		{name: "has a node", pod: func(p *corev1.Pod) { p.Spec.NodeName = "m" }, want: apierrors.IsConflict,
			text: `pod p is already assigned to node "m"`},
		{name: "deleted", pod: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: now} },
			want: apierrors.IsConflict, text: "is being deleted"},
		{name: "gated", pod: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} },
			want: apierrors.IsConflict},
		{name: "no target", bind: func(b *corev1.Binding) { b.Target.Name = "" }, want: isPlain,
			text: "target.name: Required value"},
		{name: "strange target", bind: func(b *corev1.Binding) { b.Target.Kind = "Ship"; b.Target.Name = "" },
			want: isPlain,
			text: `[target.kind: Unsupported value: "Ship": supported values: "Node", "<empty>", target.name: Required value]`},
		{name: "other name", bind: func(b *corev1.Binding) { b.Name = "q" }, want: apierrors.IsBadRequest,
			text: "name in URL does not match name in Binding object"},
		{name: "no name", bind: func(b *corev1.Binding) { b.Name = "" }, want: apierrors.IsBadRequest,
			text: "name in URL does not match name in Binding object"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := &objectstest.Store{}
			store.Put(pods, pod(tc.pod))
			b := binding()
			if tc.bind != nil {
				tc.bind(b)
			}
			err := (&Binder{Objects: store, Clock: clocktesting.NewFakePassiveClock(now), Prefix: "/registry"}).Bind(
				context.Background(), "ns", "p", b, tc.dryRun, admitted)
			if tc.want != nil {
				if !tc.want(err) || !strings.Contains(err.Error(), tc.text) {
					t.Error(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			obj, _ := store.Get(context.Background(), pods, "ns", "p")
			p := obj.(*corev1.Pod)
			if tc.dryRun {
				if p.Spec.NodeName != "" {
					t.Error("a dry run bound the pod")
				}
				return
			}
			c := p.Status.Conditions[len(p.Status.Conditions)-1]
			if p.Spec.NodeName != "n" || p.Annotations["x"] != "y" || p.Labels["zone"] != "z" ||
				p.Labels["rack"] != "r" ||
				p.Status.NominatedNodeName != "" || c.Type != corev1.PodScheduled || c.Status != corev1.ConditionTrue ||
				!c.LastTransitionTime.Time.Equal(now) {
				t.Errorf("%+v", p)
			}
		})
	}
}

// deleter records deletions; errs are returned first.
type deleter struct {
	errs    []error
	options []*metav1.DeleteOptions
}

func (d *deleter) DeletePod(_ context.Context, _, _ string, o *metav1.DeleteOptions) error {
	d.options = append(d.options, o)
	if len(d.errs) > 0 {
		err := d.errs[0]
		d.errs = d.errs[1:]
		return err
	}
	return nil
}

func budget(change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns", Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 1, CurrentHealthy: 2,
			DesiredHealthy: 1},
	}
	if change != nil {
		change(b)
	}
	return b
}

func TestEvict(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	none := func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 0 }
	says := func(reason, message string) func(*policyv1.PodDisruptionBudget) {
		return func(b *policyv1.PodDisruptionBudget) {
			none(b)
			b.Status.Conditions = []metav1.Condition{
				{Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason,
					Message: message}}
		}
	}
	told := func(message string) func(error) bool {
		return func(err error) bool {
			status := apierrors.APIStatus(nil)
			return errors.As(err, &status) && status.Status().Details.Causes[0].Message == message
		}
	}
	always := policyv1.AlwaysAllow
	for _, tc := range []struct {
		name    string
		pod     func(*corev1.Pod)
		budgets []*policyv1.PodDisruptionBudget
		options *metav1.DeleteOptions
		dryRun  bool
		refused func(error) bool
		text    string
		left    int32 // of the budget
	}{
		{name: "no budget"},
		{name: "budget", budgets: []*policyv1.PodDisruptionBudget{budget(nil)}, left: 0},
		{name: "dry run", budgets: []*policyv1.PodDisruptionBudget{budget(nil)}, dryRun: true, left: 1},
		{name: "spent", budgets: []*policyv1.PodDisruptionBudget{budget(none)}, refused: apierrors.IsTooManyRequests,
			text: "Cannot evict pod as it would violate the pod's disruption budget."},
		{name: "unobserved", budgets: []*policyv1.PodDisruptionBudget{
			budget(func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 })},
			refused: apierrors.IsTooManyRequests, left: 1},
		{name: "negative", budgets: []*policyv1.PodDisruptionBudget{
			budget(func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = -1 })},
			refused: apierrors.IsForbidden, left: -1},
		{name: "two budgets", budgets: []*policyv1.PodDisruptionBudget{budget(nil),
			budget(func(b *policyv1.PodDisruptionBudget) { b.Name = "c" })},
			refused: func(err error) bool { return err != nil }, text: "more than one PodDisruptionBudget", left: 1},
		{name: "ended", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
			budgets: []*policyv1.PodDisruptionBudget{budget(none)}},
		{name: "pending", pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
			budgets: []*policyv1.PodDisruptionBudget{budget(none)}},
		{name: "unready, healthy budget", pod: unready, budgets: []*policyv1.PodDisruptionBudget{budget(none)}},
		{name: "unready, sick budget", pod: unready, refused: apierrors.IsTooManyRequests,
			budgets: []*policyv1.PodDisruptionBudget{
				budget(func(b *policyv1.PodDisruptionBudget) { none(b); b.Status.CurrentHealthy = 0 })}},
		{name: "unready, always", pod: unready,
			budgets: []*policyv1.PodDisruptionBudget{budget(func(b *policyv1.PodDisruptionBudget) {
				none(b)
				b.Status.CurrentHealthy, b.Spec.UnhealthyPodEvictionPolicy = 0, &always
			})}},
		{name: "healthy enough", budgets: []*policyv1.PodDisruptionBudget{budget(none)},
			refused: told("The disruption budget b does not allow evicting pods currently")},
		{name: "said why", budgets: []*policyv1.PodDisruptionBudget{budget(says("Why", "because"))},
			refused: told("The disruption budget b does not allow evicting pods currently (Why): because")},
		{name: "not synced", budgets: []*policyv1.PodDisruptionBudget{
			budget(says(policyv1.SyncFailedReason, "because"))},
			refused: told("The disruption budget b does not allow evicting pods currently because it failed sync: because")},
		{name: "dry runs differ", dryRun: true, options: &metav1.DeleteOptions{DryRun: []string{"x"}}, refused: isPlain,
			text: "Non-matching dry-run options in request and content: [All] and [x]"},
		{name: "unsafe", options: &metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: new(true)},
			refused: apierrors.IsInvalid},
		{name: "precondition",
			text: `Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not match the UID in record (u). The object might have been deleted and then recreated`, options: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}, refused: apierrors.IsConflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store, d := &objectstest.Store{}, &deleter{}
			store.Put(pods, pod(tc.pod))
			for _, b := range tc.budgets {
				store.Put(budgets, b)
			}
			e := &Evicter{Objects: store, Pods: d, Clock: clocktesting.NewFakePassiveClock(now)}
			err := e.Evict(context.Background(), "ns", "p",
				&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: tc.options}, tc.dryRun,
				admitted)
			if tc.refused != nil {
				if !tc.refused(err) || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%v", err)
				}
				if apierrors.IsTooManyRequests(err) && !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
					t.Errorf("no cause in %+v", err)
				}
				if len(d.options) != 0 {
					t.Error("deleted")
				}
			} else if err != nil || len(d.options) != 1 {
				t.Fatalf("%v after %d deletions", err, len(d.options))
			}
			if len(tc.budgets) > 0 {
				obj, _ := store.Get(context.Background(), budgets, "ns", "b")
				if left := obj.(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed; left != tc.left {
					t.Errorf("%d disruptions are left, want %d", left, tc.left)
				}
			}
		})
	}
}

func TestEvictionStartsAgain(t *testing.T) {
	store := &objectstest.Store{}
	store.Put(pods, pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }))
	d := &deleter{errs: []error{apierrors.NewConflict(pods, "p", context.Canceled)}}
	e := &Evicter{Objects: store, Pods: d, Clock: clocktesting.NewFakePassiveClock(now)}
	if err := e.Evict(context.Background(), "ns", "p", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}},
		false, admitted); err != nil || len(d.options) != 2 {
		t.Errorf("%v after %d deletions", err, len(d.options))
	}
	if rv := d.options[0].Preconditions.ResourceVersion; rv == nil || *rv != "7" {
		t.Error("a pending pod was not pinned to the version that was looked at")
	}
}
