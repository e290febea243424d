package etcd

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"
)

// Members of some versions, asked how far a watch is, tell of more than has come by it
// (https://github.com/etcd-io/etcd/issues/15220, https://github.com/etcd-io/etcd/issues/17507).

// progress is whether the answers of the members can be relied on: only if one is known whose can, and none whose
// can't.
type progress struct{ sound, unsound atomic.Bool }

// TellsProgress tells whether requests for progress are answered rightly, as far as CheckProgress has found out.
func (s *Store) TellsProgress() bool { return s.progress.sound.Load() && !s.progress.unsound.Load() }

// Pauses between the questions for the version of a member that doesn't answer.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = 15 * time.Second
)

// CheckProgress asks all members at once for their versions, and each until it has answered, or ctx ends.
func (s *Store) CheckProgress(ctx context.Context) { s.progress.check(ctx, s.client) }

// members is the part of the client that check needs.
type members interface {
	Endpoints() []string
	Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error)
}

func (p *progress) check(ctx context.Context, of members) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, endpoint := range of.Endpoints() {
		asking.Go(func() { p.ask(ctx, of, endpoint) })
	}
}

// ask asks a member until it answers. That it doesn't, and that it does at last, is said once.
func (p *progress) ask(ctx context.Context, of members, endpoint string) {
	logger, said := klog.FromContext(ctx).WithValues("endpoint", endpoint), false
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		status, err := of.Status(ctx, endpoint)
		switch {
		case err == nil:
			if said {
				logger.Info("A member of etcd tells its version now", "version", status.Version)
			}
			p.heard(ctx, endpoint, status.Version)
			return
		case !said && ctx.Err() == nil:
			said = true
			logger.Info("A member of etcd doesn't tell its version; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

func (p *progress) heard(ctx context.Context, endpoint, version string) {
	if tellsProgress(version) {
		p.sound.Store(true)
		return
	}
	p.unsound.Store(true)
	klog.FromContext(ctx).Info(
		"etcd doesn't tell rightly how far a watch is in this version; the newest is read from it, not from memory",
		"endpoint", endpoint, "version", version)
}

// tellsProgress tells whether etcd does in a version. One that can't be read is taken for one that doesn't.
func tellsProgress(text string) bool {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return false
	}
	fixed := "3.4.31"
	if v.Major() == 3 && v.Minor() == 5 {
		fixed = "3.5.13"
	}
	return v.AtLeast(version.MustParseSemantic(fixed))
}
