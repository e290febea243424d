package job

import (
	"slices"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	batchlisters "k8s.io/client-go/listers/batch/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestOrphanPodsEnqueueJobs(t *testing.T) {
	jobs := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, at := range []string{"ns/a", "ns/b", "other/a"} {
		namespace, name, _ := strings.Cut(at, "/")
		if err := jobs.Add(&batch.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(at)},
			Spec:       batch.JobSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"job": name}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	c := &Controller{jobs: batchlisters.NewJobLister(jobs)}
	pod := func(label, owner string) *v1.Pod {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"job": label}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: owner, UID: types.UID("ns/" + owner),
				Controller: ptr.To(true)}}
		}
		return p
	}
	leaving := pod("a", "")
	leaving.DeletionTimestamp = &metav1.Time{}
	for name, x := range map[string]struct {
		old, pod *v1.Pod
		want     string
	}{
		"owned":                        {pod("a", "a"), pod("a", "a"), ""},
		"a new orphan":                 {nil, pod("a", ""), "a"},
		"an orphan as before":          {pod("a", ""), pod("a", ""), ""},
		"an orphan of other labels":    {pod("b", ""), pod("a", ""), "a"},
		"released":                     {pod("b", "b"), pod("c", ""), "b"},
		"released, and wanted":         {pod("a", "a"), pod("a", ""), "a"},
		"released by one, for another": {pod("b", "b"), pod("a", ""), "a,b"},
		"taken over":                   {pod("a", "b"), pod("a", "a"), "b"},
		"of a job that is gone":        {pod("c", "c"), pod("c", ""), ""},
		"going":                        {nil, leaving, ""},
	} {
		var got []string
		for _, job := range c.concerned(x.old, x.pod) {
			got = append(got, job.Name)
		}
		slices.Sort(got)
		if got := strings.Join(slices.Compact(got), ","); got != x.want {
			t.Errorf("%s: wakes %q, not %q", name, got, x.want)
		}
	}
}
