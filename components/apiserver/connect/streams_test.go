package connect

import (
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	streamproxy "k8s.io/apiserver/pkg/util/proxy"
)

// TestPortQuery: ports come one by one or as a list, and go to the kubelet as a list.
func TestPortQuery(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  string
	}{{nil, ""}, {[]string{"80"}, "80"}, {[]string{"80,443"}, "80,443"}, {[]string{"80", "443,8080"}, "80,443,8080"}} {
		got, err := portQuery(c.texts)
		if err != nil || got.Get(corev1.PortHeader) != c.want {
			t.Errorf("%v: %v, %v", c.texts, got, err)
		}
	}
	if _, err := portQuery([]string{"80,x"}); err == nil || err.Error() != `cannot convert to []int32: strconv.ParseUint: parsing "x": invalid syntax` {
		t.Errorf("no port: %v", err)
	}
}

// TestBoundedStreams: connections that are taken over are bounded, whether they are passed on or translated.
func TestBoundedStreams(t *testing.T) {
	c, err := New(Config{MaxBytesPerSecond: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if got := c.translator(&url.URL{}, streamproxy.Options{}).MaxBytesPerSec; got != 7 {
		t.Errorf("a translated connection may carry %d bytes per second", got)
	}
}
