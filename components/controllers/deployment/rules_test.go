package deployment

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		surge, unavailable string
		replicas           int32
		want               string
	}{
		{"25%", "25%", 10, "3 2"}, {"25%", "25%", 4, "1 1"}, {"25%", "25%", 1, "1 0"}, {"0", "0", 5, "0 1"}, {"0%", "10%", 5,
			"0 1"},
		{"0", "10%", 0, "0 0"}, {"1", "0", 5, "1 0"}, {"100%", "100%", 3, "3 3"}, {"0", "9", 3, "0 3"}, {"x", "1", 3, "0 1"},
	} {
		w := newWorld(t, 1, c.replicas, rolling(intstr.Parse(c.surge), intstr.Parse(c.unavailable)))
		surge, unavailable := bounds(w.d)
		if got := fmt.Sprint(surge, " ", unavailable); got != c.want {
			t.Errorf("%s and %s of %d: %s, want %s", c.surge, c.unavailable, c.replicas, got, c.want)
		}
	}
	w := newWorld(t, 1, 3, apps.DeploymentStrategy{Type: apps.RecreateDeploymentStrategyType})
	if surge, unavailable := bounds(w.d); surge != 0 || unavailable != 0 {
		t.Errorf("recreate: %d, %d", surge, unavailable)
	}
}

// rs makes a set of an image from "name size/pods/available", with the annotations that a deployment of 10 gives.
func rs(image, text string) *apps.ReplicaSet {
	var name string
	var size, pods, available int32
	_, _ = fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%s %d %d %d", &name, &size, &pods, &available)
	return &apps.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(
			time.Unix(int64(name[len(name)-1]), 0)), Annotations: map[string]string{desiredAnnotation: "10", maxAnnotation: "13",
			RevisionAnnotation: string(name[len(name)-1])}},
		Spec: apps.ReplicaSetSpec{Replicas: &size, Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "pod-template-hash": name}},
			Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: image}}}}},
		Status: apps.ReplicaSetStatus{Replicas: pods, AvailableReplicas: available, ReadyReplicas: available},
	}
}

// TestSteps decides on deployments of 10 replicas of image v2 with maxSurge 3 and maxUnavailable 2: the events tell how
// sets are scaled.
func TestSteps(t *testing.T) {
	recreate := func(d *apps.Deployment) {
		d.Spec.Strategy = apps.DeploymentStrategy{Type: apps.RecreateDeploymentStrategyType}
	}
	scaled := func(to int32) func(*apps.Deployment) {
		return func(d *apps.Deployment) { d.Spec.Replicas = &to }
	}
	paused := func(d *apps.Deployment) { d.Spec.Paused = true }
	for name, c := range map[string]struct {
		change   func(*apps.Deployment)
		old, new []string
		want     string
	}{
		"a new template":         {nil, []string{"web-1 10/10/10"}, nil, "new 3"},
		"the new one shows up":   {nil, []string{"web-1 10/10/10"}, []string{"web-2 3/3/0"}, "down web-1 10 to 8"},
		"as far as it may":       {nil, []string{"web-1 8/8/8"}, []string{"web-2 3/3/0"}, "up web-2 3 to 5"},
		"and waits":              {nil, []string{"web-1 8/8/8"}, []string{"web-2 5/5/0"}, ""},
		"until one is available": {nil, []string{"web-1 8/8/8"}, []string{"web-2 5/5/1"}, "down web-1 8 to 7"},
		"unhealthy old ones first": {nil, []string{"web-0 2/2/0", "web-1 8/8/8"}, []string{"web-2 3/3/0"},
			"down web-0 2 to 0"},
		"the oldest healthy first": {nil, []string{"web-0 4/4/4", "web-1 4/4/4"}, []string{"web-2 5/5/3"},
			"down web-0 4 to 1"},
		"more than one old at once": {nil, []string{"web-0 2/2/2", "web-1 4/4/4"}, []string{"web-2 7/7/7"},
			"down web-0 2 to 0, down web-1 4 to 1"},
		"the last":                 {nil, []string{"web-1 1/1/1"}, []string{"web-2 10/10/10"}, "down web-1 1 to 0"},
		"done":                     {nil, []string{"web-1 0/0/0"}, []string{"web-2 10/10/10"}, ""},
		"the new one is too large": {nil, nil, []string{"web-2 12/12/12"}, "down web-2 12 to 10"},
		"scaled up while stuck": {scaled(15), []string{"web-1 8/8/8"}, []string{"web-2 5/5/0"},
			"up web-1 8 to 11, up web-2 5 to 7"},
		"scaled down while stuck": {scaled(5), []string{"web-1 8/8/8"}, []string{"web-2 5/5/0"},
			"down web-1 8 to 5, down web-2 5 to 3"},
		"scaled to nothing": {scaled(0), []string{"web-1 8/8/8"}, []string{"web-2 5/5/0"},
			"down web-1 8 to 0, down web-2 5 to 0"},
		"scaled, only one set": {scaled(4), []string{"web-1 0/0/0"}, []string{"web-2 10/10/10"}, "down web-2 10 to 4"},
		"paused and scaled": {func(d *apps.Deployment) { paused(d); scaled(12)(d) }, []string{"web-1 10/10/10"}, nil,
			"up web-1 10 to 12"},
		"paused, a new template": {paused, []string{"web-1 10/10/10"}, nil, ""},
		"recreate: the old go":   {recreate, []string{"web-1 10/10/10"}, nil, "down web-1 10 to 0"},
		"recreate: all of them":  {recreate, []string{"web-1 0/3/0"}, nil, ""},
		"recreate: then the new": {recreate, []string{"web-1 0/0/0"}, nil, "new 10"},
	} {
		w := newWorld(t, 1, 10, rolling(intstr.FromInt32(3), intstr.FromInt32(2)))
		w.image("v2")
		if c.change != nil {
			c.change(w.d)
		}
		o := observed{deployment: w.d, running: map[types.UID]int{}, now: w.now}
		for _, text := range c.old {
			o.sets = append(o.sets, rs("v1", text))
		}
		for _, text := range c.new {
			o.sets = append(o.sets, rs("v2", text))
		}
		for _, set := range o.sets {
			o.running[set.UID] = int(set.Status.Replicas)
		}
		before := fmt.Sprint(o.sets)
		p := decide(o)
		var got []string
		if p.create != nil {
			got = append(got, fmt.Sprint("new ", *p.create.Spec.Replicas))
		}
		for _, e := range p.events {
			if e.kind != v1.EventTypeNormal || e.reason != "ScalingReplicaSet" || !strings.HasPrefix(e.message, "Scaled ") {
				t.Errorf("%s: %+v", name, e)
			}
			text := strings.Replace(strings.TrimPrefix(e.message, "Scaled "), " replica set", "", 1)
			got = append(got, strings.Replace(text, " from", "", 1))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q, want %q", name, strings.Join(got, ", "), c.want)
		}
		if fmt.Sprint(o.sets) != before {
			t.Errorf("%s: the informer's sets were changed", name)
		}
	}
}

// TestProgressing names each stage of a rollout in the words and with the times of upstream's controller.
func TestProgressing(t *testing.T) {
	now := time.Unix(10000, 0)
	long := metav1.NewTime(now.Add(-time.Hour))
	condition := func(status v1.ConditionStatus, reason string) *apps.DeploymentCondition {
		return &apps.DeploymentCondition{Type: apps.DeploymentProgressing, Status: status, Reason: reason, Message: "before",
			LastUpdateTime: long, LastTransitionTime: long}
	}
	stages := func(updated, replicas, available int32) apps.DeploymentStatus {
		return apps.DeploymentStatus{UpdatedReplicas: updated, Replicas: replicas, AvailableReplicas: available,
			ReadyReplicas: available}
	}
	for name, c := range map[string]struct {
		before  *apps.DeploymentCondition
		old     apps.DeploymentStatus
		next    apps.DeploymentStatus
		created bool
		want    string // status reason message, and whether updated and transitioned now
	}{
		"created": {nil, stages(0, 0, 0), stages(0, 0, 0), true,
			`True NewReplicaSetCreated Created new replica set "web-2" true true`},
		"found": {nil, stages(0, 4, 4), stages(0, 4, 4), false,
			`True FoundNewReplicaSet Found new replica set "web-2" true true`},
		"advances": {condition(v1.ConditionTrue, "NewReplicaSetCreated"), stages(0, 4, 4), stages(1, 5, 4), false,
			`True ReplicaSetUpdated ReplicaSet "web-2" is progressing. true false`},
		"advances again": {condition(v1.ConditionTrue, "ReplicaSetUpdated"), stages(1, 5, 4), stages(1, 5, 5), false,
			`True ReplicaSetUpdated ReplicaSet "web-2" is progressing. true false`},
		"complete": {condition(v1.ConditionTrue, "ReplicaSetUpdated"), stages(4, 5, 4), stages(4, 4, 4), false,
			`True NewReplicaSetAvailable ReplicaSet "web-2" has successfully progressed. true false`},
		"late": {condition(v1.ConditionTrue, "ReplicaSetUpdated"), stages(1, 5, 4), stages(1, 5, 4), false,
			`False ProgressDeadlineExceeded ReplicaSet "web-2" has timed out progressing. true true`},
		"late still": {condition(v1.ConditionFalse, "ProgressDeadlineExceeded"), stages(1, 5, 4), stages(1, 5, 4), false,
			`False ProgressDeadlineExceeded before false false`},
		"late, but advances": {condition(v1.ConditionFalse, "ProgressDeadlineExceeded"), stages(1, 5, 4), stages(2, 5, 4),
			false,
			`True ReplicaSetUpdated ReplicaSet "web-2" is progressing. true true`},
		"rests, though a pod fails": {condition(v1.ConditionTrue, "NewReplicaSetAvailable"), stages(4, 4, 4), stages(4, 4, 3),
			false,
			`True NewReplicaSetAvailable before false false`},
	} {
		w := newWorld(t, 1, 4, rolling(intstr.FromInt32(1), intstr.FromInt32(1)))
		w.d.Status = c.old
		if c.before != nil {
			w.d.Status.Conditions = []apps.DeploymentCondition{*c.before}
		}
		c.next.Conditions, c.next.ObservedGeneration = w.d.Status.Conditions, 1
		s := &step{observed: observed{now: now}, d: w.d, newSet: rs("v1", "web-2 4/4/4"), created: c.created}
		next := s.progress(c.next)
		got := conditionOf(&next, apps.DeploymentProgressing)
		if text := fmt.Sprint(got.Status, " ", got.Reason, " ", got.Message, " ", got.LastUpdateTime.Time.Equal(now), " ",
			got.LastTransitionTime.Time.Equal(now)); text != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, text, c.want)
		}
	}
}

// TestWithoutDeadline shows no Progressing condition at all.
func TestWithoutDeadline(t *testing.T) {
	for _, deadline := range []*int32{nil, ptr.To[int32](noDeadline)} {
		w := newWorld(t, 1, 2, rolling(intstr.FromInt32(1), intstr.FromInt32(0)))
		w.d.Spec.ProgressDeadlineSeconds = deadline
		w.d.Status.Conditions = []apps.DeploymentCondition{{Type: apps.DeploymentProgressing}}
		p := decide(observed{deployment: w.d, now: w.now})
		if conditionOf(&p.status, apps.DeploymentProgressing) != nil || p.again != 0 {
			t.Errorf("%+v, again %v", p.status.Conditions, p.again)
		}
	}
}

func TestAvailability(t *testing.T) {
	for _, c := range []struct {
		available int32
		want      string
	}{{8, "True MinimumReplicasAvailable Deployment has minimum availability."},
		{7, "False MinimumReplicasUnavailable Deployment does not have minimum availability."}} {
		w := newWorld(t, 1, 10, rolling(intstr.FromInt32(3), intstr.FromInt32(2)))
		set := rs("v1", fmt.Sprint("web-1 10/10/", c.available))
		set.Status.TerminatingReplicas = ptr.To[int32](2)
		p := decide(observed{deployment: w.d, sets: []*apps.ReplicaSet{set}, now: w.now})
		got := conditionOf(&p.status, apps.DeploymentAvailable)
		if text := fmt.Sprint(got.Status, " ", got.Reason, " ", got.Message); text != c.want ||
			p.status.UnavailableReplicas != 10-c.available || ptr.Deref(p.status.TerminatingReplicas, -1) != 2 {
			t.Errorf("%d available: %s, %+v", c.available, text, p.status)
		}
	}
}

// TestFailuresOfSets are shown, those of the new set before others, and go with their cause.
func TestFailuresOfSets(t *testing.T) {
	w := newWorld(t, 1, 4, rolling(intstr.FromInt32(1), intstr.FromInt32(1)))
	w.image("v2")
	failing := func(set *apps.ReplicaSet, err error) *apps.ReplicaSet {
		set.Status.Conditions = []apps.ReplicaSetCondition{{Type: apps.ReplicaSetReplicaFailure, Status: v1.ConditionTrue,
			Reason: "FailedCreate", Message: err.Error()}}
		return set
	}
	old, next := failing(rs("v1", "web-1 4/4/4"), errors.New("old")), failing(rs("v2", "web-2 1/1/0"), errors.New("new"))
	for want, sets := range map[string][]*apps.ReplicaSet{"new": {old, next}, "old": {old, rs("v2", "web-2 1/1/0")},
		"": {rs("v1", "web-1 4/4/4")}} {
		w.d.Status.Conditions = nil
		if want == "" {
			w.d.Status.Conditions = []apps.DeploymentCondition{{Type: apps.DeploymentReplicaFailure, Status: v1.ConditionTrue}}
		}
		for _, set := range sets {
			set.Annotations[desiredAnnotation] = "4"
		}
		p := decide(observed{deployment: w.d, sets: sets, now: w.now})
		got := conditionOf(&p.status, apps.DeploymentReplicaFailure)
		if (got != nil) != (want != "") || (got != nil && (got.Message != want || got.Reason != "FailedCreate")) {
			t.Errorf("want %q: %+v", want, got)
		}
	}
}

// TestPrune keeps as many old sets as the history may hold, of those that are done with.
func TestPrune(t *testing.T) {
	for name, c := range map[string]struct {
		limit *int32
		sets  []string
		want  string
	}{
		"no limit":         {nil, []string{"web-1 0/0/0", "web-2 0/0/0"}, ""},
		"within it":        {ptr.To[int32](2), []string{"web-1 0/0/0", "web-2 0/0/0"}, ""},
		"the oldest":       {ptr.To[int32](1), []string{"web-3 0/0/0", "web-1 0/0/0", "web-2 0/0/0"}, "web-1 web-2"},
		"none":             {ptr.To[int32](0), []string{"web-1 0/0/0"}, "web-1"},
		"not one with any": {ptr.To[int32](0), []string{"web-1 0/2/0", "web-2 1/0/0", "web-3 0/0/0"}, "web-3"},
	} {
		w := newWorld(t, 1, 2, rolling(intstr.FromInt32(1), intstr.FromInt32(1)))
		w.d.Spec.RevisionHistoryLimit = c.limit
		s := &step{d: w.d}
		for _, text := range c.sets {
			s.oldSets = append(s.oldSets, rs("v0", text))
		}
		s.prune()
		var got []string
		for _, set := range s.plan.delete {
			got = append(got, set.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}
