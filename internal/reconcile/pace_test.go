package reconcile

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

// A key with many objects is added once after its pause, however often it is added meanwhile; others at once.
func TestPace(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	added := map[string]int{}
	p := newPace(c, func(key string) { added[key]++ })
	p.looked("small", paceFrom-1)
	p.looked("large", 1000)
	for range 100 {
		p.put("small")
		p.put("large")
	}
	if added["small"] != 100 || added["large"] != 0 {
		t.Errorf("during the pause: %v", added)
	}
	c.Step(1000*paceEvery - 1)
	if added["large"] != 0 {
		t.Errorf("before the end of the pause: %v", added)
	}
	c.Step(1)
	if added["large"] != 1 {
		t.Errorf("after the pause: %v", added)
	}
	if p.put("large"); added["large"] != 2 || len(p.keys) != 0 {
		t.Errorf("after one without a pause: %v, %v", added, p.keys)
	}
	p.looked("large", 1000)
	c.Step(time.Second)
	if p.put("large"); added["large"] != 3 || len(p.keys) != 0 {
		t.Errorf("long after the pause: %v, %v", added, p.keys)
	}
}

// What n objects cost that come one after another grows as n does, and not as its square.
func TestPaceBoundsTheCost(t *testing.T) {
	looks := func(n int) (sum int) {
		synctest.Test(t, func(*testing.T) {
			have := 0
			var p *pace[string]
			p = newPace(clock.RealClock{}, func(key string) {
				sum += have
				p.looked(key, have)
			})
			for range n {
				have++
				p.put("key")
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			time.Sleep(time.Minute) // the last pause
		})
		return sum
	}
	few, many := looks(2000), looks(20000)
	if many > 12*few {
		t.Errorf("%d objects are looked at for 2,000, %d for 20,000", few, many)
	}
}

// Pauses of keys follow each other, and wait for each other no longer than longestPause.
func TestPaceOfManyKeys(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(0, 0))
	var added []int
	p := newPace(c, func(key int) { added = append(added, key) })
	keys := int(longestPause/(1000*paceEvery)) + 100
	for key := range keys {
		p.looked(key, 1000)
		p.put(key)
	}
	for at := range 10 {
		if len(added) != at {
			t.Fatalf("%d keys are added after %d pauses", len(added), at)
		}
		c.Step(1000 * paceEvery)
	}
	c.Step(longestPause)
	if len(added) != keys {
		t.Errorf("%d of %d keys are added after the longest pause", len(added), keys)
	}
	p.looked(0, 1000)
	p.put(0)
	if c.Step(1000 * paceEvery); len(added) != keys+1 {
		t.Error("a key waits for pauses that are over")
	}
}
