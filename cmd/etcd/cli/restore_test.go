package cli

import (
	"slices"
	"testing"

	"quintet.dev/quintet/components/etcd"
)

func TestWithoutRestore(t *testing.T) {
	for _, test := range []struct {
		args, rest []string
		want       etcd.Restore
		ok         bool
	}{
		{args: []string{"--data-dir=d", "--log-level", "warn"}, rest: []string{"--data-dir=d", "--log-level", "warn"},
			want: etcd.Restore{DataDir: "d", Name: "default", PeerURL: "http://localhost:2380",
				InitialCluster: "default=http://localhost:2380"}},
		{args: []string{"--restore-snapshot=f", "--name=a", "--initial-cluster=a=http://a,b=http://b",
			"--initial-advertise-peer-urls=http://a"},
			rest: []string{"--name=a", "--initial-cluster=a=http://a,b=http://b",
				"--initial-advertise-peer-urls=http://a"},
			want: etcd.Restore{Snapshot: "f", DataDir: "a.etcd", Name: "a", PeerURL: "http://a",
				InitialCluster: "a=http://a,b=http://b"}, ok: true},
		{args: []string{"--name", "a", "-restore-snapshot", "f", "--data-dir", "d"},
			rest: []string{"--name", "a", "--data-dir", "d"},
			want: etcd.Restore{Snapshot: "f", DataDir: "d", Name: "a", PeerURL: "http://localhost:2380",
				InitialCluster: "a=http://localhost:2380"}, ok: true},
	} {
		rest, got, ok := withoutRestore(test.args)
		if !slices.Equal(rest, test.rest) || got != test.want || ok != test.ok {
			t.Errorf("%v: %v, %+v, %v", test.args, rest, got, ok)
		}
	}
}
