package scheduler

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TestStandbyTakesOver stops the leader and sees the other replica go on.
func TestStandbyTakesOver(t *testing.T) {
	election := DefaultLeader()
	election.LeaseDuration, election.RenewDeadline, election.RetryPeriod = time.Minute, 40*time.Second,
		10*time.Millisecond
	c := start(t, Config{Leader: election, Identity: "one"}, newNode("a", "4"), newPod("first", "1"))
	c.bound("first", "a")

	standby, err := New(Config{Client: c.client, Leader: election, Identity: "two", InitialBackoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- standby.Run(ctx) }()
	c.stop()
	c.createPod(newPod("second", "1"))
	c.bound("second", "a")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestExplain(t *testing.T) {
	tainted := newNode("b", "4")
	tainted.Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
	c := start(t, Config{}, newNode("a", "4"), tainted, newPod("p", "1"))
	c.bound("p", "a")
	d, err := c.scheduler.Explain(newPod("asked", "1"))
	if err != nil {
		t.Fatal(err)
	}
	if d.Node != "a" || len(d.Refused) != 1 || d.Refused[0].Plugin != "TaintToleration" || len(d.Scores) != 1 {
		t.Errorf("explanation %+v", d)
	}
	stranger := newPod("asked", "1")
	stranger.Spec.SchedulerName = "other"
	if _, err := c.scheduler.Explain(stranger); err == nil {
		t.Error("a pod of another scheduler was explained")
	}
}
