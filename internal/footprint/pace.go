// Package footprint keeps a program that waits most of the time small, and quick when it doesn't: it says how far the heap
// may grow before it is collected, and gives back the memory that only the start needed. What it sets holds for the whole
// process, so it belongs into main.
package footprint

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// How much garbage there may be before it is collected: a share of what is alive, but not less than so many bytes. Where
// little is alive, a share alone would have a busy program mark it over and over.
const (
	share = 50 // percent
	busy  = 48 << 20
	calm  = 12 << 20
	// often is the time between two collections below which a program counts as busy.
	often = 2 * time.Second
	// over is how long after its last collection a busy time is over.
	over = 5 * time.Second
	// starting is the percentage before the first collection, when nothing is known.
	starting = 400
)

// Pace sets the garbage collector's goal anew after each collection, and trims the process when a busy time is over, for as
// long as the process lives. It leaves alone what the environment says (GOGC).
func Pace() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(starting)
	p := &pacer{percent: starting, last: time.Now(), rest: time.AfterFunc(over, Trim)}
	p.rest.Stop()
	p.await()
}

// pacer is used by one finalizer at a time.
type pacer struct {
	percent int
	last    time.Time   // of the last collection
	rest    *time.Timer // trims
}

// beat is garbage from the start: its finalizer runs after the next collection.
type beat struct{ pacer *pacer }

func (p *pacer) await() {
	runtime.SetFinalizer(&beat{p}, func(b *beat) {
		b.pacer.adjust(live(), time.Now())
		b.pacer.await()
	})
}

func (p *pacer) adjust(live uint64, now time.Time) {
	sinceLast := now.Sub(p.last)
	percent := percentFor(live, sinceLast)
	p.last = now
	if sinceLast < often {
		p.rest.Reset(over)
	}
	if percent != p.percent {
		p.percent = percent
		debug.SetGCPercent(percent)
	}
}

// percentFor is the growth that is allowed to a heap of which so many bytes are alive.
func percentFor(live uint64, sinceLast time.Duration) int {
	spare := uint64(calm)
	if sinceLast < often {
		spare = busy
	}
	const step = 10 // setting it stops the world for a moment, so small changes don't count
	return max(share, int(spare*100/max(live, 1<<20))/step*step)
}

// live is what the last collection has found alive, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
