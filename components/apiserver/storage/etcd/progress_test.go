package etcd

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/go-logr/logr/funcr"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"quintet.dev/quintet/components/apiserver/storage/etcdtest"
)

func TestTellsProgress(t *testing.T) {
	for version, want := range map[string]bool{
		"3.3.27": false, "3.4.30": false, "3.4.31": true, "3.4.40": true, "3.5.0": false, "3.5.12": false,
		"3.5.13": true, "3.5.13-rc.0": false, "3.6.0": true, "3.10.2": true, "4.0.0": true, "none": false, "": false,
	} {
		if got := tellsProgress(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// cluster is versions by endpoint. A member without one is asked in vain, once.
type cluster struct {
	versions map[string]string
	end      context.CancelFunc
}

func (c *cluster) Endpoints() []string { return slices.Sorted(maps.Keys(c.versions)) }

func (c *cluster) Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error) {
	if v := c.versions[endpoint]; v != "" {
		return (*clientv3.StatusResponse)(&pb.StatusResponse{Version: v}), nil
	}
	c.end()
	return nil, errors.New("it is away")
}

// TestProgressOfCluster: one member that is known to tell rightly is enough, unless another is known not to.
func TestProgressOfCluster(t *testing.T) {
	for _, c := range []struct {
		versions map[string]string
		want     bool
	}{
		{map[string]string{"a": "3.6.1", "b": "3.5.20"}, true},
		{map[string]string{"a": "3.6.1", "b": "3.5.12"}, false},
		{map[string]string{"a": "3.6.1", "b": ""}, true},
		{map[string]string{"a": ""}, false},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		s := &Store{}
		s.progress.check(ctx, &cluster{c.versions, cancel})
		cancel()
		if s.TellsProgress() != c.want {
			t.Errorf("%v: %v", c.versions, !c.want)
		}
	}
}

// TestProgressOfEtcd: nothing is relied on before etcd was asked.
func TestProgressOfEtcd(t *testing.T) {
	s, err := New(Config{Endpoints: []string{etcdtest.Start(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := s.TellsProgress()
	s.CheckProgress(t.Context())
	if before || !s.TellsProgress() {
		t.Errorf("before %v, after %v", before, s.TellsProgress())
	}
}

// late is a cluster of one member that is asked in vain some times.
type late struct{ tries int }

func (l *late) Endpoints() []string { return []string{"http://a:2379"} }

func (l *late) Status(context.Context, string) (*clientv3.StatusResponse, error) {
	if l.tries--; l.tries >= 0 {
		return nil, errors.New("it is away")
	}
	return (*clientv3.StatusResponse)(&pb.StatusResponse{Version: "3.6.1"}), nil
}

// TestSilentMember: of a member that isn't there the log tells once, and again when it is.
func TestSilentMember(t *testing.T) {
	for tries, want := range map[int][]string{
		0: nil,
		9: {
			`"level"=0 "msg"="A member of etcd doesn't tell its version; trying again" "endpoint"="http://a:2379" "err"="it is away"`,
			`"level"=0 "msg"="A member of etcd tells its version now" "endpoint"="http://a:2379" "version"="3.6.1"`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines []string
			logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			var p progress
			p.check(klog.NewContext(t.Context(), logger), &late{tries})
			if !p.sound.Load() || !slices.Equal(lines, want) {
				t.Errorf("after %d tries in vain: %q", tries, lines)
			}
		})
	}
}
