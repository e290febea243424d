package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
	"k8s.io/client-go/rest"
)

const (
	// profileLength is the length of a profile of what takes long.
	profileLength = 5 * time.Second
	// componentLabel is what clusters in process label the samples of their members with.
	componentLabel = "component"
	// collector is where the samples of Go's garbage collector count that belong to no member.
	collector = "garbage collector"
)

// profiler takes CPU profiles of an API server's process, one after another.
type profiler struct {
	length time.Duration // of one profile; what happens after the last whole one is in none
	stop   context.CancelFunc
	done   sync.WaitGroup

	profiles []*profile.Profile
	err      error
}

// startProfiler begins; the caller must call end.
func startProfiler(ctx context.Context, client rest.Interface, length time.Duration) *profiler {
	ctx, stop := context.WithCancel(ctx)
	p := &profiler{length: length, stop: stop}
	p.done.Go(func() {
		for ctx.Err() == nil && p.err == nil {
			p.err = p.take(ctx, client)
		}
	})
	return p
}

func (p *profiler) take(ctx context.Context, client rest.Interface) error {
	raw, err := client.Get().AbsPath("/debug/pprof/profile").
		Param("seconds", fmt.Sprint(int(p.length.Seconds()))).DoRaw(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	parsed, err := profile.Parse(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	p.profiles = append(p.profiles, parsed)
	return nil
}

// end ends the profiler and returns one profile of all the time; nil if that was too short for one.
func (p *profiler) end() (*profile.Profile, error) {
	p.stop()
	p.done.Wait()
	if p.err != nil || len(p.profiles) == 0 {
		return nil, p.err
	}
	return profile.Merge(p.profiles)
}

// keepProfiles takes profiles of a process until the returned function is called, which keeps them in a folder: of its
// processor time, and of its heap at the end.
func keepProfiles(ctx context.Context, client rest.Interface, dir, name string) (end func() error) {
	profiler := startProfiler(ctx, client, time.Second)
	return func() error {
		used, err := profiler.end()
		if err != nil {
			return err
		}
		if used != nil {
			err = keepProfile(used, dir, name+"-cpu.pprof")
		}
		raw, heapErr := client.Get().AbsPath("/debug/pprof/heap").DoRaw(ctx)
		if err := errors.Join(err, heapErr); err != nil {
			return err
		}
		held, err := profile.ParseData(raw)
		if err != nil {
			return err
		}
		return keepProfile(held, dir, name+"-heap.pprof")
	}
}

// keepProfile writes a profile into a folder that is made if need be.
func keepProfile(p *profile.Profile, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(p.Write(file), file.Close())
}

// componentOf is the component that a sample belongs to. Goroutines of the runtime have no label.
func componentOf(s *profile.Sample) string {
	if label := s.Label[componentLabel]; len(label) > 0 {
		return label[0]
	}
	for _, location := range s.Location {
		for _, line := range location.Line {
			if strings.HasPrefix(line.Function.Name, "runtime.gcBgMarkWorker") ||
				strings.HasPrefix(line.Function.Name, "runtime.bgsweep") {
				return collector
			}
		}
	}
	return "other"
}

// share is a component's part of the time, between 0 and 1.
type share struct {
	component string
	part      float64
}

// shares returns what part of the time each component took, the largest first.
func shares(p *profile.Profile) []share {
	used, sum := map[string]int64{}, int64(0)
	for _, s := range p.Sample {
		value := s.Value[len(s.Value)-1] // the time, after the number of samples
		used[componentOf(s)] += value
		sum += value
	}
	var all []share
	for component, value := range used {
		all = append(all, share{component, float64(value) / float64(sum)})
	}
	slices.SortFunc(all, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.part, a.part), cmp.Compare(a.component, b.component))
	})
	return all
}
