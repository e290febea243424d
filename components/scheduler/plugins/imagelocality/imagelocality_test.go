package imagelocality

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"

	"quintet.dev/quintet/components/scheduler/schedulertest"
)

func TestScore(t *testing.T) {
	has := schedulertest.Node("has", "")
	has.Status.Images = []v1.ContainerImage{{Names: []string{"image:latest", "image@sha256:0"}, SizeBytes: 500 << 20},
		{Names: []string{"small:1"}, SizeBytes: 10 << 20}}
	s := schedulertest.Snapshot(has, schedulertest.Node("hasnt", ""))
	cases := map[string]map[string]int64{
		"image":   {"has": 23, "hasnt": 0}, // (500/2 - 23) / (1000 - 23)
		"small:1": {"has": 0, "hasnt": 0},
		"unknown": nil,
	}
	for image, want := range cases {
		pod := schedulertest.Pod("p", "", func(p *v1.Pod) { p.Spec.Containers[0].Image = image })
		if got := schedulertest.Scores(Plugin{}, pod, s); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", image, got, want)
		}
	}
}

func TestNormalized(t *testing.T) {
	cases := map[string]string{"a": "a:latest", "a:1": "a:1", "host:5000/a": "host:5000/a:latest",
		"a@sha256:0": "a@sha256:0"}
	for image, want := range cases {
		if got := normalized(image); got != want {
			t.Errorf("%s: got %s", image, got)
		}
	}
}
