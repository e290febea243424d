package podspec

import (
	"strings"
	"testing"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
)

// wantedPolicy is told by the library whose grammar it is.
func wantedPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent
	}
	tagged, hasTag := named.(reference.Tagged)
	_, hasDigest := named.(reference.Digested)
	if hasTag && tagged.Tag() == "latest" || !hasTag && !hasDigest {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

func images() []string {
	digest := "@sha256:" + strings.Repeat("0f", 32)
	return []string{
		"", "busybox", "busybox:1.37", "busybox:latest", "busybox:latest:latest", "busybox" + digest,
		"busybox:latest" + digest, "busybox:1" + digest,
		"busybox:latest" + strings.ToUpper(digest), "busybox:latest@sha256:00",
		"busybox:latest@md5:" + strings.Repeat("0f", 16), "busybox:latest@",
		"busybox:latest@sha384:" + strings.Repeat("0f", 48), "busybox:latest@sha512:" + strings.Repeat("0f", 64),
		"busybox@" + digest,
		"library/busybox", "a/b/c", "a//b", "/a", "a/", ":latest", "Busybox", "UPPER/busybox", "UPPER_/busybox", "a/B",
		"localhost/a", "localhost:5000/a:latest", "localhost",
		"registry.k8s.io/pause", "registry.k8s.io:443/pause:3.10", "registry.k8s.io:/pause", "registry:port/pause",
		"under_score.io/a", "-a.io/b", "a-.io/b",
		"[::1]/a", "[::1]:5000/a", "[fe80::1%lo]/a", "10.0.0.1:80/a", "docker.io/a", "index.docker.io/a",
		"docker.io/a/b",
		"a.b", "a..b", "a_b", "a__b", "a___b", "a---b", "a-", "a_-b", "a b", "a\n", "ä",
		strings.Repeat("0f", 32), strings.Repeat("0f", 32) + ":latest", "a/" + strings.Repeat("0f", 32),
		strings.Repeat("a", 247), strings.Repeat("a", 248), "docker.io/" + strings.Repeat("a", 248),
		"quay.io/" + strings.Repeat("a", 255), "quay.io/" + strings.Repeat("a", 256),
	}
}

func TestPullPolicy(t *testing.T) {
	for _, image := range images() {
		if got, want := pullPolicy(image), wantedPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	}
}

func FuzzPullPolicy(f *testing.F) {
	for _, image := range images() {
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image string) {
		if got, want := pullPolicy(image), wantedPolicy(image); got != want {
			t.Errorf("%q: %s, want %s", image, got, want)
		}
	})
}
