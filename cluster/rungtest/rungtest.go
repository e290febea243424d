// Package rungtest is the contract of the rungs of clusters: the same options have the same effect on every rung on
// which they can be meant, and Start refuses them on the others with an error that names the option.
package rungtest

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"quintet.dev/quintet/cluster"
)

// Rung is a kind of cluster.
type Rung struct {
	Name    Name
	Options []cluster.Option
}

// Name of a rung.
type Name string

// The rungs, from the one with the least that is real.
const (
	Memory Name = "in process, in memory"
	Etcd   Name = "in process, on etcd"
	Hollow Name = "containers with hollow nodes"
	Real   Name = "containers with real nodes"
)

// Rungs are all of them.
func Rungs() []Rung {
	return []Rung{
		{Memory, []cluster.Option{cluster.InProcess()}},
		{Etcd, []cluster.Option{cluster.InProcess(), cluster.WithStore(cluster.EmbeddedEtcd)}},
		{Hollow, []cluster.Option{cluster.WithProgram(cluster.Node, original)}},
		{Real, nil},
	}
}

// row is one option, or several that belong together, with its effect.
type row struct {
	name    string
	options []cluster.Option
	// cluster puts rows into one cluster of a rung; rows of different ones exclude each other.
	cluster string
	// refused are the rungs on which the options can't be meant, with words of the error.
	refused map[Name]string
	effect  func(ctx context.Context, t *testing.T, c *cluster.Cluster, client kubernetes.Interface)
}

const (
	startTimeout = 3 * time.Minute
	checkTimeout = 90 * time.Second
)

// Run checks all options on a rung.
func Run(t *testing.T, rung Rung) {
	clusters := map[string][]row{}
	for _, r := range table() {
		if want, refused := r.refused[rung.Name]; refused {
			t.Run(r.name, func(t *testing.T) { refuses(t, rung, r, want) })
		} else {
			clusters[r.cluster] = append(clusters[r.cluster], r)
		}
	}
	for name, rows := range clusters {
		t.Run(name, func(t *testing.T) { effects(t, rung, rows) })
	}
}

func refuses(t *testing.T, rung Rung, r row, want string) {
	c, err := cluster.Start(t.Context(), append(append([]cluster.Option{}, rung.Options...), r.options...)...)
	if err == nil {
		t.Error("not refused")
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		return
	}
	if !strings.Contains(err.Error(), want) {
		t.Errorf("%v; want an error that tells %q", err, want)
	}
}

// effects starts a cluster with the options of all rows, and looks for the effect of each.
func effects(t *testing.T, rung Rung, rows []row) {
	options := append([]cluster.Option{}, rung.Options...)
	for _, r := range rows {
		options = append(options, r.options...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), checkTimeout)
			defer cancel()
			r.effect(ctx, t, c, client)
			if t.Failed() {
				logs(t, c)
			}
		})
	}
}

// logs shows the end of each member's log.
func logs(t *testing.T, c *cluster.Cluster) {
	const most = 3000
	for _, m := range c.Members() {
		var log strings.Builder
		err := m.Logs(context.WithoutCancel(t.Context()), false, &log)
		text := log.String()
		t.Logf("log of %s (%v):\n%s", m.Name(), err, text[max(0, len(text)-most):])
	}
}

// eventually polls check until it returns nil or ctx ends.
func eventually(ctx context.Context, t *testing.T, check func() error) {
	t.Helper()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
