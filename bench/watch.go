package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/http"
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
				func() { watching.Add(1) }, func(n int) { delivered.Add(int64(n)) })
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
		{Name: fmt.Sprintf("watch deliveries to %d watchers", watchers), Value: watchers * changes / took.Seconds(), Unit: "1/s",
			Limit: r.raw.perSecond, Against: rawRate, Aim: "≥ 352000/s, 17x"},
		{Name: "server CPU per delivery", Value: milliseconds(after-before) * 1000 / (watchers * changes), Unit: "µs"},
		{Name: "clients' CPU per delivery", Value: milliseconds(clientAfter-clientBefore) * 1000 / (watchers * changes), Unit: "µs"},
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

// follow counts the events of a watch until ctx ends: in protobuf each has its length in front. It reads as much as there is and
// looks at nothing but the lengths, so that it takes as little of the processor as a client can.
func follow(ctx context.Context, client *http.Client, url string, begun func(), events func(int)) error {
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
	var frames frames
	buf := make([]byte, 64<<10)
	for {
		n, err := response.Body.Read(buf)
		if ended := frames.add(buf[:n]); ended > 0 {
			events(ended)
		}
		if err != nil {
			return err
		}
	}
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
