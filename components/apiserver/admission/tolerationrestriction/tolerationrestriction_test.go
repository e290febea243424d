package tolerationrestriction

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"quintet.dev/quintet/components/apiserver/objects/objectstest"
)

const head = "apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1\nkind: Configuration\n"

func tolerate(keys ...string) (out []corev1.Toleration) {
	for _, key := range keys {
		out = append(out, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
	return out
}

func keysOf(list []corev1.Toleration) (out []string) {
	for _, t := range list {
		out = append(out, t.Key)
	}
	return out
}

func TestTolerations(t *testing.T) {
	const clusterWide = head +
		"default: [{key: cluster, operator: Exists}]\nwhitelist: [{key: cluster, operator: Exists}, {key: a, operator: " +
		"Exists}]"
	for name, c := range map[string]struct {
		file        string
		annotations map[string]string
		has         []corev1.Toleration
		cpu         string
		op          admission.Operation
		want        []string
		err         string
	}{
		"nothing is configured": {has: tolerate("a"), want: []string{"a"}},
		"the namespace's": {
			annotations: map[string]string{defaultTolerations: `[{"key":"b","operator":"Exists"}]`}, has: tolerate("a"),
			want: []string{"a", "b"}},
		"the cluster's": {file: clusterWide, has: tolerate("a"), want: []string{"a", "cluster"}},
		"none, says it": {file: clusterWide, annotations: map[string]string{defaultTolerations: ""},
			has: tolerate("a"), want: []string{"a"}},
		"not at an update": {file: clusterWide, has: tolerate("a"), op: admission.Update, want: []string{"a"}},
		"one covers all": {annotations: map[string]string{defaultTolerations: `[{"operator":"Exists"}]`},
			has: tolerate("a", "b"), want: []string{""}},
		"memory": {cpu: "1", has: tolerate("a"), want: []string{"a", corev1.TaintNodeMemoryPressure}},
		"not in the cluster's list": {file: clusterWide, has: tolerate("z"),
			err: "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist"},
		"not in the namespace's list": {file: clusterWide,
			annotations: map[string]string{whitelist: `[{"key":"q","operator":"Exists"}]`}, has: tolerate("a"),
			err: "conflict with its namespace whitelist"},
		"a list that is empty allows all": {file: clusterWide, annotations: map[string]string{whitelist: ""},
			has: tolerate("z"), want: []string{"z", "cluster"}},
		"so does one that is null": {file: clusterWide, annotations: map[string]string{whitelist: "null"},
			has: tolerate("z"), want: []string{"z", "cluster"}},
		"none, says null": {file: clusterWide,
			annotations: map[string]string{defaultTolerations: "null"}, has: tolerate("a"), want: []string{"a"}},
		"malformed": {annotations: map[string]string{whitelist: "{"}, has: tolerate("a"),
			err: "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			store := &objectstest.Store{}
			store.Put(corev1.Resource("namespaces"),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: c.annotations}})
			p, err := New(store, []byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.has, Containers: []corev1.Container{{Name: "c"}}}}
			if c.cpu != "" {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse(c.cpu)}
			}
			if c.op == "" {
				c.op = admission.Create
			}
			err = p.Admit(context.Background(),
				admission.NewAttributesRecord(pod, nil, schema.GroupVersionKind{}, "ns", "p",
					corev1.SchemeGroupVersion.WithResource("pods"), "", c.op, nil, false, nil), nil)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("got %v, want %q", err, c.err)
			}
			if err == nil && !slices.Equal(keysOf(pod.Spec.Tolerations), c.want) {
				t.Errorf("got %v, want %v", keysOf(pod.Spec.Tolerations), c.want)
			}
		})
	}
}

func TestBadConfig(t *testing.T) {
	if _, err := New(nil, []byte(head+"default: [{key: a, operator: Magic}]")); err == nil ||
		!strings.Contains(err.Error(), "podtolerationrestriction.default[0].operator") {
		t.Errorf("got %v", err)
	}
}

// TestUnknownFields: what a file says besides is left out, as upstream does with this one.
func TestUnknownFields(t *testing.T) {
	p, err := New(nil, []byte(head+"more: 1\ndefault: [{key: a, operator: Exists, colour: red}]"))
	if err != nil || !slices.Equal(keysOf(p.config.Default), []string{"a"}) {
		t.Errorf("got %+v, %v", p, err)
	}
}
