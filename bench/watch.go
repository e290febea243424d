package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
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

// fanOut measures how fast changes of pods reach many watchers, who count them but don't decode them: the server's work,
// not the clients'.
func fanOut(ctx context.Context, o Options, r *rig, clients []*kubernetes.Clientset) ([]Measure, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := r.servers[0]
	var watching, delivered atomic.Int64
	var group errgroup.Group
	var probes []*http.Client
	for range connections {
		probe, err := r.probe()
		if err != nil {
			return nil, err
		}
		probe.Transport.(*http.Transport).ForceAttemptHTTP2 = true
		probes = append(probes, probe)
	}
	for i := range watchers {
		group.Go(func() error {
			return follow(ctx, probes[i%connections], s.url+"/api/v1/namespaces/"+namespace+"/pods?watch=true&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
				func() { watching.Add(1) }, func() { delivered.Add(1) })
		})
	}
	if err := until(ctx, func() bool { return watching.Load() == watchers }); err != nil {
		return nil, fmt.Errorf("watching: %w", err)
	}
	before, err := cpu(s.pid())
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
	cancel()
	_ = group.Wait()
	return []Measure{
		{Name: fmt.Sprintf("watch deliveries to %d watchers", watchers), Value: watchers * changes / took.Seconds(), Unit: "1/s", Aim: "≥ 352000/s"},
		{Name: "server CPU per delivery", Value: milliseconds(after-before) * 1000 / (watchers * changes), Unit: "µs"},
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

// follow counts the events of a watch until ctx ends: in protobuf each has its length in front.
func follow(ctx context.Context, client *http.Client, url string, begun, event func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", protobuf+";stream=watch")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("watch: status %s", response.Status)
	}
	begun()
	var length [4]byte
	for {
		if _, err := io.ReadFull(response.Body, length[:]); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, response.Body, int64(binary.BigEndian.Uint32(length[:]))); err != nil {
			return err
		}
		event()
	}
}
