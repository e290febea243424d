package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
)

// Watchers of the fan-out, over so many connections, and the changes that each of them sees.
const (
	watchers    = 200
	connections = 8
	changes     = 1000
)

// fanOut measures how fast changes of pods reach many watchers, who count them but don't decode them: the server's
// work, not the clients'.
func fanOut(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := r.servers[0]
	var watching, delivered atomic.Int64
	var group errgroup.Group
	identity, err := r.identity()
	if err != nil {
		return nil, err
	}
	watch, err := url.Parse(s.url + "/api/v1/namespaces/" + namespace +
		"/pods?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true")
	if err != nil {
		return nil, err
	}
	for range connections {
		group.Go(func() error {
			return follow(ctx, identity, watch, watchers/connections, func() { watching.Add(1) },
				func(n int) { delivered.Add(int64(n)) })
		})
	}
	if err := until(ctx, func() bool { return watching.Load() == watchers }); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	before, err := cpu(s.pid())
	if err != nil {
		return nil, err
	}
	clientBefore, err := cpu(os.Getpid())
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	err = each(ctx, min(o.Clients, 8), changes, func(ctx context.Context, worker, i int) error {
		return o.patchStatus(ctx, clients[worker], worker, int64(i)+begin.UnixMicro())
	})
	if err == nil {
		err = until(ctx, func() bool { return delivered.Load() >= watchers*changes })
	}
	if err != nil {
		return nil, fmt.Errorf("delivering: %w", err)
	}
	took := time.Since(begin)
	after, err := cpu(s.pid())
	if err != nil {
		return nil, err
	}
	clientAfter, err := cpu(os.Getpid())
	cancel()
	_ = group.Wait()
	return []Measure{
		{Name: fmt.Sprintf("watch deliveries to %d watchers", watchers), Value: watchers * changes / took.Seconds(),
			Unit:  frequency,
			Limit: r.raw.perSecond, Against: rawRate, Aim: "≥ 352000/s, 17x"},
		{Name: "server CPU per delivery", Value: milliseconds(after-before) * 1000 / (watchers * changes), Unit: "µs"},
		{Name: "clients' CPU per delivery", Value: milliseconds(clientAfter-clientBefore) * 1000 / (watchers * changes),
			Unit: "µs"},
	}, err
}

// until waits for a condition, a minute at most.
func until(ctx context.Context, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !done() {
		if err := wait(ctx, time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// frames counts what has its length in front, in four bytes.
type frames struct {
	head []byte
	left int // of the frame that has begun
}

// add takes the next part of a stream and returns how many frames end in it.
func (f *frames) add(p []byte) (ended int) {
	for len(p) > 0 {
		if f.left == 0 {
			n := min(4-len(f.head), len(p))
			f.head, p = append(f.head, p[:n]...), p[n:]
			if len(f.head) == 4 {
				f.left, f.head = int(binary.BigEndian.Uint32(f.head)), f.head[:0]
			}
			continue
		}
		n := min(f.left, len(p))
		f.left, p = f.left-n, p[n:]
		if f.left == 0 {
			ended++
		}
	}
	return ended
}
