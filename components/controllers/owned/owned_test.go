package owned

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func pod(name, owner string, matches bool) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "uid"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{UID: types.UID("u-" + owner), Controller: ptr.To(true)}}
	}
	if matches {
		p.Labels = map[string]string{"app": "a"}
	}
	return p
}

func names(pods []*v1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

var (
	selector   = labels.SelectorFromSet(labels.Set{"app": "a"})
	candidates = func() []*v1.Pod {
		leaving := pod("leaving-orphan", "", true)
		leaving.DeletionTimestamp = &metav1.Time{}
		elsewhere := pod("elsewhere", "", true)
		elsewhere.Namespace = "other"
		return []*v1.Pod{
			pod("mine", "me", true), pod("mine-changed", "me", false), pod("orphan", "", true),
			pod("stranger", "", false),
			pod("anothers", "other", true), leaving, elsewhere,
		}
	}
)

func owner() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "me", UID: "u-me"}}
}

func TestPlan(t *testing.T) {
	keep, adopt, release := Plan(owner(), selector, candidates())
	if names(keep) != "mine" || names(adopt) != "orphan" || names(release) != "mine-changed" {
		t.Errorf("keep %s, adopt %s, release %s", names(keep), names(adopt), names(release))
	}
	going := owner()
	going.DeletionTimestamp = &metav1.Time{}
	keep, adopt, release = Plan(going, selector, candidates())
	if names(keep) != "mine" || names(adopt) != "" || names(release) != "" {
		t.Errorf("an owner that goes: keep %s, adopt %s, release %s", names(keep), names(adopt), names(release))
	}
}

func TestClaim(t *testing.T) {
	for name, tc := range map[string]struct {
		fresh    *v1.Pod
		patchErr error
		keep     string
		patches  int
		fails    bool
	}{
		"plain": {fresh: owner(), keep: "mine,orphan", patches: 2},
		"owner is going": {fresh: func() *v1.Pod { o := owner(); o.DeletionTimestamp = &metav1.Time{}; return o }(),
			keep: "mine", patches: 1, fails: true},
		"owner is replaced": {fresh: &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "new"}}, keep: "mine", patches: 1,
			fails: true},
		"children are gone": {fresh: owner(), patchErr: apierrors.NewNotFound(schema.GroupResource{}, "x"),
			keep: "mine", patches: 2},
		"patches fail": {fresh: owner(), patchErr: errors.New("no"), keep: "mine", patches: 2, fails: true},
	} {
		patches := 0
		claimer := Claimer[*v1.Pod]{
			Owner: owner(), Kind: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}, Finalizers: []string{"f"},
			Fresh: func(context.Context) (metav1.Object, error) { return tc.fresh, nil },
			Patch: func(_ context.Context, p *v1.Pod, patch []byte) error {
				patches++
				if !strings.Contains(string(patch), `"uid":"uid"`) || !strings.Contains(string(patch), `"f"`) {
					t.Errorf("%s: patch of %s: %s", name, p.Name, patch)
				}
				return tc.patchErr
			},
		}
		kept, err := claimer.Claim(t.Context(), selector, candidates())
		if names(kept) != tc.keep || patches != tc.patches || (err != nil) != tc.fails {
			t.Errorf("%s: keep %s, %d patches, error %v", name, names(kept), patches, fmt.Sprint(err))
		}
	}
}
