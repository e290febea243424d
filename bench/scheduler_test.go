package bench

import (
	"testing"
	"time"
)

// TestPlacedSoFar measures a scheduler whose time was up with half of the pods placed.
func TestPlacedSoFar(t *testing.T) {
	began := time.Now()
	before := progress{at: began, cpu: time.Second}
	after := progress{at: began.Add(10 * time.Second), placed: scheduledPods / 2, cpu: 2 * time.Second}
	measures, err := before.until(after, 90)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range measures {
		got[m.Name] = m.Value
	}
	if got["pods placed"] != 50 || got["scheduler CPU, each pod"] != 2 || got["scheduler peak resident"] != 90 {
		t.Errorf("%v", got)
	}
	part := measures[1]
	if part.Value != scheduledPods/2 || part.Ratio() != 0.5 {
		t.Errorf("%+v does not tell that half of the pods were left", part)
	}
	if part.Beside = scheduledPods / 4; part.Ahead() != 2 {
		t.Errorf("ahead %v times of a quarter", part.Ahead())
	}
	if _, err := before.until(before, 90); err == nil {
		t.Error("a scheduler that places nothing is measured")
	}
}

func TestReaches(t *testing.T) {
	p := &placement{}
	p.placed.Store(3)
	hour := time.Now().Add(time.Hour)
	if !p.reaches(3, hour)() || p.reaches(4, hour)() {
		t.Error("three pods reach three, and not four")
	}
	if !p.reaches(4, time.Now().Add(-time.Second))() {
		t.Error("waits after its time")
	}
}
